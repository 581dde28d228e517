"""A later base for an index that has grown far beyond the one that it is on top of."""

import logging
import multiprocessing
import os
from pathlib import Path
from threading import Thread

from filelock import FileLock, Timeout

from backends.errors import BackendError
from backends.store.derived import FOLDER
from backends.store.index import PassageStore
from router.session import Snapshot
from router.settings import Settings

LOCK = ".lock"

log = logging.getLogger(__name__)


class Deriving:
    """A process that derives everything from the newest version, and keeps it beside the index.

    It takes what the processor has left. One of all processes does it; whatever ends it, what is
    there stays as it was. Whoever follows the index moves over when all is there.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        """Start it."""
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(target=derive, args=(folder, settings), daemon=True)
        self._process.start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    def stop(self) -> None:
        """End it, whatever it is at."""
        self._process.kill()
        self._process.join()


def derive(folder: Path, settings: Settings) -> None:
    """What the process does; nothing where another one is at it."""
    os.nice(19)
    Thread(target=_end_with_parent, daemon=True).start()
    lock = FileLock(folder / FOLDER / LOCK, blocking=False, fallback_to_soft=False)
    try:
        with lock:
            Snapshot.derive(PassageStore.open(folder), settings)
    except Timeout:
        return  # another process is at it
    except (BackendError, OSError) as error:
        log.warning("No new base was made of %s, and the one there is goes on: %s.", folder, error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
