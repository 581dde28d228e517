"""Makes a new base, in a separate process, for an index that has outgrown the present one."""

import logging
import os
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from filelock import FileLock, Timeout

from wye.backends.errors import BackendError
from wye.backends.store.derived import FOLDER
from wye.backends.store.index import PassageStore
from wye.featurizer.imports import HelperProcess, end_with_parent
from wye.router.settings import Settings
from wye.router.snapshot import Snapshot

LOCK = ".lock"

log = logging.getLogger(__name__)


def start_deriving(folder: Path, settings: Settings) -> BaseProcess:
    """Start a process that derives everything from the newest version and writes it to the index.

    It has the lowest priority, and a lock lets only one such process run per index. If it is
    killed, the present base stays. Readers move to the new base once it is complete.
    """
    process = HelperProcess(target=derive, args=(folder, settings), daemon=True)
    process.start()
    return process


def derive(folder: Path, settings: Settings) -> None:
    """Body of the process; returns at once if another process holds the lock."""
    os.nice(19)
    Thread(target=end_with_parent, daemon=True).start()
    lock = FileLock(folder / FOLDER / LOCK, blocking=False, fallback_to_soft=False)
    try:
        with lock:
            Snapshot.derive(PassageStore.open(folder), settings)
    except Timeout:
        return  # another process is doing it
    except (BackendError, OSError) as error:
        log.warning(
            "The base of %s was not rebuilt, and the old one stays in use: %s.", folder, error
        )
