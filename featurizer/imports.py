"""Imports without parts of others that libraries would load along, or from the working folder."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Self


class ImportingWithout(MetaPathFinder):
    """A context in which optional modules count as not installed, for this thread's imports.

    No module is replaced: one that is loaded already stays, other threads can import the modules
    meanwhile, and afterwards everybody can.
    """

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)
        self._thread = get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse the modules, and leave all others to Python's own finders."""
        del path, target
        if fullname in self._names and get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is not imported here", name=fullname)
        return None

    def __enter__(self) -> Self:
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)


@contextmanager
def safe_path() -> Iterator[None]:
    """Have processes that start meanwhile import nothing from the working folder."""
    name = "PYTHONSAFEPATH"
    before = os.environ.setdefault(name, "")
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ[name] = before
