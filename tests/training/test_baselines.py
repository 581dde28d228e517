import numpy as np
import pytest

from training.errors import FitError
from training.fit.baselines import BASELINES, Baseline, Questions


def questions(
    count: int, seed: int
) -> tuple[Questions, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Questions about a director are the graph's, and lie in another direction."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(2, size=count)
    words = ["what is the height of number", "who is the director of film"]
    texts = [f"{words[label]} {generator.integers(1000)}" for label in labels.tolist()]
    vectors = generator.normal(size=(count, 8)) + 2 * labels[:, None] * np.eye(8)[0]
    return Questions(texts, vectors.astype(np.float32)), labels


@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())
def test_baselines_learn_what_there_is_to_learn(baseline: Baseline) -> None:
    scores = baseline(*questions(80, 0))
    asked, labels = questions(60, 1)
    found = scores(asked)
    assert found.shape == (60,)
    assert ((found >= 0) & (found <= 1)).all()
    assert ((found >= 0.5) == labels).mean() > 0.75
    assert np.array_equal(found, baseline(*questions(80, 0))(asked))


@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())
def test_too_few_of_a_kind(baseline: Baseline) -> None:
    asked, labels = questions(20, 0)
    labels[:] = 1
    labels[:3] = 0
    with pytest.raises(FitError, match="succeeds on 17, the simple arm alone on 3"):
        baseline(asked, labels)
