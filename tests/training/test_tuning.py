import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.made import D, G, L, one_feature, replay_of, replayed, write_dataset
from wye.backends.numerics import logistic
from wye.featurizer.analyser import open_syntax_parser
from wye.router.evidence import COLUMNS, schema_id
from wye.router.model_files import TrainedRouter, read_policy, save_router
from wye.router.policy import Policy, RoutingModel
from wye.router.settings import load_settings
from wye.router.types import Thresholds
from wye.training.errors import TrainingError
from wye.training.evaluation_set import EvaluationSet
from wye.training.replay import TrainingReplay
from wye.training.thresholds import outcome
from wye.training.tuning import Tuning, replays_of


@pytest.fixture
def replay() -> TrainingReplay:
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
    model = RoutingModel("hand/v1", one_feature(), policy, None)
    return Tuning(EvaluationSet((replay,), features), model)


def test_any_thresholds_are_worth_what_the_replay_says(tuning: Tuning) -> None:
    assert tuning.outcomes.scores == pytest.approx(logistic(np.array([-2.0, 3.0, 1.0, 0.5])))
    one_step = 1 / math.log2(7)  # gold in sixth place
    assert outcome(tuning.outcomes, Thresholds(1, 1)).quality == pytest.approx((3 + one_step) / 4)
    assert outcome(tuning.outcomes, Thresholds(0, 0)).quality == pytest.approx(
        (2 + 2 * one_step) / 4
    )
    assert outcome(tuning.outcomes, Thresholds(0.5, 0.5)).shares == (0.25, 0, 0.75)
    assert tuning.fixed["dense"] == outcome(tuning.outcomes, Thresholds(1, 1))
    assert tuning.fixed["graph"] == outcome(tuning.outcomes, Thresholds(0, 0))
    assert [*tuning.fixed["fusion"].shares] == [0, 1, 0]
    assert tuning.fixed["steps"] == replace(tuning.fixed["fusion"], shares=(0, 0, 0))


def test_what_is_saved_is_a_thresholds_file(tuning: Tuning, tmp_path: Path) -> None:
    path = tmp_path / "new" / "thresholds.json"
    policy = tuning.save(path, Thresholds(0.25, 0.75), {"found": "by hand"})
    assert read_policy(path) == policy
    assert policy.thresholds == Thresholds(0.25, 0.75)
    notes = json.loads(path.read_text(encoding="utf-8"))["notes"]
    assert notes["found"] == "by hand"
    assert policy.router == "hand/v1"
    assert notes["nDCG@10"] == outcome(tuning.outcomes, Thresholds(0.25, 0.75)).quality


def test_replays_and_a_router_are_read(replay: TrainingReplay, tmp_path: Path) -> None:
    own = load_settings().analyser
    schema = schema_id(open_syntax_parser(own).fingerprint)
    scorer = one_feature("words", COLUMNS.index("words"))
    draft = TrainedRouter(scorer, Policy(Thresholds(0.5, 0.6), L), schema, "# card\n", {}, {})
    folder = save_router(tmp_path / "models", "words", draft)
    tuning = Tuning.load([replay, replay], folder, cache=tmp_path / "features")
    assert len(tuning.outcomes) == 8
    assert tuning.model.name == "words/v1"
    assert tuning.outcomes.scores == pytest.approx(logistic(np.full(8, 2.0)))


def test_a_dev_split_is_needed(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "town", [], [("q", "Who?")], {"test": ["q\ta\t1"]})
    with pytest.raises(TrainingError, match="town has no dev split; add qrels"):
        replays_of([f"{folder}={tmp_path / 'index'}"], tmp_path)
