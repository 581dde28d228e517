"""Semantic bridging, against the slow version that reads sentence by sentence."""

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from backends.trigraph.bridging import Activation, MentionGraph, Similarity, bridge
from backends.types import Float32, Int64
from tests.backends import reference

# Few distinct values, all exact in binary, so that ties and values at the threshold are common.
VALUES = [-0.5, 0.0, 0.25, 0.5, 0.75, 1.0]


def graph_of(sentences: Sequence[Sequence[int]], entities: int) -> MentionGraph:
    mentions = np.zeros((len(sentences), entities), np.float32)
    for row, members in enumerate(sentences):
        mentions[row, list(members)] = 1
    return MentionGraph.of(sparse.csr_array(mentions))


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
        st.just(entities),
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
Case = tuple[int, list[tuple[set[int], float]], dict[int, float]]


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
    entities, drawn, seeds = case
    sentences = [sorted(members) for members, _ in drawn]
    sigma = np.array([value for _, value in drawn], np.float32)
    found = bridge(
        graph_of(sentences, entities),
        seeds,
        looked_up(sigma.tolist()),
        steps=steps,
        threshold=threshold,
        sentences_per_entity=count,
    )
    expected = reference.bridge(
        sentences,
        sigma.tolist(),
        seeds,
        steps=steps,
        threshold=threshold,
        sentences_per_entity=count,
    )
    assert as_dicts(found) == expected
    value, _, level = expected
    assert set(found.bridges) == set(value) - set(seeds)
    for entity, over in found.bridges.items():
        assert {entity, over.source} <= set(sentences[over.sentence])
        assert over.similarity == sigma[over.sentence]
        assert level[over.source] < level[entity]
        assert value[entity] >= threshold


@settings(max_examples=100)
@given(case=cases, order=st.randoms(use_true_random=False))
def test_the_order_of_the_seeds_changes_nothing(case: Case, order: random.Random) -> None:
    entities, drawn, seeds = case
    graph = graph_of([sorted(members) for members, _ in drawn], entities)
    similarity = looked_up([value for _, value in drawn])
    shuffled = list(seeds.items())
    order.shuffle(shuffled)

    def run(start: Mapping[int, float]) -> Activation:
        return bridge(graph, start, similarity, steps=4, threshold=0.1, sentences_per_entity=2)

    one, other = run(seeds), run(dict(shuffled))
    assert as_dicts(one) == as_dicts(other)
    assert one.bridges == other.bridges


@settings(max_examples=100)
@given(case=cases, data=st.data())
def test_the_order_of_distinct_sentences_changes_no_value(case: Case, data: st.DataObject) -> None:
    entities, drawn, seeds = case
    # With equal similarities the sentence in the lower row is taken, so all must differ here.
    sigma = [0.9 - 0.04 * row for row in range(len(drawn))]
    sentences = [sorted(members) for members, _ in drawn]
    order = data.draw(st.permutations(range(len(drawn))))

    def run(rows: Sequence[int]) -> Activation:
        return bridge(
            graph_of([sentences[row] for row in rows], entities),
            seeds,
            looked_up([sigma[row] for row in rows]),
            steps=4,
            threshold=0.1,
            sentences_per_entity=2,
        )

    one, other = as_dicts(run(range(len(drawn)))), as_dicts(run(order))
    assert one[0] == other[0]
    assert one[2] == other[2]
    assert one[1] == pytest.approx(other[1])


def test_two_steps_by_hand() -> None:
    # 0 -(s0: 0.5)- 1 -(s2: 0.75)- 2, and s1 is farther from the question than s0.
    sentences = [[0, 1], [0, 3], [1, 2]]
    found = bridge(
        graph_of(sentences, 4),
        {0: 1.0},
        looked_up([0.5, 0.25, 0.75]),
        steps=3,
        threshold=0.3,
        sentences_per_entity=1,
    )
    value, weight, level = as_dicts(found)
    assert value == {0: 1.0, 1: 0.5, 2: 0.375}
    # The third step comes back to 1; to 0 it adds nothing, for s0 is used and s1 is too far.
    assert weight == {0: 1.5, 1: 0.875, 2: 0.375}
    assert level == {0: 1, 1: 2, 2: 3}
    assert found.bridges[1].sentence == 0
    assert (found.bridges[2].sentence, found.bridges[2].source) == (2, 1)
    assert found.bridges[2].similarity == 0.75


