from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import reference
from wye.backends.papers.units import FACTS, Units, activate, best_facts
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.explanation import QUESTION
from wye.backends.trigraph.graph import Lists
from wye.backends.types import Passage, Query

SENTENCES = st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=8)


def lists_of(sentences: list[set[int]]) -> Lists:
    pairs = [(row, e) for row, own in enumerate(sentences) for e in sorted(own)]
    owners, entities = np.array(pairs, np.int64).reshape(-1, 2).T
    return Lists.from_owners(owners, entities, len(sentences))


@given(
    sentences=SENTENCES,
    scores=st.lists(st.sampled_from([0, 0.25, 0.5, 1]), min_size=8, max_size=8),
    passages_of=st.lists(st.integers(1, 4), min_size=7, max_size=7),
    entities=st.integers(1, 9),
)
def test_it_activates_what_the_slow_version_does(
    sentences: list[set[int]], scores: list[float], passages_of: list[int], entities: int
) -> None:
    facts = sorted(range(len(sentences)), key=lambda row: -scores[row])
    values = [scores[row] for row in facts]
    result = activate(
        lists_of(sentences),
        np.array(facts),
        np.array(values),
        lambda entities: np.array(passages_of)[entities],
        entities,
    )
    expected = reference.activate_facts(
        [(sorted(sentences[row]), score) for row, score in zip(facts, values, strict=True)],
        passages_of,
        entities,
    )
    assert dict(zip(result.entities.tolist(), result.value.tolist(), strict=True)) == expected
    assert set(result.level.tolist()) <= {1}
    for entity, bridge in result.bridges.items():
        assert entity in sentences[bridge.sentence]
        assert (bridge.similarity, bridge.source) == (expected[entity], QUESTION)


def test_facts_are_the_closest_sentences_by_vector_and_words(
    corpus_of: Callable[..., Corpus],
) -> None:
    texts = [f"[Name{n}] sang." for n in range(9)]
    vectors = {f"Name{n} sang.": [1, n / 20, 0, 0] for n in range(9)}
    corpus = corpus_of(
        *(Passage(f"p{n}", "", text) for n, text in enumerate(texts)), vectors=vectors
    )
    units, vector = Units(corpus), np.array([1, 0, 0, 0], np.float32)
    rows, scores = best_facts(units, Query("who?", vector), None)
    assert rows.tolist() == [0, 1, 2, 3, 4][:FACTS]
    assert scores[0] == 1 > scores[-1] > 0
    named, _ = best_facts(units, Query("who is Name8?", vector), None)
    assert named.tolist()[0] == 8
    allowed = np.arange(9) != 8
    rest, _ = best_facts(units, Query("who is Name8?", vector), allowed)
    assert 8 not in rest.tolist()
    none, nothing = best_facts(units, Query("who?", vector), np.zeros(9, bool))
    assert (none.tolist(), nothing.tolist()) == ([], [])
