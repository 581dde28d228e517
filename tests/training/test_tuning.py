import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from featurizer.constituency.parser import open_syntax_parser
from router.fusion import FusionSettings
from router.model import RoutingModel
from router.model_files import TrainedRouter, read_policy, save_router
from router.policy import Policy
from router.query_performance import NAMES, schema_id
from router.scorer import Linear, Scorer, Standard, to_scores
from router.settings import load_settings
from router.types import BASELINE, Route, Thresholds
from training.data.evaluation_set import EvaluationSet
from training.data.replay import Replayed, TrainingReplay, write_rows
from training.errors import ReplayError, SplitError
from training.thresholds.tuning import Tuning

D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH
MakeQuestion = Callable[..., Replayed]
MakeReplay = Callable[..., TrainingReplay]


def linear(name: str = "f0", width: int = 2, column: int = 0) -> Scorer:
    """The logit is one feature."""
    return Scorer(
        names=(name,),
        columns=np.array([column]),
        width=width,
        standard=Standard(np.zeros(1), np.ones(1), 5.0),
        members=(Linear({"head.weight": np.ones((1, 1)), "head.bias": np.zeros(1)}),),
    )


@pytest.fixture
def replay(replayed: MakeQuestion, replay_of: MakeReplay) -> TrainingReplay:
    return replay_of(
        replayed("easy", "a", {D: "ab", L: "ab", G: "bcdefa"}),
        replayed("fooled", "a", {D: "ab", L: "ab", G: "bcdefa"}, group="web"),
        replayed("hard", "a", {D: "bcdefa", L: "bcdefa", G: "ab"}),
        replayed("same", "a", {D: "ab", L: "ab", G: "ab"}),
    )


@pytest.fixture
def tuning(replay: TrainingReplay) -> Tuning:
    features = np.array([[-2.0, 0], [3.0, 0], [1.0, 0], [0.5, 0]])
    policy = Policy(Thresholds(0.5, 0.6))
    model = RoutingModel("hand/v1", linear(), policy, None)
    return Tuning(EvaluationSet((replay,), features), model, FusionSettings())


def test_any_thresholds_are_worth_what_the_replay_says(tuning: Tuning) -> None:
    assert tuning.outcomes.scores == pytest.approx(to_scores(np.array([-2.0, 3.0, 1.0, 0.5])))
    assert tuning.labels.tolist() == [0, 0, 1, -1]
    one_step = 1 / math.log2(7)  # gold in sixth place
    assert tuning.at(1, 1).quality == pytest.approx((3 + one_step) / 4)
    assert tuning.at(0, 0).quality == pytest.approx((2 + 2 * one_step) / 4)
    assert tuning.at(0.5, 0.5).shares == (0.25, 0, 0.75)
    assert tuning.fixed["dense"] == tuning.at(1, 1)
    assert tuning.fixed["graph"] == tuning.at(0, 0)
    assert tuning.fixed["fusion"].shares == (0, 1, 0)


def test_no_pair_beats_the_front(tuning: Tuning) -> None:
    front = tuning.front()
    for low in (0, 0.3, 0.65, 1):
        for high in (0.65, 1):
            if low <= high:
                found = tuning.at(low, high)
                as_fast = front.mean_ms <= found.mean_ms + 1e-9
                assert front.quality[as_fast].max() >= found.quality - 1e-9


def test_whom_thresholds_fail_and_why(tuning: Tuning) -> None:
    (worst,) = tuning.worst(1)
    assert worst.text == "question fooled?"
    assert (worst.dataset, worst.route, worst.better) == ("web", G, D)
    assert worst.lost == pytest.approx(1 - 1 / math.log2(7))
    assert [part.name for part in worst.contributions] == [BASELINE, "f0"]
    logit = math.fsum(part.logit for part in worst.contributions)
    assert to_scores(np.array([logit]))[0] == pytest.approx(worst.score)
    assert [one.text for one in tuning.worst(9, Thresholds(1, 1))] == ["question hard?"]


def test_what_is_saved_is_a_thresholds_file(tuning: Tuning, tmp_path: Path) -> None:
    path = tmp_path / "new" / "thresholds.json"
    policy = tuning.save(path, Thresholds(0.25, 0.75), {"found": "by hand"})
    assert read_policy(path) == policy
    assert policy.thresholds == Thresholds(0.25, 0.75)
    assert policy.latency_ms == {D: 10.0, Route.FUSION: 12.0, G: 12.0}
    notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
    assert notes["found"] == "by hand"
    assert policy.router == "hand/v1"
    assert notes["nDCG@10"] == tuning.at(0.25, 0.75).quality


def test_replays_and_a_router_are_read(replay: TrainingReplay, tmp_path: Path) -> None:
    own = load_settings().analyser
    schema = schema_id(open_syntax_parser(own.pipeline, own.constituency).fingerprint)
    column = NAMES.index("words")
    scorer = linear("words", len(NAMES), column)
    draft = TrainedRouter(scorer, Policy(Thresholds(0.5, 0.6), L), schema, "# card\n", {}, {})
    folder = save_router(tmp_path / "models", "words", draft)
    path = tmp_path / "replay.parquet"
    write_rows(path, replay.questions, dataset="here", split="dev", key=replay.key)
    tuning = Tuning.load([path, path], folder, cache=tmp_path / "features")
    assert len(tuning.outcomes) == 8
    assert tuning.model.name == "words/v1"
    assert tuning.outcomes.scores == pytest.approx(to_scores(np.full(8, 2.0)))


def test_a_test_split_is_refused(replay: TrainingReplay, tmp_path: Path) -> None:
    path = tmp_path / "replay.parquet"
    write_rows(path, replay.questions, dataset="here", split="test", key=replay.key)
    with pytest.raises(SplitError, match="test"):
        Tuning.load([path], cache=tmp_path)
    with pytest.raises(ReplayError, match="No replay"):
        Tuning.load([], cache=tmp_path)


def test_other_measures_are_other_outcomes(tuning: Tuning) -> None:
    assert replace(tuning, measure="Success@1").at(1, 1).quality == 0.75
