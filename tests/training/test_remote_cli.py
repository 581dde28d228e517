"""`wye train` and `wye tune` on remote arms: told, asked for, kept, and learned from."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import DEMO
from router.passage_routing import load_passage_router
from service.app import build
from service.arms.local import open_search
from service.cli import run
from service.errors import ServiceError
from service.settings import ServeSettings, ServiceSettings
from tests.live import inside
from tests.service.arms.fakes import Remote, arms_file, table
from tests.training.remote_town import BRIDGES, question, write_arms, write_dataset


@pytest.fixture
def servers() -> Iterator[tuple[Remote, Remote]]:
    made = Remote(), Remote()
    yield made
    for one in made:
        one.close()


@pytest.fixture
def town(
    tmp_path: Path, servers: tuple[Remote, Remote], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Options of a command over the arms."""
    monkeypatch.chdir(tmp_path)
    arms = write_arms(tmp_path, *servers)
    data = write_dataset(tmp_path / "town")
    return ["--questions", str(data), "--arms", str(arms), "--cache", str(tmp_path / "cache")]


def test_a_router_is_learned_and_serves_the_same_arms(
    town: list[str],
    servers: tuple[Remote, Remote],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, dear = servers
    code = run(["train", *town, "--yes", "--no-elsewhere", "--name", "town"])
    told = capsys.readouterr()
    assert code in {0, 1}, told.err
    assert "'dear' 60 questions: that costs 1.2 and takes" in told.err
    assert "A price of 0.02 counts as 2000 ms" in told.err
    assert len(dear.asked) == BRIDGES
    folder = tmp_path / "models" / "town" / "v1"
    assert load_passage_router(folder).policy.simple == "hybrid"
    settings = ServiceSettings(
        arms=tmp_path / "wye.toml",
        router={"model": str(folder)},  # type: ignore[arg-type]
    )
    with inside(build(settings)) as client:
        taken = [
            client.post("/v1/retrieve", json={"question": question(number)}).json()["route"]["path"]
            for number in range(20)
        ]
    assert [one == "fusion" for one in taken] == [bool(number % 2) for number in range(20)]

    asked = len(dear.asked)
    assert run(["tune", *town, "--router", str(folder), "--out", "thresholds.json"]) == 0
    assert len(dear.asked) == asked  # all is kept, and costs nothing
    assert json.loads(Path("thresholds.json").read_text("utf-8"))["simple"] == "hybrid"


def test_relevance_is_fitted_to_what_arms_said_and_told_in_replies(
    town: list[str],
    servers: tuple[Remote, Remote],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, dear = servers
    assert run(["train", "--relevance", *town, "--yes", "--name", "town"]) == 0
    assert 'relevance = "models/relevance-town"' in capsys.readouterr().out
    assert "| dear+hybrid | 48 |" in Path("models/relevance-town/CARD.md").read_text("utf-8")
    assert len(dear.asked) == 48  # the test split is nobody's to learn from

    file = tmp_path / "wye.toml"
    declared = file.read_text("utf-8")
    file.write_text('relevance = "models/relevance-town"\n' + declared, "utf-8")
    settings = ServiceSettings(arms=file)
    with inside(build(settings)) as client:
        for route, number in (("hybrid", 8), ("graph", 9), ("fusion", 9), ("auto", 9)):
            body = {"question": question(number), "route": route, "k": 10}
            reply = client.post("/v1/retrieve", json=body).json()
            chances = [one["relevance"] for one in reply["passages"]]
            gold = next(one for one in reply["passages"] if f"maker{number}" in one["id"])
            assert gold["relevance"] == max(chances) > 0.2, route
            assert 0 < reply["answerability"] < 1
            assert "relevance_note" not in reply
            least = {**body, "min_relevance": gold["relevance"]}
            kept = client.post("/v1/retrieve", json=least).json()["passages"]
            assert len(kept) == sum(one >= gold["relevance"] for one in chances)
        dify = {"knowledge_id": "default", "query": question(8)}
        wanted = {"retrieval_setting": {"top_k": 3, "score_threshold": 0.2}}
        records = client.post("/v1/dify/retrieval", json={**dify, **wanted}).json()["records"]
        assert [one["score"] >= 0.2 for one in records] == [True] * len(records) != []
        far = {"question": question(8), "route": "hybrid", "k": 50}
        reply = client.post("/v1/retrieve", json=far).json()
        assert reply["passages"][0]["relevance"] is None
        assert reply["relevance_note"]
        dear.mode = 500
        body = {"question": question(9), "route": "fusion", "min_relevance": 0.01}
        reply = client.post("/v1/retrieve", json=body).json()
        assert [one["arm"] for one in reply["missing"]] == ["dear"]
        assert all(one["relevance"] >= 0.01 for one in reply["passages"])

    with open_search(file) as corpus:
        assert all(0 < (hit.relevance or 0) < 1 for hit in corpus.search(question(8), k=2))

    file.write_text(file.read_text("utf-8").replace('"graph"', '"graph"\nweight = 0.5'), "utf-8")
    with pytest.raises(ServiceError, match=r"relevance: .*was fitted for other arms"):
        build(settings)
    for named, says in (
        ("nowhere", "cannot be read"),
        ("", "write a folder"),
        (3, "write a folder"),
    ):
        file.write_text(f"relevance = {json.dumps(named)}\n{declared}", "utf-8")
        with pytest.raises(ServiceError, match=says):
            build(settings)


@pytest.mark.usefixtures("fake_models")
def test_relevance_is_fitted_beside_an_index_as_well(
    servers: tuple[Remote, Remote], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    far, _ = servers
    rows = [json.loads(line) for line in (DEMO / "corpus.jsonl").read_text("utf-8").splitlines()]

    def by_words(asked: Any) -> Any:  # noqa: ANN401 - JSON
        wanted = {*asked["q"].lower().split()}
        rows.sort(key=lambda row: -len(wanted & {*row["text"].lower().split()}))
        found = [{"key": r["_id"], "name": r["title"], "body": r["text"]} for r in rows[:10]]
        return {"found": {"hits": found}}

    far.reply = by_words
    file = arms_file(tmp_path, table(far.url, price=0.0, same_ids=True))
    assert run(["index", str(DEMO), "--index", "index"]) == 0
    asked = ["--questions", str(DEMO), "--arms", str(file), "--cache", "cache", "--yes"]
    assert run(["train", "--relevance", *asked, "--index", "index", "--name", "beside"]) == 0
    file.write_text('relevance = "models/relevance-beside"\n' + file.read_text("utf-8"), "utf-8")
    with inside(build(ServiceSettings(index=tmp_path / "index", arms=file))) as client:
        for route, is_known in (("fusion", True), ("graph", True), ("hybrid", False)):
            body = {"question": "Which bridge was built first?", "route": route, "k": 3}
            reply = client.post("/v1/retrieve", json=body).json()
            known = [one["relevance"] is not None for one in reply["passages"]]
            assert known == [is_known] * 3  # these models have no curves of their own


@pytest.mark.parametrize(("price", "told"), [(0.02, "costs 1.2"), (0.0, "has no known price")])
def test_nobody_to_be_asked_agrees_to_nothing(
    town: list[str],
    servers: tuple[Remote, Remote],
    capsys: pytest.CaptureFixture[str],
    price: float,
    told: str,
) -> None:
    write_arms(Path(), *servers, price=price)
    assert run(["train", *town]) == 2
    err = capsys.readouterr().err
    assert f"'dear' 60 questions: that {told} and takes an unknown time." in err
    assert "agree with --yes" in err
    assert [one.asked for one in servers] == [[], []]


def test_what_fails_is_not_learned_from_and_asked_again(
    town: list[str], servers: tuple[Remote, Remote], capsys: pytest.CaptureFixture[str]
) -> None:
    _, dear = servers
    dear.modes = [500, "garbled"] * 3
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    told = capsys.readouterr().err
    assert "6 questions got no answer: 'dear'" in told
    assert len(dear.asked) == BRIDGES
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    assert "'dear' 6 questions" in capsys.readouterr().err
    assert len(dear.asked) == BRIDGES + 6


def test_a_run_that_is_killed_goes_on_where_it_was(
    town: list[str], servers: tuple[Remote, Remote], tmp_path: Path
) -> None:
    program = "import sys; from service.cli import run; sys.exit(run(sys.argv[1:]))"
    options = ["train", *town, "--yes", "--per-second", "10"]
    command = [sys.executable, "-c", program, *options]
    running = subprocess.Popen(command, cwd=tmp_path, env={**os.environ}, stderr=subprocess.PIPE)
    kept = tmp_path / "cache" / "remote" / "answers.jsonl"
    try:
        patience = time.monotonic() + 60
        while not kept.is_file() or kept.read_bytes().count(b"\n") < 5:
            assert time.monotonic() < patience
            time.sleep(0.02)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    done = kept.read_bytes().count(b"\n")
    with kept.open("ab") as file:
        file.write(b'{"key": "half a li')
    before = sum(len(one.asked) for one in servers)
    assert before - done <= 2  # what was under way
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    assert sum(len(one.asked) for one in servers) - before == 2 * BRIDGES - done


def test_a_pace_is_kept(town: list[str], servers: tuple[Remote, Remote]) -> None:
    started = time.monotonic()
    run(["tune", *town, "--yes", "--per-second", "20", "--out", "t.json"])
    assert time.monotonic() - started >= (BRIDGES / 5 - 1) / 20 * 0.9
    assert len(servers[1].asked) == BRIDGES / 5


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["tune", "--arms", "wye.toml"], "together"),
        (["train", "--questions", "town"], "Which index answers"),
        (["train", "--questions", "town", "--arms", "none.toml"], "cannot be read"),
        (["train", "--questions", "town", "--arms", "wye.toml", "--features", "all"], "leave"),
    ],
)
def test_what_cannot_be_is_said(
    town: list[str], command: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 2
    assert says in capsys.readouterr().err


def test_a_log_with_feedback_and_shadows_is_learned_from(
    town: list[str],
    servers: tuple[Remote, Remote],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cheap, dear = servers
    arms = tmp_path / "wye.toml"
    arms.write_text("shadow = 1.0\n" + arms.read_text("utf-8"), encoding="utf-8")
    log, low = tmp_path / "requests.jsonl", tmp_path / "low.json"
    low.write_text(
        '{"low": 1.0, "high": 1.0, "simple": "hybrid", "latency_ms": {}}', encoding="utf-8"
    )
    settings = ServiceSettings(
        arms=arms,
        serve=ServeSettings(request_log=log, thresholds=(str(low),), refresh_seconds=0.02),
    )
    with inside(build(settings)) as client:
        for number in range(BRIDGES):
            reply = client.post("/v1/retrieve", json={"question": question(number)}).json()
            said = {
                "request_id": reply["request_id"],
                "rating": "good",
                "passages": [f"maker{number}"],
            }
            assert client.post("/v1/feedback", json=said).status_code < 300
        patience = time.monotonic() + 60
        while log.read_text("utf-8").count('"shadow"') < BRIDGES:
            assert time.monotonic() < patience
            time.sleep(0.05)
    asked = len(cheap.asked), len(dear.asked)
    assert asked == (BRIDGES, BRIDGES)
    options = ["--arms", str(arms), *town[-2:], "--yes", "--no-elsewhere", "--name", "logged"]
    assert run(["train", "--from-log", str(log), *options]) in {0, 1}
    told = capsys.readouterr().err
    assert f"Questions with feedback: {BRIDGES}; answers in the log: {BRIDGES}." in told
    assert (len(cheap.asked), len(dear.asked)) == (2 * BRIDGES, BRIDGES)  # nothing dear again
    assert load_passage_router(tmp_path / "models" / "logged" / "v1").policy.simple == "hybrid"
    assert run(["train", "--from-log", str(log)]) == 2
