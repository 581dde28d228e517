"""The clue arm and its units against slow versions of their parts, and against themselves."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backends import reference
from tests.backends.conftest import CorpusOf, counts_of, many_passages, shares_of
from tests.backends.trigraph.test_retriever import NO_LEXICAL, questions, random_vectors
from wye.backends.papers.clue import NO_CLUE, SHARPNESS, ClueRetriever
from wye.backends.papers.settings import ClueSettings
from wye.backends.papers.units import FACTS, OVERLAP_SHARE, Units, activate, best_facts
from wye.backends.text import content_terms
from wye.backends.trigraph.explanation import QUESTION
from wye.backends.trigraph.graph import FilteredGraph, Lists
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.types import Float64, Mask, Passage, Query

CLUES = st.builds(
    ClueSettings,
    nearest=st.integers(1, 3),
    rounds=st.integers(1, 3),
    sets=st.integers(1, 5),
    score=st.sampled_from(["overlap", "cosine", "mix"]),
    names=st.booleans(),
    units=st.booleans(),
    updating=st.booleans(),
)


def graph_of(
    corpus_of: CorpusOf, passages: list[Passage], of: list[Passage] | None = None
) -> TriGraphRetriever:
    vectors = random_vectors(of or passages)
    return TriGraphRetriever(corpus_of(*passages, vectors=vectors, dimension=8), NO_LEXICAL)


class Slow:
    """Scores of all passages by slow versions of each step; of those not allowed, 0."""

    def __init__(self, graph: TriGraphRetriever, allowed: Mask, clues: ClueSettings) -> None:
        self.graph, self.allowed, self.clues = graph, allowed, clues
        corpus = graph.corpus
        self.vectors = np.asarray(corpus.sentence_vectors, np.float64)
        self.owners = corpus.sentence_passage.tolist()
        self.sentences = [
            graph.graph.mentions.one(row).tolist() if allowed[owner] else []
            for row, owner in enumerate(self.owners)
        ]
        texts = [text for block in corpus.iter_sentence_texts() for text in block]
        self.words = [
            frozenset(content_terms(f"{corpus.titles[owner]} {text}"))
            for owner, text in zip(self.owners, texts, strict=True)
        ]
        self.of_passages = [
            frozenset[str]().union(
                *(w for w, owner in zip(self.words, self.owners, strict=True) if owner == row)
            )
            for row in np.flatnonzero(allowed).tolist()
        ]

    def score(self, query: Query, taken: tuple[int, ...]) -> float:
        words = [self.words[row] for row in taken]
        result = reference.overlap(content_terms(query.text), words, self.of_passages)
        if self.clues.score == "overlap":
            return result
        total = self.vectors[[*taken]].sum(axis=0)
        cosine = float(total @ query.vector / np.linalg.norm(total))
        return cosine + (OVERLAP_SHARE * result if self.clues.score == "mix" else 0)

    def search(self, query: Query) -> Float64:
        clues, graph = self.clues, self.graph
        filtered = FilteredGraph(graph.graph, None if self.allowed.all() else self.allowed)
        counts = counts_of(graph.graph, graph.corpus, self.allowed)
        anchors = set[int]()
        if clues.names:
            seeds = graph.finder.find(query, filtered.degree)
            anchors |= {seed.entity for seed in seeds}
        if clues.units:
            rows = [row for row, owner in enumerate(self.owners) if self.allowed[owner]]
            order = sorted(rows, key=lambda row: (-(self.vectors[row] @ query.vector), row))
            anchors |= {entity for row in order[: clues.nearest] for entity in self.sentences[row]}
        followed = reference.clue(
            self.sentences,
            self.vectors,
            query.vector.astype(np.float64),
            anchors,
            lambda one: self.score(query, one),
            nearest=clues.nearest,
            rounds=clues.rounds,
            sets=clues.sets,
            updating=clues.updating,
        )
        gains: dict[int, float] = {}
        for taken, score in followed.items():
            for unit in taken:
                rest = tuple(one for one in taken if one != unit)
                gain = score - (self.score(query, rest) if rest else 0)
                owner = self.owners[unit]
                gains[owner] = max(gain, gains.get(owner, gain))
        near = graph.corpus.vectors @ query.vector
        prior = np.zeros(len(near))
        for row, gain in gains.items():
            prior[row] = np.exp(SHARPNESS * (gain + near[row]))
        # The walk takes place among these and the passages that mention what was reached.
        reached = sorted(anchors.union(*(self.sentences[s] for units in followed for s in units)))
        counts[(prior == 0) & ~counts[:, reached].any(axis=1)] = 0
        chunk_edges = counts[:, len(graph.graph) :]
        chunk_edges[:, np.count_nonzero(chunk_edges, axis=0) < 2] = 0
        restart = np.zeros(counts.shape[1])
        return reference.personalized_pagerank(shares_of(counts), prior, restart, 0.5)[0]


@given(clues=CLUES, seed=st.integers(0, 5), share=st.sampled_from([1.0, 0.6]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scores_equal_those_of_the_slow_versions_with_and_without_a_filter(
    corpus_of: CorpusOf, clues: ClueSettings, seed: int, share: float
) -> None:
    graph = graph_of(corpus_of, many_passages(16, seed))
    allowed = np.random.default_rng(seed).random(16) < share
    allowed[seed] = True
    mask = None if allowed.all() else allowed
    queries = questions(5, seed)
    slow = Slow(graph, allowed, clues)
    rows = {id_: row for row, id_ in enumerate(graph.corpus.ids)}
    result = ClueRetriever(graph, clues).search(queries, 99, mask)
    for query, ranking in zip(queries, result, strict=True):
        expected = slow.search(query)
        if not expected.any():
            assert ranking.degraded == NO_CLUE
            continue
        total = expected.sum()
        scores = {rows[hit.id]: hit.score for hit in ranking.hits}
        assert set(scores) <= set(np.flatnonzero(allowed).tolist())
        assert [scores.get(row, 0.0) / sum(scores.values()) for row in range(16)] == (
            pytest.approx((expected / total).tolist(), abs=2e-5)
        )
        assert ranking.candidates == len(ranking.hits)
        ordered = [(-hit.score, hit.id) for hit in ranking.hits]
        assert ordered == sorted(ordered)


def test_without_a_sentence_it_ranks_by_similarity_and_says_so(corpus_of: CorpusOf) -> None:
    graph = graph_of(corpus_of, [Passage(id_, "", "nothing named.") for id_ in "abc"])
    query = questions(1)[0]
    arm = ClueRetriever(graph)
    (result,) = arm.search([query], 2)
    near = graph.corpus.vectors @ query.vector
    assert result.degraded == NO_CLUE
    assert [hit.id for hit in result.hits] == ["abc"[row] for row in np.argsort(-near)[:2]]
    (none,) = arm.search([query], 2, np.zeros(3, bool))
    assert none.hits == ()


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


def test_facts_are_the_closest_sentences_by_vector_and_words(corpus_of: CorpusOf) -> None:
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
