"""The graph arm as a whole, against the slow versions of its parts and against itself."""

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.backends import reference
from tests.backends.conftest import (
    NAMES,
    PHRASES,
    CorpusOf,
    counts_of,
    many_passages,
    shares_of,
    trace_of,
    unmarked,
)
from wye.backends.papers.units import ENTITIES, Units, best_facts
from wye.backends.trigraph import bridging, question
from wye.backends.trigraph.bridging import DOUBT
from wye.backends.trigraph.retriever import NO_SEED, TriGraphRetriever
from wye.backends.trigraph.settings import AssemblySettings, TriGraphSettings
from wye.backends.types import Float32, Float64, Mask, Mention, Passage, Query, Ranking, Scores
from wye.router.settings import load_settings

PRESETS = {name: load_settings(preset=name).graph for name in ("ea-graphrag", "linearrag")}
LINEARRAG = PRESETS["linearrag"]
NO_LEXICAL = TriGraphSettings(lexical_weight=0, lexical_weight_titled=0)
PHRASED = AssemblySettings(noun_phrases="on")
VARIANTS = {
    "default": TriGraphSettings(),
    **PRESETS,
    "more steps": TriGraphSettings(degree_power=0.5, steps=4, threshold=0.1),
    "no titles": TriGraphSettings(
        assembly=replace(PHRASED, title_entities=False),
        title_weight=0,
        sentences_per_entity=3,
        threshold=0.05,
        damping=0.85,
    ),
    "equation 5": TriGraphSettings(activation="eq5", steps=2),
    "facts": TriGraphSettings(activation="facts"),
    "phrases": TriGraphSettings(assembly=PHRASED, threshold=0.2, damping=0.0),
}


def unit(generator: np.random.Generator, d: int = 8) -> Float32:
    # Mostly in one direction, so that most things are similar enough to bridge over.
    vector = np.abs(generator.standard_normal(d)) + 0.3
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def random_vectors(passages: Sequence[Passage], seed: int = 1) -> dict[str, list[float]]:
    generator = np.random.default_rng(seed)
    texts = [line for p in passages for line in unmarked(p.text).splitlines()]
    keys = sorted({*texts, *(p.id for p in passages), *NAMES, "Como (lake)"})
    return {key: unit(generator).tolist() for key in keys}


def questions(count: int, seed: int = 2) -> list[Query]:
    generator, source = np.random.default_rng(seed), random.Random(seed)
    queries = []
    for number in range(count):
        names = source.sample(NAMES, k=number % 3)
        names = [name if source.random() < 0.7 else name.lower() for name in names]
        mentions = [Mention(name, "entity", unit(generator)) for name in names if name[0].isupper()]
        mentions += [Mention("salt", "phrase")] * (number % 2)
        if number % 5 == 4:
            mentions.append(Mention("Nobody", "entity", unit(generator)))
        text = f"who knows {' and '.join(names)} {number}?"
        queries.append(Query(text, unit(generator), tuple(mentions)))
    return queries


def lexical_over(ids: Sequence[str]) -> Callable[[Query], Float32]:
    """BM25 stand-in: for each passage and question a number of their own, often none."""

    def score(query: Query) -> Float32:
        numbers = [zlib.crc32(f"{query.text}{id_}".encode()) % 100 - 50 for id_ in ids]
        return np.maximum(numbers, 0).astype(np.float32)

    return score


def make(
    corpus_of: CorpusOf,
    passages: Sequence[Passage],
    settings: TriGraphSettings,
    vectors: Mapping[str, Sequence[float]] | None = None,
) -> TriGraphRetriever:
    vectors = vectors or random_vectors(passages)
    corpus = corpus_of(*passages, vectors=vectors, dimension=8, entity_vectors=True)
    return TriGraphRetriever(corpus, settings, lexical_over(corpus.ids))


def scaled(values: Float64, allowed: Mask) -> Float64:
    low, high = values[allowed].min(), values[allowed].max()
    if high == low:
        return np.ones(len(values))
    result: Float64 = (values - low) / (high - low)
    return result


