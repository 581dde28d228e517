"""Versions, thresholds and keys are followed."""

import time
from pathlib import Path

import pytest

from tests.live import until
from tests.service.conftest import BRIDGES
from tests.service.fakes import Library, Serve
from wye.backends.store.documents import Removal, remove
from wye.backends.types import Passage
from wye.service.collections import IndexCollection
from wye.service.http.auth import Scope, new_key
from wye.service.settings import ServeSettings


def test_an_error_ends_neither_the_following_of_keys_nor_that_of_versions(
    serve: Serve, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: IndexCollection) -> bool:
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
        patched.setattr(IndexCollection, "renew", broken)
        library.newer = Library(version=2)
        file.write_text(f"{stays}\n")
        until(lambda: client.get("/v1/stats", headers={"x-api-key": secret}).status_code == 401)
        assert version() == 1
    until(lambda: version() == 2)


def test_a_deletion_by_another_process_is_followed_within_a_second(
    start: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    renew = IndexCollection.renew

    def noted(self: IndexCollection) -> bool:
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

    monkeypatch.setattr(IndexCollection, "renew", noted)
    client = start(ServeSettings())
    # A busy machine may be slower for one of them.
    assert min(map(takes, BRIDGES)) < 1
