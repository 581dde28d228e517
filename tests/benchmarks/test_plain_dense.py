from collections.abc import Callable

import numpy as np

from benchmarks import plain_dense
from benchmarks.plain_dense import WARM_UP


def test_systems_take_turns_and_each_is_first_as_often() -> None:
    order: list[str] = []

    def system(name: str) -> Callable[[str], object]:
        return lambda question: order.append(name + question)

    times = plain_dense.in_turns({name: system(name) for name in "ab"}, ["0", "1", "2", "3"])
    assert order[: -2 * 4] == [f"{name}{number}" for name in "ab" for number in range(4)]
    assert order[-2 * 4 :] == ["a0", "b0", "b1", "a1", "a2", "b2", "b3", "a3"]
    assert {name: len(own) for name, own in times.items()} == {"a": 4, "b": 4}
    assert WARM_UP >= 4


def test_a_ratio_of_medians_lies_in_its_interval() -> None:
    other = np.random.default_rng(0).uniform(1, 2, 200)
    ratio, interval = plain_dense.ratio_of_medians(other / 2, other, seed=1)
    assert (ratio, interval) == (0.5, "[0.50 0.50]")
    noise = np.random.default_rng(1).uniform(1, 2, 200)
    ratio, interval = plain_dense.ratio_of_medians(noise, other, seed=1)
    low, high = map(float, interval.strip("[]").split())
    assert low < ratio < high
    assert high - low < 0.3