def slow(retriever: TriGraphRetriever, query: Query, allowed: Mask) -> tuple[Float64, bool]:
    """Scores of all passages by the slow versions of each step; 0 where not allowed.

    Passages that are not allowed have no sentences, mentions, or similarity anyone looks at.
    """
    graph, corpus, settings = retriever.graph, retriever.corpus, retriever.settings
    size, n = len(graph), len(corpus)
    counts = counts_of(graph, corpus, allowed)
    degree = (counts > 0).sum(axis=0)
    seeds = {s.entity: s.value for s in retriever.finder.find(query, lambda own: degree[own])}
    owners = corpus.sentence_passage.tolist()
    sentences = [
        graph.mentions.one(i).tolist() if allowed[owner] else [] for i, owner in enumerate(owners)
    ]
    sigma = np.asarray(corpus.sentence_vectors, np.float64) @ query.vector.astype(np.float64)
    if settings.activation == "facts":
        mask = None if allowed.all() else allowed
        facts = best_facts(Units(corpus), query, mask)
        rows, scores = (part.tolist() for part in facts)
        pairs = [(sentences[row], score) for row, score in zip(rows, scores, strict=True)]
        value = weight = reference.activate_facts(pairs, degree.tolist(), ENTITIES)
        level = dict.fromkeys(value, 1)
    elif settings.activation == "eq5":
        mentions = np.array([[e in own for e in range(size)] for own in sentences], np.float64)
        values, levels = reference.equation_5(
            mentions.reshape(len(sentences), size),
            sigma,
            seeds,
            steps=settings.steps,
            threshold=settings.threshold,
        )
        value = weight = {e: float(values[e]) for e in np.flatnonzero(values).tolist()}
        level = {e: int(levels[e]) for e in value}
    else:
        value, weight, level = reference.bridge(
            sentences,
            sigma.tolist(),
            seeds,
            steps=settings.steps,
            threshold=settings.threshold,
            sentences_per_entity=settings.sentences_per_entity,
        )
    near = scaled(np.asarray(corpus.vectors, np.float64) @ query.vector.astype(np.float64), allowed)
    bm25 = lexical_over(corpus.ids)(query).astype(np.float64)
    bm25 /= bm25[allowed].max() or 1
    seeds = {} if settings.activation == "facts" else seeds
    titles = [allowed & np.isin(np.arange(n), graph.titled.one(e)) for e in range(size)]
    sure = any(seeds[e] == 1 and titles[e].any() for e in seeds)
    share = settings.lexical_weight_titled if sure else settings.lexical_weight
    passage_weight = settings.passage_weight or float(not value)
    prior = passage_weight * np.array(
        reference.passage_prior(
            counts[:, :size], near + share * bm25, value, level, settings.similarity_weight
        )
    )
    restart = np.zeros(counts.shape[1])
    for entity, amount in weight.items():
        restart[entity] = amount / degree[entity] ** settings.degree_power if degree[entity] else 0
        power = DOUBT if seeds.get(entity, 1) < 1 else 1
        for passage in np.flatnonzero(titles[entity]).tolist():
            part = settings.title_weight * amount**2 / titles[entity].sum()
            prior[passage] += part * near[passage] ** power
    prior[~allowed] = 0
    if not value:
        return prior, False
    passages, _ = reference.personalized_pagerank(
        shares_of(counts), prior, restart, settings.damping
    )
    mentioned: list[set[int]] = [set() for _ in range(n)]
    for owner, own in zip(owners, sentences, strict=True):
        mentioned[owner].update(own)
    heads = [set(np.flatnonzero(own).tolist()) for own in titles]
    after = reference.promote(
        passages.tolist(), mentioned, heads, degree.tolist(), settings.promotion
    )
    return np.array(after), True


