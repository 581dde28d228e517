"""The console: files that are served as they are, where there are any."""

from pathlib import Path

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

CONSOLE = Path(__file__).parent / "ui"


def mount(app: FastAPI, folder: Path) -> None:
    """Serve a folder with an index.html at every address that nothing else has.

    Its files hold no data, so they need no key; what they ask for does.

    Args:
        app: With all of its addresses.
        folder: May be missing, and then nothing is served.
    """
    if (folder / "index.html").is_file():
        app.mount("/", StaticFiles(directory=folder, html=True), name="console")