def test_one_step_stays_at_the_seeds_and_compares_nothing() -> None:
    def never(rows: Int64) -> Float32:
        raise AssertionError

    found = bridge(
        graph_of([[0, 1]], 2), {1: 0.4}, never, steps=1, threshold=0.0, sentences_per_entity=1
    )
    assert as_dicts(found) == ({1: 0.4}, {1: 0.4}, {1: 1})
    assert found.bridges == {}


def test_without_seeds_nothing_is_active() -> None:
    found = bridge(
        graph_of([[0, 1]], 2), {}, looked_up([1.0]), steps=3, threshold=0.5, sentences_per_entity=1
    )
    assert as_dicts(found) == ({}, {}, {})
    assert [found.entities.dtype, found.level.dtype] == [np.dtype(np.int64)] * 2


@pytest.mark.parametrize(
    ("threshold", "active"), [(0.5, {0, 1}), (np.nextafter(0.5, 1), {0}), (0.25, {0, 1, 2})]
)
def test_a_value_at_the_threshold_counts(threshold: float, active: set[int]) -> None:
    found = bridge(
        graph_of([[0, 1], [1, 2]], 3),
        {0: 1.0},
        looked_up([0.5, 0.5]),
        steps=3,
        threshold=threshold,
        sentences_per_entity=1,
    )
    assert set(found.entities.tolist()) == active


def test_a_seed_below_the_threshold_is_active_but_leads_nowhere() -> None:
    found = bridge(
        graph_of([[0, 1]], 2),
        {0: 0.3},
        looked_up([1.0]),
        steps=3,
        threshold=0.35,
        sentences_per_entity=1,
    )
    assert as_dicts(found)[0] == {0: 0.3}


def test_of_equally_similar_sentences_the_first_is_taken() -> None:
    found = bridge(
        graph_of([[0, 2], [0, 1], [0, 3]], 4),
        {0: 1.0},
        looked_up([0.4, 0.8, 0.8]),
        steps=2,
        threshold=0.1,
        sentences_per_entity=1,
    )
    assert set(found.entities.tolist()) == {0, 1}


def test_a_sentence_is_used_once_even_when_it_passes_nothing_on() -> None:
    # Both seeds are closest to s0. The first takes it; the second must make do with s1.
    found = bridge(
        graph_of([[0, 1, 2], [1, 3]], 4),
        {0: 0.5, 1: 1.0},
        looked_up([0.9, 0.6]),
        steps=2,
        threshold=0.5,
        sentences_per_entity=1,
    )
    value, weight, _ = as_dicts(found)
    assert value == pytest.approx({0: 0.5, 1: 1.0, 3: 0.6})
    assert weight == pytest.approx({0: 0.5, 1: 1.6, 3: 0.6})


def test_only_sentences_next_to_active_entities_are_compared_and_each_only_once() -> None:
    asked: list[int] = []

    def similarity(rows: Int64) -> Float32:
        asked.extend(rows.tolist())
        return np.full(len(rows), 0.9, np.float32)

    bridge(
        graph_of([[0, 1], [2, 3], [1, 4], [3]], 5),
        {0: 1.0},
        similarity,
        steps=4,
        threshold=0.1,
        sentences_per_entity=1,
    )
    assert set(asked) == {0, 2}


def test_adjacency_lists_mirror_the_matrix() -> None:
    sentences: list[list[int]] = [[2, 0], [], [1, 2]]
    graph = graph_of(sentences, 4)
    assert [graph.entities_of(row) for row in range(3)] == [[0, 2], [], [1, 2]]
    assert [graph.sentences_of(entity).tolist() for entity in range(4)] == [[0], [2], [0, 2], []]