def check(retriever: TriGraphRetriever, query: Query, result: Ranking, allowed: Mask) -> None:
    scores, seeded = slow(retriever, query, allowed)
    row_of = {id_: row for row, id_ in enumerate(retriever.corpus.ids)}
    rows = [row_of[hit.id] for hit in result.hits]
    assert sorted(rows) == np.flatnonzero(allowed).tolist()
    assert [hit.score for hit in result.hits] == pytest.approx(scores[rows].tolist(), abs=2e-6)
    assert [hit.rank for hit in result.hits] == list(range(1, len(rows) + 1))
    order = [(-hit.score, hit.id) for hit in result.hits]
    assert order == sorted(order)
    assert result.candidates == len(rows)
    assert result.degraded == ("" if seeded else NO_SEED)
    assert result.retriever == "graph"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("share", [1.0, 0.6, 0.2])
def test_scores_equal_those_of_the_slow_versions_with_and_without_a_filter(
    corpus_of: CorpusOf, variant: str, share: float
) -> None:
    bridged = 0
    for seed in range(3):
        retriever = make(corpus_of, many_passages(24, seed), VARIANTS[variant])
        allowed = np.random.default_rng(seed).random(24) < share
        allowed[seed] = True
        queries = questions(8, seed)
        mask = None if share == 1 else allowed
        for query, result in zip(queries, retriever.search(queries, 99, mask), strict=True):
            check(retriever, query, result, allowed)
        batch = retriever.batch(queries, mask)
        traces = (trace_of(batch, place) for place in range(len(queries)))
        bridged += sum(len(trace.activation.bridges) for trace in traces)
    # Equation 5 goes along all sentences at once.
    assert bridged > 10 or VARIANTS[variant].activation == "eq5"


def knowing(retriever: TriGraphRetriever, share: float) -> TriGraphRetriever:
    """The same arm, told of the similarities of the nearest passages alone."""

    def near(queries: Sequence[Query], allowed: Mask | None) -> list[Scores]:
        rows = np.arange(len(retriever.corpus)) if allowed is None else np.flatnonzero(allowed)
        result = []
        for _, values in retriever.near(queries, allowed):
            nearest = rows[np.argsort(-values[rows], kind="stable")]
            own = np.sort(nearest[: max(1, round(share * len(rows)))])
            result.append(Scores(own, values[own]))
        return result

    corpus, graph = retriever.corpus, retriever.graph
    return TriGraphRetriever(corpus, retriever.settings, lexical_over(corpus.ids), graph, near=near)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v not in ("facts", "equation 5")])
