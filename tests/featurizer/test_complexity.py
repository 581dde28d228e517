from dataclasses import fields, replace

import pytest

from featurizer.constituency.units import Units
from featurizer.features.constituency import INDICES

NO_UNITS = Units(*[0] * 9)


def test_indices_are_ratios_of_units() -> None:
    known = {field.name for field in fields(Units)}
    assert {index.above for index in INDICES} | {index.below for index in INDICES} == known


def test_indices_are_ratios_and_nothing_by_nothing_is_zero() -> None:
    found = replace(NO_UNITS, words=12, sentences=2, clauses=3, t_units=2, dependent_clauses=1)
    values = {index.name: index.value(found) for index in INDICES}
    assert len(values) == 14
    assert values["MLS"] == 6
    assert values["MLC"] == 4
    assert values["DC/C"] == pytest.approx(1 / 3)
    assert values["C/T"] == 1.5
    assert all(index.value(NO_UNITS) == 0 for index in INDICES)
