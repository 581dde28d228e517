"""The console: files that are served as they are, where there are any."""

from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

CONSOLE = Path(__file__).parents[1] / "ui"


class _Files(StaticFiles):
    """Files that browsers ask about before each use: those of two releases do not go together."""

    def __init__(self, folder: Path, routes: Sequence[BaseRoute]) -> None:
        """Serve a folder beside other addresses.

        Args:
            folder: With an index.html.
            routes: The other addresses.
        """
        super().__init__(directory=folder, html=True)
        self._routes = list(routes)

    async def get_response(self, path: str, scope: Scope) -> Response:
        # An address that exists, asked with a method that it does not take, ends up here too.
        if any(route.matches(scope)[0] == Match.PARTIAL for route in self._routes):
            raise HTTPException(405)
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
        app.mount("/", _Files(folder, app.routes), name="console")
