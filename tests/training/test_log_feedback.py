"""From a server's log to thresholds: served, asked, rated, and tuned on a small town."""

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.docs.examples import block_with, perform
from tests.fakes import ReadingAnalyser
from tests.training.made import HAND, logged, rated, write_town
from wye.router.model_files import read_policy
from wye.router.types import Route
from wye.service.app import build
from wye.service.cli import run
from wye.service.settings import load_settings
from wye.training.data import Question
from wye.training.log_replay import NEEDED, feedback_dataset, read_log

STREETS = NEEDED // 2 + 5
ONLY_HOPS = {"type": "ne", "key": "kind", "value": "gate"}
Wye = Callable[..., tuple[int, str, str]]


pytestmark = pytest.mark.usefixtures("no_encoder")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_town(tmp_path_factory.mktemp("town") / "town", streets=STREETS)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    folder = tmp_path_factory.mktemp("index") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", ReadingAnalyser)
        assert run(["index", str(dataset), "--index", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def router(
    tmp_path_factory: pytest.TempPathFactory, handmade_router: Callable[[Path, str, float], Path]
) -> Path:
    """Sure that no question needs the graph: chains score 0.27, and single facts 0.05."""
    return handmade_router(tmp_path_factory.mktemp("models"), "wh_phrases", 3.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, dataset: Path, index: Path, router: Path) -> Path:
    """What is left of an afternoon: every question asked, and what answers it marked.

    The last one is asked with a filter, and its feedback names a passage that is gone as well.
    """
    path = tmp_path_factory.mktemp("log") / "requests.jsonl"
    lines = (dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    questions = {row["_id"]: row["text"] for row in map(json.loads, lines)}
    gold: dict[str, list[str]] = {}
    for qrels in sorted((dataset / "qrels").glob("*.tsv")):
        for line in qrels.read_text(encoding="utf-8").splitlines():
            id_, passage, _ = line.split("\t")
            gold.setdefault(id_, []).append(passage)
    *_, last = questions
    gold[last].append("gone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", ReadingAnalyser)
        patch.setenv("WYE_INDEX", str(index))
        patch.setenv("WYE_ROUTER__MODEL", str(router))
        patch.setenv("WYE_SERVE__REQUEST_LOG", str(path))
        with TestClient(build(load_settings()), base_url="http://localhost") as client:
            while client.get("/ready").status_code != 200:
                time.sleep(0.01)
            for id_, text in questions.items():
                asked = {"question": text, **({"filter": ONLY_HOPS} if id_ == last else {})}
                reply = client.post("/v1/retrieve", json=asked).json()
                said = {"request_id": reply["request_id"], "rating": "good", "passages": gold[id_]}
                assert client.post("/v1/feedback", json=said).status_code == 201
    return path


@pytest.fixture
def tune(wye: Wye, router: Path, index: Path, log: Path, tmp_path: Path) -> Wye:
    """Tune from the log and the index; exit code, what was printed as one line, and messages."""

    def call(*more: str | Path, path: Path = log) -> tuple[int, str, str]:
        own = ["tune", "--from-log", path, "--router", router, "--index", index]
        own += ["--cache", tmp_path / "cache", "--no-elsewhere", *more]
        code, out, err = wye(*own)
        return code, " ".join(out.split()), err

    return call


def test_feedback_stands_for_judgements(tune: Wye, tmp_path: Path, log: Path) -> None:
    out = tmp_path / "thresholds.json"
    code, printed, _ = tune("--out", out)
    assert code == 0
    n = 2 * STREETS
    assert f"{n} decisions by handmade/v1" in printed
    assert f"handmade/v1 on {n} questions" in printed
    assert "These judgements are biased" in printed
    assert f"{n} different questions with passages marked as answers" in printed
    assert "share of graph 0.0% 50.0%" in printed
    assert "same route as now 1.0000 0.5000" in printed

    policy = read_policy(out)
    assert 0.05 < policy.thresholds.low <= policy.thresholds.high < 0.27
    assert {*policy.latency_ms} == {Route.LEXICAL, Route.FUSION, Route.GRAPH, Route.STEPS}
    text = out.read_text(encoding="utf-8")
    notes = json.loads(text)["notes"]
    assert notes["from"].startswith("feedback in a request log: partial")
    assert notes["log"]["questions with marked passages"] == n
    assert notes["questions"] == n
    assert notes["instead_of"] == {"low": 0.4, "high": 0.6, "steps": 0.0}
    assert notes["replays"] == ["log-default, dev"]
    assert notes["interval of the change in quality"][0] > 0
    assert "Where did" not in text

    replies = {*(tmp_path / "cache" / "logs").rglob("output.pkl")}
    assert stat.S_IMODE((tmp_path / "cache" / "logs").stat().st_mode) == 0o700
    made = {path: path.stat().st_mtime_ns for path in replies}
    assert made
    code, printed, _ = tune()
    assert (code, "Nothing is written; --out FILE writes the proposed thresholds." in printed) == (
        0,
        True,
    )
    assert {path: path.stat().st_mtime_ns for path in replies} == made


def test_too_little_feedback_writes_nothing(tune: Wye, tmp_path: Path, log: Path) -> None:
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    few = tmp_path / "few.jsonl"
    few.write_text("".join(lines[: 2 * NEEDED - 2]), encoding="utf-8")
    out = tmp_path / "thresholds.json"
    code, printed, err = tune("--out", out, path=few)
    assert (code, out.exists()) == (2, False)
    assert printed == ""  # no tables before the refusal
    assert err.startswith(
        f"Error: Thresholds need {NEEDED} questions with feedback that names passages of the "
        f"index, and the log has {NEEDED - 1}: solved on fewer, they are often worse than"
    )
    assert not (tmp_path / "cache").exists()


def test_passages_that_are_gone_are_no_judgements(tune: Wye, tmp_path: Path, log: Path) -> None:
    text = log.read_text(encoding="utf-8")
    for n in range(6):
        text = text.replace(f'"passages": ["c{n}"]', '"passages": ["gone"]')
    path = tmp_path / "log.jsonl"
    path.write_text(text, encoding="utf-8")
    code, printed, _ = tune(path=path)
    assert code == 0
    assert f"handmade/v1 on {2 * STREETS - 6} questions" in printed
    assert "6 questions are left out: the index has no passage marked for them." in printed


def test_bounds_hold_for_what_is_judged(tune: Wye) -> None:
    code, printed, _ = tune("--max-graph-share", "0")
    assert (code, "same route as now 1.0000 1.0000" in printed) == (0, True)
    code, _, err = tune("--quality", "luck")
    assert (code, "There is no measure 'luck'" in err) == (2, True)


@pytest.fixture
def checkout(
    index: Path, log: Path, router: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder that this process is in, with what the README names.

    No time in its log depends on how busy this machine is.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WYE_ROUTER__MODEL", str(router))
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["seconds"] = dict.fromkeys(row.get("seconds", ()), 0.001)
    (tmp_path / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "my-index").symlink_to(index)
    return tmp_path


def test_the_readmes_commands_do_what_they_say(
    checkout: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform(block_with("wye tune --from-log"), wye, monkeypatch)
    assert read_policy(checkout / "thresholds.json")


def test_what_was_marked_is_what_is_relevant(write_log: Callable[..., Path]) -> None:
    only = {"type": "eq", "key": "y", "value": 1}
    path = write_log(
        logged("1"), logged("2", filter=only), logged("3"), logged("4"),
        rated("1", "a", "gone"), rated("2", "b"), rated("3", "gone"),
    )  # fmt: skip
    log = read_log([path], HAND)
    found = feedback_dataset(log, {"a", "b"})
    first, second = found.questions
    assert (first.text, second.text) == ("question 1?", "question 2?")
    assert isinstance(first, Question)
    assert found.judgements == {first.id: {"a": 1}, second.id: {"b": 1}}
    assert found.filters == {second.id: only}
    assert (found.name, found.split) == ("log-default", "dev")
    assert len(found.without_gold) == 1
