"""Versions, thresholds and keys are followed, and it is known which version a process searches."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.store.documents import Removal, remove
from backends.types import Passage
from service.collections import Collection
from service.http.keys import Scope, new_key
from service.refresh import ServedVersions
from service.settings import ServeSettings
from tests.live import until
from tests.service.conftest import BRIDGES
from tests.service.fakes import Library, Serve


def test_an_error_ends_neither_the_following_of_keys_nor_that_of_versions(
    serve: Serve, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Collection) -> bool:
        raise RuntimeError("can't start new thread")

    file = tmp_path / "keys.txt"
    (secret, key), (other, stays) = (new_key(name, [Scope.ADMIN]) for name in ("ada", "bob"))
    file.write_text(f"{key}\n{stays}\n")
    client = serve(library, keys_file=file)
    client.headers["x-api-key"] = other

    def version() -> int:
        (facts,) = client.get("/ready").json()["collections"]
        return int(facts["index_version"])

    with monkeypatch.context() as patched:
        patched.setattr(Collection, "renew", broken)
        library.newer = Library(version=2)
        file.write_text(f"{stays}\n")
        until(lambda: client.get("/v1/stats", headers={"x-api-key": secret}).status_code == 401)
        assert version() == 1
    until(lambda: version() == 2)


def test_a_deletion_by_another_process_is_followed_within_a_second(
    start: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    renew = Collection.renew

    def noted(self: Collection) -> bool:
        looks.append(renew(self))
        return looks[-1]

    def takes(passage: Passage) -> float:
        """Seconds until a deletion that comes right after a look is followed."""
        last, body = len(looks), {"question": passage.title, "route": "lexical"}
        until(lambda: len(looks) > last)
        assert client.post("/v1/retrieve", json=body).json()["passages"][0]["id"] == passage.id
        begun = time.monotonic()
        remove(folder, Removal(ids=(passage.id,)))
        until(lambda: passage.id not in client.post("/v1/retrieve", json=body).text)
        return time.monotonic() - begun

    monkeypatch.setattr(Collection, "renew", noted)
    client = start(ServeSettings())
    # A busy machine may be slower for one of them.
    assert min(map(takes, BRIDGES)) < 1


def test_processes_that_live_are_waited_for(tmp_path: Path) -> None:
    mine, other = ServedVersions(tmp_path), ServedVersions(tmp_path)
    assert mine.behind(1) == []
    mine.announce(3)
    other.announce(2)
    assert (len(mine.behind(3)), mine.behind(2)) == (1, [])
    other.announce(3)
    assert mine.behind(3) == []
    other.leave()
    assert mine.behind(9) == []
    with pytest.raises(FileNotFoundError):
        ServedVersions(tmp_path / "nowhere").announce(1)


def test_a_process_that_was_killed_is_waited_for_no_longer(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from service.refresh import ServedVersions\n"
        "ServedVersions(Path(sys.argv[1])).announce(1); print('x', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        mine = ServedVersions(tmp_path)
        assert len(mine.behind(2)) == 1
        process.kill()
        process.wait()
        assert mine.behind(2) == []
    assert list((tmp_path / "jobs" / "readers").iterdir()) == []


@pytest.mark.parametrize(("refused", "waited_for"), [(os.O_RDWR, (False, True)), (~0, (True,) * 2)])
def test_another_users_process_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int, waited_for: tuple[bool, ...]
) -> None:
    """Its file can be read and not written, or not even read."""
    mine, other = ServedVersions(tmp_path), ServedVersions(tmp_path)
    opened = os.open

    def as_nobody(path: Path, flags: int, *mode: int) -> int:
        if refused == ~0 or flags & refused:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode)

    other.announce(3)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", as_nobody)
        assert tuple(bool(mine.behind(version)) for version in (3, 4)) == waited_for
    other.leave()
    assert mine.behind(4) == []