@pytest.mark.parametrize("hub", [1, 2000])
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_priors_of_all_passages_are_those_of_a_corpus_whose_similarities_are_all_known(
    corpus_of: CorpusOf, monkeypatch: pytest.MonkeyPatch, variant: str, hub: int, share: float
) -> None:
    for module in (bridging, question):
        monkeypatch.setattr(module, "HUB", hub)
    whole = make(corpus_of, many_passages(60, 3), VARIANTS[variant])
    partial = knowing(whole, 1)
    mask = None if share == 1 else np.random.default_rng(3).random(60) < share
    queries = questions(15)
    for place in range(len(queries)):
        one, other = (trace_of(arm.batch(queries, mask), place) for arm in (whole, partial))
        assert one.passages.tolist() == other.passages.tolist()
        np.testing.assert_allclose(one.prior, other.prior, rtol=1e-12)
        assert one.restart.tolist() == other.restart.tolist()
        assert one.activation.bridges == other.activation.bridges
    pair = partial.search(queries, 60, mask), whole.search(queries, 60, mask)
    for ours, theirs in zip(*pair, strict=True):
        assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
        assert (ours.candidates, ours.degraded) == (theirs.candidates, theirs.degraded)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_walk_takes_place_among_a_few_candidates(corpus_of: CorpusOf, share: float) -> None:
    """The text hits, and passages that mention or are titled by what the question leads to."""
    whole = make(corpus_of, many_passages(60, 3), TriGraphSettings(candidates=0))
    few = make(corpus_of, many_passages(60, 3), TriGraphSettings(candidates=32))
    mask = None if share == 1 else np.random.default_rng(3).random(60) < share
    queries = questions(15)
    for position, query in enumerate(queries):
        every, trace = (trace_of(arm.batch(queries, mask), position) for arm in (whole, few))
        assert every.passages.tolist() == (
            list(range(60)) if mask is None else np.flatnonzero(mask).tolist()
        )
        assert len(trace.passages) <= 6 * 8
        assert trace.seeds == every.seeds
        assert set(trace.passages.tolist()) <= set(every.passages.tolist())
        near = np.asarray(whole.corpus.vectors)[every.passages] @ query.vector
        assert every.passages[near.argmax()] in trace.passages
        assert {*trace.activation.entities.tolist()} >= {seed.entity for seed in trace.seeds}
    together = few.search(queries, 5, mask)
    assert together == [few.search([query], 5, mask)[0] for query in queries]
    firsts = zip(together, whole.search(queries, 5, mask), strict=True)
    assert sum(one.hits[0].id == other.hits[0].id for one, other in firsts) >= 7


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_filter_equals_an_index_without_the_passages(corpus_of: CorpusOf, variant: str) -> None:
    # Both know the same names, for the first passages are in either and mention all of them.
    names = " ".join(f"[{name}]" for name in NAMES)
    phrases = " ".join(f"{{{phrase}}}" for phrase in PHRASES)
    every = [Passage("a0", "", f"{names} {phrases}"), Passage("a1", "Como (lake)", phrases)]
    passages = [*every, *many_passages(30, 7)]
    whole = make(corpus_of, passages, VARIANTS[variant])
    allowed = np.random.default_rng(3).random(32) < 0.5
    allowed[:2] = True
    remaining = [p for p in passages if allowed[whole.corpus.ids.index(p.id)]]
    built = make(corpus_of, remaining, VARIANTS[variant], random_vectors(passages))
    assert list(built.graph.keys) == list(whole.graph.keys)
    queries = questions(20)
    pair = whole.search(queries, 50, allowed), built.search(queries, 50)
    for one, other in zip(*pair, strict=True):
        assert [hit.id for hit in one.hits] == [hit.id for hit in other.hits]
        assert [h.score for h in one.hits] == pytest.approx([h.score for h in other.hits], rel=1e-5)
        assert (one.candidates, one.degraded) == (other.candidates, other.degraded)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("filtered", [False, True])
def test_neither_the_batch_nor_the_order_of_the_file_changes_a_bit(
    corpus_of: CorpusOf, variant: str, filtered: bool
) -> None:
    passages = many_passages(60)
    retriever = make(corpus_of, passages, VARIANTS[variant])
    allowed = np.random.default_rng(0).random(60) < 0.7 if filtered else None
    queries = questions(40)
    together = retriever.search(queries, 10, allowed)
    assert together == [retriever.search([query], 10, allowed)[0] for query in queries]
    facts = VARIANTS[variant].activation == "facts"
    unnamed = set() if facts else {NO_SEED}  # facts need no name
    assert {ranking.degraded for ranking in together} == {"", *unnamed}
    random.Random(0).shuffle(passages)
    shuffled = make(corpus_of, passages, VARIANTS[variant])
    assert together[::-1] == shuffled.search(queries[::-1], 10, allowed)


HOP = Query("Where was the husband of Ada born?", np.array([1, 0, 0, 0], np.float32))


def test_equal_scores_are_ordered_by_id(corpus_of: CorpusOf) -> None:
    twins = [Passage(id_, "Same", "[Ada] met [Bo].") for id_ in ("c", "a", "😀", "B")]
    corpus = corpus_of(*twins, vectors={p.id: [1, 0, 0, 0] for p in twins})
    retriever = TriGraphRetriever(corpus, NO_LEXICAL)
    for text in ("Who is Ada?", "who is it?"):
        (result,) = retriever.search([Query(text, HOP.vector)], 3)
        assert [hit.id for hit in result.hits] == ["B", "a", "c"]
        assert len({hit.score for hit in result.hits}) == 1


