"""`wye train`, a thresholds file, and what `wye eval` compares with, end to end on a small town."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes import ReadingAnalyser, Wye
from tests.training.made import write_town
from wye.router.model_files import read_policy
from wye.router.types import Route
from wye.service.cli import run
from wye.training.errors import FitError
from wye.training.fit.scorers import RouterRecipe
from wye.training.thresholds import ThresholdObjective, solve
from wye.training.tuning import Tuning, replays_of

TOWN = RouterRecipe(
    hidden=(16,), seeds=(0,), pieces=0, taught=0.0, dropout=0.0, epochs=60, batch=16
)
HOP = "Where did the person whom Bakort taught go?"


@dataclass
class Place:
    folder: Path

    def __post_init__(self) -> None:
        self.dataset, self.index, self.models, self.cache = (
            self.folder / name for name in ("town", "index", "models", "cache")
        )

    @property
    def router(self) -> Path:
        return self.models / "town" / "v1"

    def replies(self) -> dict[Path, int]:
        """The kept replies, with the time at which each was written."""
        files = (self.cache / "replays").rglob("output.pkl")
        return {path: path.stat().st_mtime_ns for path in files}

    def train(self, *more: str | Path, dataset: Path | None = None) -> list[str]:
        own = ["train", "--questions", dataset or self.dataset, "--index", self.index]
        own += ["--cache", self.cache, "--models", self.models, "--name", "town"]
        # What a busy machine takes must not move the thresholds.
        own += ["--latency-weight", "0"]
        return [str(argument) for argument in (*own, *more)]


pytestmark = pytest.mark.usefixtures("reading_models", "quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wye.training.fit.scorers.RouterRecipe", lambda **_: TOWN)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("trained"))
    write_town(place.dataset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.router.session.Analyser", ReadingAnalyser)
        patch.setattr("wye.training.fit.scorers.RouterRecipe", lambda **_: TOWN)
        assert run(["index", str(place.dataset), "--index", str(place.index)]) == 0
        assert run(place.train("--simple", "lexical")) == 0
    return place


def test_a_router_is_written_with_card_numbers_and_figures(trained: Place) -> None:
    folder = trained.router
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {
        "manifest.json",
        "weights.safetensors",
        "thresholds.json",
        "CARD.md",
        "metrics.json",
        "front.svg",
        "reliability.svg",
    } == found
    assert read_policy(folder / "thresholds.json").simple == Route.LEXICAL


def test_another_run_writes_another_version_and_uses_the_replays_again(
    trained: Place, tmp_path: Path, wye: Wye
) -> None:
    shutil.copytree(trained.dataset, tmp_path / "town")
    (tmp_path / "town" / "qrels" / "test.tsv").unlink()
    before = trained.replies()
    again = trained.train("--simple", "lexical", "--no-elsewhere", dataset=tmp_path / "town")
    code, out, err = wye(*again)
    assert code == 0
    assert out == (
        f"Wrote {trained.models / 'town' / 'v2'}. "
        f"Use it with WYE_ROUTER__MODEL={trained.models / 'town' / 'v2'}\n"
    )
    assert "No dataset has a test split, so the router was not evaluated." in err
    judged = re.match(r"(\d+) judged questions in train and dev. A router needs about 50 on", err)
    told = re.search(r"The arms disagree on (\d+) of (\d+) questions\.\n", err)
    assert judged is not None
    assert told is not None
    assert 0 < int(told[1]) <= int(told[2]) == int(judged[1])
    card = (trained.models / "town" / "v2" / "CARD.md").read_text("utf-8")
    assert card.endswith(f"this one had {told[1]}.\n")
    assert before.items() <= trained.replies().items()


def test_what_nothing_can_be_learned_from(trained: Place, tmp_path: Path, wye: Wye) -> None:
    before = sorted(trained.models.rglob("*"))
    code, out, err = wye(*trained.train("--preset", "ea-graphrag"))
    assert (code, out) == (2, "")
    assert "The arms never disagree, so there is nothing to route; add harder and easier" in err
    assert sorted(trained.models.rglob("*")) == before
    few = write_town(tmp_path / "few", streets=4)
    code, out, err = wye(*trained.train("--simple", "lexical", "--name", "few", dataset=few))
    assert (code, out.startswith("Not better than always fusion")) == (1, True)
    assert "Warning: The arms disagree on only" in err
    assert "questions, and a router needs about 50; add questions" in err


def test_mistakes_are_one_sentence(trained: Place, tmp_path: Path, wye: Wye) -> None:
    for more, says in (
        (["--questions", str(tmp_path / "missing")], "There is no folder"),
        (["--name", "../up"], "A model cannot be called '../up'"),
    ):
        code, out, err = wye(*trained.train(*more))
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert says in err
    code, _, err = wye(*trained.train("--simple", "graph"))
    assert (code, "'graph' is not one of 'dense'" in err) == (2, True)
    code, _, err = wye("train", "--questions", trained.dataset)
    assert (code, "Give --index DIR, or" in err) == (2, True)


def test_new_thresholds_are_written_to_be_reviewed_and_then_used(
    trained: Place, tmp_path: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "thresholds.json"
    replays = replays_of([f"{trained.dataset}={trained.index}"], trained.cache)
    tuning = Tuning.load(replays, trained.router, cache=trained.cache)
    solution = solve(tuning.outcomes, ThresholdObjective(max_graph_share=0))
    policy = tuning.save(out, solution.thresholds)
    notes = json.loads(out.read_text(encoding="utf-8"))["notes"]
    assert notes["shares"]["lexical"] == 1.0
    with pytest.raises(FitError, match=r"even the fastest route takes \d+\.\d ms on average"):
        solve(tuning.outcomes, ThresholdObjective(max_mean_ms=0.001))

    monkeypatch.setenv("WYE_ROUTER__MODEL", str(trained.router))
    monkeypatch.setenv("WYE_INDEX", str(trained.index))
    (own,) = json.loads(wye("route", HOP, "--json")[1])
    monkeypatch.setenv("WYE_ROUTER__THRESHOLDS", str(out))
    (with_thresholds,) = json.loads(wye("route", HOP, "--json")[1])
    assert own["decision"]["route"] == "fusion"
    assert with_thresholds["decision"]["route"] == "lexical"
    assert with_thresholds["decision"]["score"] == own["decision"]["score"]
    assert with_thresholds["decision"]["thresholds"]["high"] == policy.thresholds.high
    (reply,) = json.loads(wye("search", HOP, "--route", "auto", "--json")[1])
    assert reply["decision"] == with_thresholds["decision"]
