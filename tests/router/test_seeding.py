import math

import pytest

from backends.types import Hit, Ranking
from router.seeding import SHARPNESS, STARTS, as_fusion, start_mass


def dense(*scores: float) -> Ranking:
    hits = tuple(Hit(f"p{rank}", score, rank) for rank, score in enumerate(scores, start=1))
    return Ranking("dense", hits, 100)


def test_mass_falls_with_the_distance_to_the_best() -> None:
    found = start_mass(dense(0.9, 0.8, 0.7, 0.6, 0.5, 0.4))
    assert len(found) == STARTS
    assert found["p1"] == 1.0
    assert found["p3"] == pytest.approx(math.exp(-0.2 * SHARPNESS))
    assert start_mass(dense()) == {}


def test_the_walk_answers_as_fusion() -> None:
    assert as_fusion(dense(0.9)).retriever == "fusion"
    assert as_fusion(dense(0.9)).hits == dense(0.9).hits
