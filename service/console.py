"""The console: files that are served as they are, where there are any."""

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

CONSOLE = Path(__file__).parent / "ui"


class _Files(StaticFiles):
    """Files that browsers ask about before each use: those of two releases do not go together."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        reply = await super().get_response(path, scope)
        reply.headers.setdefault("cache-control", "no-cache")
        return reply


def mount(app: FastAPI, folder: Path) -> None:
    """Serve a folder with an index.html at every address that nothing else has.

    Its files hold no data, so they need no key; what they ask for does.

    Args:
        app: With all of its addresses.
        folder: May be missing, and then nothing is served.
    """
    if (folder / "index.html").is_file():
        app.mount("/", _Files(directory=folder, html=True), name="console")
