"""Runs each kind of write on a disk that fails; `test_failing_writes.py` preloads `failing.c`.

    python -m tests.failing.writes FOLDER KIND MODE EVERY

Prints a line of JSON: how many file operations a run of KIND has, and what was lost.
"""

import ctypes
import errno
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import backends.store.index
from backends.store.documents import list_documents
from backends.store.index import PassageStore
from backends.store.ingest import ingest
from backends.store.repair import repair
from backends.store.snapshot import read_corpus
from backends.store.versions import PASSAGES
from backends.types import Passage
from tests.hashing import HashAnalyser

MODES = {"once": 0, "onwards": 1}
ERRORS = (errno.ENOSPC, errno.EIO)
State = dict[str, list[tuple[str, str, str]]]


def passage(document: str, chunk: int, text: str, **metadata: int) -> Passage:
    return Passage(f"{document}#{chunk:04d}", document, text, metadata, document, chunk)


def corpus(revision: int = 0, **metadata: int) -> list[Passage]:
    return [
        passage(
            f"d{n}", chunk, f"Anna{n} met Bob{chunk} in {revision if n < 3 else 0}.", **metadata
        )
        for n in range(6)
        for chunk in range(2)
    ]


def store(folder: Path, passages: list[Passage]) -> None:
    analyser = HashAnalyser()
    index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
    ingest(index, passages, analyser, entity_vectors=True)


def put(folder: Path) -> None:
    store(folder, [*corpus(revision=1), passage("new", 0, "Carl met Dora.")])


def change_metadata(folder: Path) -> None:
    store(folder, corpus(year=1850))


def delete(folder: Path) -> None:
    with PassageStore.open(folder).writer() as writer:
        writer.delete(["d1#0000", "d1#0001", "d4#0000", "d4#0001"])


def compact(folder: Path) -> None:
    with PassageStore.open(folder).writer() as writer:
        writer.compact()


def repair_(folder: Path) -> None:
    repair(folder, dry_run=False)


def derive(folder: Path) -> None:
    read_corpus(PassageStore.open(folder))


KINDS: dict[str, Callable[[Path], None]] = {
    "put": put,
    "metadata": change_metadata,
    "delete": delete,
    "compact": compact,
    "repair": repair_,
    "derive": derive,
}


def prepare(folder: Path, kind: str) -> None:
    """An index of several fragments with deleted rows; for a repair, with a damaged file."""
    store(folder, corpus())
    store(folder, [passage("later", 0, "Eve met Fred."), passage("gone", 0, "Gus met Hal.")])
    with PassageStore.open(folder).writer() as writer:
        writer.delete(["gone#0000"])
    if kind == "repair":
        newest = max((folder / PASSAGES / "data").iterdir(), key=lambda path: path.stat().st_mtime)
        newest.write_bytes(newest.read_bytes()[:-50])


def state(folder: Path) -> State:
    found = list_documents(folder).documents
    return {
        document.id: [(p.id, p.text, json.dumps(p.metadata)) for p in document.passages]
        for document in found
    }


def lost(folder: Path, kind: str, before: State, after: State, error: str) -> str:
    """What a failed write did that it must not do; "" if nothing."""
    try:
        now = state(folder)
        if not error and now != after:
            return "acknowledged, and not there"
        if now not in (before, after):
            return f"neither the former nor the new state after {error}"
        KINDS[kind](folder)
        if state(folder) != after:
            return f"not there when written again, after {error}"
    except Exception as fault:  # noqa: BLE001 - every one is a finding
        return f"{type(fault).__name__} after {error or 'success'}: {fault}"[:300]
    return ""


def main(folder: Path, kind: str, mode: str, every: int) -> None:
    vars(backends.store.index)["KEPT_FROM"] = 1
    failing = ctypes.CDLL(None)
    failing.operation.restype = ctypes.c_char_p
    base, scratch = folder / "base", folder / "scratch"
    prepare(base, kind)
    before: State = {} if kind == "repair" else state(base)
    shutil.copytree(base, scratch)
    failing.fail_at(str(scratch).encode(), 0, 0, 0)
    KINDS[kind](scratch)
    steps, after = int(failing.counted()), state(scratch)
    failing.fail_at(b"", 0, 0, 0)
    faults: list[str] = []
    outcomes = Counter[str]()
    for number in range(1, steps + 1, every):
        code = ERRORS[number % 2]
        shutil.rmtree(scratch)
        shutil.copytree(base, scratch)
        failing.fail_at(str(scratch).encode(), number, MODES[mode], code)
        error = ""
        try:
            KINDS[kind](scratch)
        except Exception as fault:  # noqa: BLE001 - any error is an answer
            error = f"{type(fault).__name__}"
        operation = failing.operation(number).decode()
        failing.fail_at(b"", 0, 0, 0)
        outcomes["error" if error else "done"] += 1
        if why := _harm(scratch, kind, before, after, error):
            faults.append(f"{operation}: {why}")
    sys.stdout.write(json.dumps({"steps": steps, "outcomes": outcomes, "faults": faults}) + "\n")


def _harm(folder: Path, kind: str, before: State, after: State, error: str) -> str:
    if kind == "repair" and error:  # it is damaged until the repair succeeds
        try:
            KINDS[kind](folder)
        except Exception as fault:  # noqa: BLE001
            return f"no repair after {error}: {type(fault).__name__}: {fault}"[:300]
        return "" if state(folder) == after else f"another state after {error}"
    return lost(folder, kind, before, after, error)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
