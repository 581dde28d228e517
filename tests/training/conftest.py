from collections.abc import Callable

import numpy as np
import pytest

from training.examples import Examples

NAMES = tuple(f"f{column}" for column in range(14))


def bent(n: int, seed: int) -> Examples:
    """Labels by a product, a bend and a slope, with noise; the last features say nothing.

    Feature 12 never changes, and feature 13 is feature 2 in other units.
    """
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 14))
    x[:, 2] = draw.poisson(3, n)
    x[:, 12] = 7
    x[:, 13] = 1000 - 5 * x[:, 2]
    rule = 3 * x[:, 0] * x[:, 1] + 0.4 * (x[:, 2] - 3) + 1.5 * (np.abs(x[:, 3]) - 0.8)
    labels = (draw.random(n) < 1 / (1 + np.exp(-1.5 * rule))).astype(np.int64)
    return Examples(x, labels, np.where(draw.random(n) < 0.3, "small", "large"))


@pytest.fixture(scope="session")
def examples() -> Callable[[int, int], Examples]:
    return bent


@pytest.fixture(scope="session")
def names() -> tuple[str, ...]:
    return NAMES
