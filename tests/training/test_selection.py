from collections.abc import Callable

import numpy as np
import pytest

from training.data.examples import Examples
from training.errors import FitError
from training.fit.trainer import select

Maker = Callable[[int, int], Examples]


def test_what_decides_is_kept_and_what_repeats_is_not(
    examples: Maker, names: tuple[str, ...]
) -> None:
    found = select(examples(1500, 0), names, k=4)
    assert {"f2", "f3"} <= set(found.names)
    assert found.columns.tolist() == sorted(found.columns.tolist())
    assert found.names == tuple(names[column] for column in found.columns)
    assert len(found.information) == 4
    assert found.constants == ("f12",)
    assert found.duplicates == {"f13": "f2"}


def test_information_of_counts_is_that_of_the_table() -> None:
    x = np.array([0.0, 0, 0, 1, 1, 1, 1, 2])
    labels = np.array([0, 0, 1, 1, 1, 1, 0, 1])
    found = select(Examples(x[:, None], labels, np.full(8, "a")), ["count"])
    expected = 0.0
    for value in (0, 1, 2):
        for label in (0, 1):
            both = ((x == value) & (labels == label)).mean()
            if both:
                expected += both * np.log(both / ((x == value).mean() * (labels == label).mean()))
    assert found.information[0] == pytest.approx(expected)


def test_the_same_seed_keeps_the_same_features(examples: Maker, names: tuple[str, ...]) -> None:
    one, same = (select(examples(200, 0), names, k=6, seed=3) for _ in range(2))
    assert one.names == same.names
    assert (one.information == same.information).all()


def test_more_than_there_are_keeps_all_that_vary(examples: Maker, names: tuple[str, ...]) -> None:
    assert select(examples(100, 0), names, k=85).columns.tolist() == list(range(12))


def test_what_cannot_be_selected_from_is_refused(examples: Maker, names: tuple[str, ...]) -> None:
    some = examples(20, 0)
    with pytest.raises(FitError, match="13 names for 14 features"):
        select(some, names[1:])
    with pytest.raises(FitError, match="at least 1"):
        select(some, names, k=0)
    with pytest.raises(FitError, match="labels are the same"):
        select(some.only(some.labels == 1), names)
    with pytest.raises(FitError, match="No feature varies"):
        select(Examples(np.ones((20, 14)), some.labels, some.groups), names)