def test_at_most_k_and_all_when_there_are_fewer(corpus_of: CorpusOf) -> None:
    retriever = make(corpus_of, many_passages(9), TriGraphSettings())
    query = questions(2)[1]
    (full,) = retriever.search([query], 1000)
    assert len(full.hits) == 9
    for k in (1, 4, 9):
        (some,) = retriever.search([query], k)
        assert some.hits == full.hits[:k]
        assert some.candidates == 9
    none = np.zeros(9, bool)
    assert [ranking.hits for ranking in retriever.search([query], 3, none)] == [()]
    assert retriever.search([], 3) == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("texts", [[], ["nothing named."], ["[Ada] met [Bo Ek]."]])
def test_a_corpus_of_a_passage_or_none(corpus_of: CorpusOf, variant: str, texts: list[str]) -> None:
    retriever = make(corpus_of, [Passage("a", "", text) for text in texts], VARIANTS[variant])
    queries = questions(6)
    for query, result in zip(queries, retriever.search(queries, 3), strict=True):
        if texts:
            check(retriever, query, result, np.ones(1, bool))
        else:
            assert result == Ranking("graph", (), 0, NO_SEED)


def test_linearrag_links_tagged_names_alone_by_their_vectors(corpus_of: CorpusOf) -> None:
    passages = [Passage("a", "Como", "[Ada] sang."), Passage("b", "Ada", "Como with [Bo Ek].")]
    published, default = (
        make(corpus_of, passages, settings) for settings in (LINEARRAG, TriGraphSettings())
    )
    # Titles and names in running text are entities of the default alone.
    assert list(published.graph.keys) == ["ada", "bo ek"]
    assert list(default.graph.keys) == ["ada", "bo ek", "como"]
    queries = Query("Is Como nice?", unit(np.random.default_rng(0)))
    assert trace_of(published.batch([queries]), 0).seeds == ()
    assert [s.origin for s in trace_of(default.batch([queries]), 0).seeds] == ["vocabulary"]
    # A name it does not know is linked to the most similar one, however far.
    como = replace(queries, mentions=(Mention("Como", "entity", queries.vector),))
    assert [s.origin for s in trace_of(published.batch([como]), 0).seeds] == ["nearest"]
    assert [s.origin for s in trace_of(default.batch([como]), 0).seeds] == ["vocabulary"]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, [("Ada", 1.0, 2, 0), ("Como", 1.0, 2, 2)]),
        ([False, True, True, False], [("Ada", 1.0, 1, 0), ("Como", 1.0, 1, 1)]),
        ([False, False, False, True], []),
    ],
)
def test_seeds_say_how_much_of_what_a_filter_leaves_they_point_at(
    corpus_of: CorpusOf, mask: list[bool] | None, expected: list[tuple[str, float, int, int]]
) -> None:
    passages = [
        Passage("a", "Como", "[Ada] sails on [Como]."),
        Passage("b", "Como", "[Bo] swims in [Como]."),
        Passage("c", "", "[Ada] met [Bo] and [Cy]."),
        Passage("d", "", "[Dee] is alone."),
    ]
    graph = TriGraphRetriever(corpus_of(*passages), NO_LEXICAL)
    query = Query("Does Ada sail on Como?", HOP.vector, mentions=(Mention("Ada", "entity"),))
    result = graph.batch([query], None if mask is None else np.array(mask)).seeds([0])[0]
    assert [(s.mention, s.value, s.passages, s.titles) for s in result] == expected


ASKED = questions(12)


def test_questions_are_walked_for_a_few_at_a_time_where_room_is_short(
    corpus_of: CorpusOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = make(corpus_of, many_passages(40), TriGraphSettings())
    expected = retriever.search(ASKED, 9)
    for cells in (5 * 40, 1):
        monkeypatch.setattr("wye.backends.numerics.CELLS", cells)
        assert retriever.search(ASKED, 9) == expected
