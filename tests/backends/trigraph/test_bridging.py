"""Semantic bridging, against the slow version that reads sentence by sentence."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends import reference
from wye.backends.trigraph.bridging import Activation, bridge, equation_5
from wye.backends.trigraph.question import Sentences
from wye.backends.types import Float32, Int64

# Few distinct values, all exact in binary, so that ties and values at the threshold are common.
Similarity = Callable[[Int64], Float32]
VALUES = [-0.5, 0.0, 0.25, 0.5, 0.75, 1.0]


def read(sentences: Sequence[Sequence[int]], similarity: Similarity) -> Sentences:
    pairs = sorted({(row, entity) for row, members in enumerate(sentences) for entity in members})
    sentence, entity = np.array(pairs, np.int64).reshape(-1, 2).T
    rows = np.arange(len(sentences))
    return Sentences(rows, rows, sentence, entity, similarity)


def looked_up(values: Sequence[float]) -> Similarity:
    table = np.array(values, np.float32)

    def similarity(rows: Int64) -> Float32:
        assert rows.dtype == np.int64
        chosen: Float32 = table[rows]
        return chosen

    return similarity


def as_dicts(found: Activation) -> tuple[dict[int, float], dict[int, float], dict[int, int]]:
    entities = found.entities.tolist()
    assert entities == sorted(set(entities))
    return (
        dict(zip(entities, found.value.tolist(), strict=True)),
        dict(zip(entities, found.weight.tolist(), strict=True)),
        dict(zip(entities, found.level.tolist(), strict=True)),
    )


cases = st.integers(2, 9).flatmap(
    lambda entities: st.tuples(
        st.lists(
            st.tuples(
                st.sets(st.integers(0, entities - 1), min_size=1, max_size=4),
                st.sampled_from(VALUES) | st.floats(-1, 1, width=32),
            ),
            max_size=14,
        ),
        st.dictionaries(
            st.integers(0, entities - 1), st.sampled_from([0.25, 0.3, 0.5, 1.0]), max_size=3
        ),
    )
)
Case = tuple[list[tuple[set[int], float]], dict[int, float]]


def run(
    sentences: Sequence[Sequence[int]],
    sigma: Sequence[float] | Similarity,
    seeds: Mapping[int, float],
    *,
    threshold: float,
    steps: int = 3,
    count: int = 1,
) -> Activation:
    return bridge(
        read(sentences, sigma if callable(sigma) else looked_up(sigma)),
        seeds,
        steps=steps,
        threshold=threshold,
        sentences_per_entity=count,
    )


@settings(max_examples=400)
@given(
    case=cases,
    steps=st.integers(0, 5),
    threshold=st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]),
    count=st.integers(0, 3),
)
def test_values_equal_the_slow_version_and_bridges_lead_where_they_say(
    case: Case, steps: int, threshold: float, count: int
) -> None:
    drawn, seeds = case
    sentences = [sorted(members) for members, _ in drawn]
    sigma = np.array([value for _, value in drawn], np.float32).tolist()
    found = run(sentences, sigma, seeds, steps=steps, threshold=threshold, count=count)
    expected = reference.bridge(
        sentences, sigma, seeds, steps=steps, threshold=threshold, sentences_per_entity=count
    )
    assert as_dicts(found) == expected
    value, _, level = expected
    assert set(found.bridges) == set(value) - set(seeds)
    for entity, over in found.bridges.items():
        assert {entity, over.source} <= set(sentences[over.sentence])
        assert over.similarity == sigma[over.sentence]
        assert level[over.source] < level[entity]
        assert value[entity] >= threshold
    # The order of the seeds changes nothing.
    other = dict(reversed(seeds.items()))
    again = run(sentences, sigma, other, steps=steps, threshold=threshold, count=count)
    assert as_dicts(again) == expected
    assert again.bridges == found.bridges


@given(case=cases, steps=st.integers(0, 4), threshold=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_equation_5_is_the_product_of_matrices(case: Case, steps: int, threshold: float) -> None:
    drawn, seeds = case
    size = 1 + max([*seeds, *(e for members, _ in drawn for e in members)], default=0)
    mentions = np.array([[e in members for e in range(size)] for members, _ in drawn], np.float64)
    sigma = np.array([value for _, value in drawn])
    found = equation_5(
        read([sorted(members) for members, _ in drawn], looked_up(sigma.tolist())),
        seeds,
        steps=steps,
        threshold=threshold,
    )
    value, level = reference.equation_5(
        mentions.reshape(len(drawn), size), sigma, seeds, steps=steps, threshold=threshold
    )
    assert found.entities.tolist() == np.flatnonzero(value).tolist()
    assert found.value.tolist() == pytest.approx(value[value > 0].tolist(), rel=1e-6)
    assert found.level.tolist() == level[value > 0].tolist()
    assert not found.bridges


def test_one_step_stays_at_the_seeds_and_compares_nothing() -> None:
    def never(rows: Int64) -> Float32:
        raise AssertionError

    found = run([[0, 1]], never, {1: 0.4}, steps=1, threshold=0.0)
    assert as_dicts(found) == ({1: 0.4}, {1: 0.4}, {1: 1})
    assert found.bridges == {}


def test_only_sentences_next_to_active_entities_are_compared() -> None:
    asked: list[int] = []

    def similarity(rows: Int64) -> Float32:
        asked.extend(rows.tolist())
        return np.full(len(rows), 0.9, np.float32)

    run([[0, 1], [2, 3], [1, 4], [3]], similarity, {0: 1.0}, steps=4, threshold=0.1)
    assert set(asked) == {0, 2}
