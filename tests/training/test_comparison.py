import numpy as np
import pytest

from training.errors import FitError
from training.fit.crossfit import compare


def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    logits = draw.normal(scale=2, size=n)
    return logits, (draw.random(n) < 1 / (1 + np.exp(-logits))).astype(np.int64)


def test_the_clever_one_is_kept_only_where_it_is_better() -> None:
    truth, labels = sample(500)
    blurred = truth / 3
    won = compare(blurred, truth, labels)
    assert won.clever
    assert 0 < won.gain.low < won.gain.mean < won.gain.high
    assert not compare(truth, blurred, labels).clever
    assert not compare(truth, truth, labels).clever


def test_a_gain_within_the_noise_is_none() -> None:
    truth, labels = sample(60)
    found = compare(truth * 0.999, truth, labels)
    assert found.clever == (found.gain.mean > found.error)
    noise = np.random.default_rng(1).normal(scale=0.5, size=60)
    assert not compare(truth, truth + noise, labels).clever


def test_one_question_decides_nothing() -> None:
    with pytest.raises(FitError, match="1 questions"):
        compare(np.zeros(1), np.ones(1), np.ones(1, np.int64))
