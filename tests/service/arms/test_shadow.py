"""Arms that are asked in the background, for what was answered without them."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.arms.file import shadow_share
from service.arms.shadow import QUEUE
from service.errors import ServiceError
from tests.service.arms.fakes import Remote, arms_file, table
from tests.service.fakes import Library

SIMPLE = "What river?"
COSTLY = "In which of the towns by the river Neretva is it?"
Start = Callable[..., TestClient]


@pytest.fixture
def start(
    serve: Callable[..., TestClient], library: Library, remote: Remote, tmp_path: Path, log: Path
) -> Start:
    """A server with the arm far in shadow mode; keyword arguments are of its table."""

    def one(*, share: float = 1.0, **changes: Any) -> TestClient:  # noqa: ANN401
        path = arms_file(tmp_path, f"shadow = {share}", table(remote.url, **changes))
        return serve(library, arms=path, request_log=log)

    return one


def ask(client: TestClient, question: str = SIMPLE) -> dict[str, Any]:
    reply = client.post("/v1/retrieve", json={"question": question})
    assert reply.status_code == 200
    found: dict[str, Any] = reply.json()
    return found


def lines(log: Path, kind: str) -> list[dict[str, Any]]:
    rows = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["kind"] == kind]


def until(done: Callable[[], bool]) -> None:
    patience = time.monotonic() + 20
    while not done():
        assert time.monotonic() < patience
        time.sleep(0.01)


def counted(client: TestClient, outcome: str) -> float:
    pattern = rf'wye_arm_shadow_total{{arm="far",outcome="{outcome}"}} (\S+)'
    found = re.search(pattern, client.get("/metrics").text)
    return float(found[1]) if found else 0.0


def test_what_was_answered_without_it_is_asked_later(
    start: Start, remote: Remote, log: Path
) -> None:
    client = start()
    reply = ask(client)
    assert (reply["spent"], reply["saved"]) == (0.0, 0.02)
    until(lambda: bool(lines(log, "shadow")))
    (line,) = lines(log, "shadow")
    assert (line["request_id"], line["question"]) == (reply["request_id"], SIMPLE)
    assert line["simple"] == [one["id"] for one in reply["passages"]]
    assert [id_ for id_, _ in line["found"]] == ["span", "mostar"]
    assert {*line["fused"]} >= {"far:span"}
    assert (line["arm"], line["spent"]) == ("far", 0.02)
    assert counted(client, "asked") == 1
    assert client.get("/v1/stats").json()["spent"] == 0.02
    assert len(remote.asked) == 1


def test_what_asked_it_has_its_list_in_the_log_too(start: Start, log: Path) -> None:
    ask(start(), COSTLY)
    (line,) = lines(log, "retrieval")
    assert [id_ for id_, _ in line["ranked"][0]["found"]] == ["span", "mostar"]
    assert lines(log, "shadow") == []


def test_it_is_off_where_nobody_asks_for_it(
    serve: Callable[..., TestClient], library: Library, remote: Remote, tmp_path: Path, log: Path
) -> None:
    path = arms_file(tmp_path, table(remote.url))
    ask(serve(library, arms=path, request_log=log))
    time.sleep(0.2)
    assert remote.asked == []


def test_replies_wait_for_nothing_and_too_many_are_dropped(
    start: Start, remote: Remote, log: Path
) -> None:
    client = start(timeout_ms=5000)
    remote.mode = "hang"
    for _ in range(QUEUE + 5):
        started = time.perf_counter()
        ask(client)
        assert time.perf_counter() - started < 2
    until(lambda: counted(client, "dropped") >= 3)
    assert len(lines(log, "retrieval")) == QUEUE + 5


@pytest.mark.parametrize("outcome", ["failed", "busy"])
def test_what_comes_to_nothing_is_counted(
    start: Start, remote: Remote, log: Path, outcome: str
) -> None:
    client = start(max_concurrency=1 if outcome == "busy" else 8)
    remote.mode = 500
    ask(client)
    until(lambda: counted(client, outcome) == 1)
    assert lines(log, "shadow") == []


@pytest.mark.parametrize("said", ["2", "-0.1", "true", '"5 %"', "nan"])
def test_a_share_is_one_from_0_to_1(tmp_path: Path, remote: Remote, said: str) -> None:
    path = arms_file(tmp_path, f"shadow = {said}", table(remote.url))
    with pytest.raises(ServiceError, match="share from 0 to 1"):
        shadow_share(path)


def test_it_takes_a_request_log(
    serve: Callable[..., TestClient], library: Library, remote: Remote, tmp_path: Path
) -> None:
    path = arms_file(tmp_path, "shadow = 0.5", table(remote.url))
    with pytest.raises(ServiceError, match="REQUEST_LOG"):
        serve(library, arms=path)
