"""What is imported: without parts that libraries load along, and in processes beside this one."""

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from multiprocessing.context import SpawnContext, SpawnProcess
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


class HelperProcess(SpawnProcess):
    """A process that does not run the program's script, which may have no guard against that."""

    def start(self) -> None:
        """Start with an empty module in the place of the script, which Python would run first."""
        script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            with safe_path():
                super().start()
        finally:
            sys.modules["__main__"] = script


class HelperContext(SpawnContext):
    """Makes such processes."""

    Process = HelperProcess


def end_with_parent() -> None:
    """Exit when the parent ends, since a killed parent cannot end what it started."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
