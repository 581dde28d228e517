import re

import numpy as np
import pytest

from tests.training.made import FOUND, L, replay_of, replayed
from wye.router.policy import Policy, bands
from wye.router.types import Thresholds
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.errors import FitError
from wye.training.fit.baselines import BASELINES, EDGE, Baseline, Inputs, Scores, fit_baselines
from wye.training.fit.router import Choices, TrainingSet
from wye.training.thresholds.solve import GRAPH


def questions(
    seen: str, count: int, seed: int
) -> tuple[Inputs, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Questions about a director are the graph's, and lie in another direction."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(2, size=count)
    words = ["what is the height of number", "who is the director of film"]
    texts = [f"{words[label]} {generator.integers(1000)}" for label in labels.tolist()]
    vectors = generator.normal(size=(count, 8)) + 2 * labels[:, None] * np.eye(8)[0]
    inputs = {"texts": np.array(texts, object), "vectors": vectors.astype(np.float32)}
    return inputs.get(seen, vectors), labels


@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())
def test_baselines_learn_what_there_is_to_learn(baseline: Baseline) -> None:
    scores = baseline.fit(*questions(baseline.kind, 80, 0))
    asked, labels = questions(baseline.kind, 60, 1)
    found = scores(asked)
    assert found.shape == (60,)
    assert ((found >= 0) & (found <= 1)).all()
    assert ((found >= 0.5) == labels).mean() >= 0.75
    assert np.array_equal(found, baseline.fit(*questions(baseline.kind, 80, 0))(asked))


@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())
def test_too_few_of_a_kind(baseline: Baseline) -> None:
    asked, labels = questions(baseline.kind, 20, 0)
    labels[:] = 1
    labels[:3] = 0
    with pytest.raises(FitError, match="succeeds on 17, the simple arm alone on 3"):
        baseline.fit(asked, labels)


POLICY = Policy(Thresholds(0.1, 0.2), L, {L: 1.0})


@pytest.fixture
def known() -> EvaluationSet:
    questions = [
        replayed(f"q{at}", "a", FOUND[at % 2], vector=(1.0, 0.0) if at % 2 else (0.0, 1.0))
        for at in range(40)
    ]
    return EvaluationSet((replay_of(*questions),), np.zeros((40, 1)))


def test_a_rival_is_scored_by_one_that_has_not_seen_a_question(
    known: EvaluationSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[str], set[str]]] = []

    class Remembering(Baseline):
        def fit(self, inputs: Inputs, labels: np.ndarray) -> Scores:
            assert len(inputs) == len(labels)
            assert {*labels.tolist()} == {0, 1}
            texts = {*inputs.tolist()}

            def score(asked: Inputs) -> np.ndarray:
                seen.append((texts, {*asked.tolist()}))
                numbers = [re.findall(r"\d+", text)[0] for text in asked.tolist()]
                return np.array([float(int(number) % 2) for number in numbers])

            return score

    rivals = {"by heart": Remembering("texts", None)}
    monkeypatch.setattr("wye.training.fit.baselines.BASELINES", rivals)
    labels = np.where(np.arange(40) % 5 == 0, -1, np.arange(40) % 2)
    asked = known.only(np.arange(40) < 6)
    training = TrainingSet(known, labels)
    found = fit_baselines(training, asked, POLICY, np.arange(1), Choices())["by heart"]
    *folds, last = seen
    assert len(folds) == 5
    assert all(not learned & held for learned, held in folds)
    assert set.union(*(held for _, held in folds)) == {*known.texts}
    assert last == (
        {text for text, label in zip(known.texts, labels, strict=True) if label >= 0},
        {*asked.texts},
    )
    assert found.scores.tolist() == [EDGE, 1 - EDGE] * 3
    assert found.policy.simple == L
    assert found.policy.latency_ms == POLICY.latency_ms
    codes = bands(found.scores, found.policy.thresholds)
    assert [code == GRAPH for code in codes.tolist()] == [False, True] * 3
