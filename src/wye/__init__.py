"""Wye as a library: open an index, add documents, search, and see which route a question takes.

>>> import wye
>>> bridge = wye.Document(
...     id="mostar", title="Stari Most", text="The Old Bridge of Mostar spans the Neretva.",
...     metadata={"year": 1566},
... )
>>> river = wye.Document(
...     id="neretva", title="Neretva", text="The Neretva flows into the Adriatic Sea.",
... )
>>> with wye.create("my-index") as index:
...     added = index.add([bridge, river]).added
...     hits = index.search("Where does the river beneath the Old Bridge flow?", route="graph")
...     decision = index.route("When was the Old Bridge built?")
>>> added
2
>>> [(hit.rank, hit.title) for hit in hits]
[(1, 'Stari Most'), (2, 'Neretva')]
>>> 0 < decision.score < 1
True

`wye.open` opens an existing index, `wye.read` reads files and folders of documents, and every error
that a caller can correct is a `wye.Error`. Settings come from the environment, as for the command
`wye`, unless others are given. An index may be used by one thread at a time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wye.backends.store.ingest import IngestReport
    from wye.backends.types import Passage
    from wye.hits import Hit, Hits
    from wye.library import Document, Error, Index, Reading, create, open, read  # noqa: A004
    from wye.router.settings import Settings
    from wye.router.types import Decision, Route

__all__ = [
    "Decision",
    "Document",
    "Error",
    "Hit",
    "Hits",
    "Index",
    "IngestReport",
    "Passage",
    "Reading",
    "Route",
    "Settings",
    "create",
    "open",
    "read",
]


def __getattr__(name: str) -> object:
    """Load the library when it is first used, so that `wye --help` answers at once."""
    if name in __all__:
        return getattr(import_module("wye.library"), name)
    raise AttributeError(f"module 'wye' has no attribute {name!r}")
