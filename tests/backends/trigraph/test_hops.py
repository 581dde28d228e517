"""Second hops, beside an obvious version that looks at every name of every sentence."""

import math
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backends.conftest import CorpusOf
from wye.backends.lexical import LexicalRetriever, LexicalSettings
from wye.backends.store.corpus import Corpus
from wye.backends.text import content_terms
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.hops import COMMON, FIRST, HOPS, RARE, Hop, _Words, second_hops
from wye.backends.trigraph.question import InMemory
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Mask, Passage, Query, WordCoverage

QUESTION = "Which shift has the warden who heard the noise?"
PASSAGES = (
    Passage("berg", "Runa Berg", "[Runa Berg] shift: late."),
    Passage("lie", "Odd Lie", "[Odd Lie] shift: early."),
    Passage("log", "Log", "A warden, [Odd Lie], heard the noise.\n[Runa Berg] slept."),
    Passage("menu", "Menu", "[Runa Berg] had soup.\n[Runa Berg] likes it."),
    Passage("notes", "Notes", "[Runa Berg] wrote this."),
)


@pytest.fixture
def arms(corpus_of: CorpusOf) -> tuple[TriGraphRetriever, LexicalRetriever]:
    vectors = {"A warden, Odd Lie, heard the noise.": [1.0, 0.0], "Runa Berg slept.": [0.6, 0.8]}
    corpus = corpus_of(*PASSAGES, vectors=vectors, dimension=2)
    settings = TriGraphSettings(lexical_weight=0, lexical_weight_titled=0)
    texts = [f"{p.title}\n{corpus.texts([row])[0]}" for row, p in enumerate(PASSAGES)]
    lexical = LexicalRetriever(corpus.ids, texts, LexicalSettings())
    return TriGraphRetriever(corpus, settings), lexical


def hops_among(corpus: Corpus, question: str, *first: str) -> list[Hop]:
    """Of a question over passages, of which these are first."""
    arm = TriGraphRetriever(corpus, TriGraphSettings(lexical_weight=0, lexical_weight_titled=0))
    texts = corpus.texts(np.arange(len(corpus)))
    lexical = LexicalRetriever(corpus.ids, texts, LexicalSettings())
    return hops_of(arm, lexical, Query(question, np.array([1, 0], np.float32)), first)


def hops_of(
    arm: TriGraphRetriever,
    lexical: LexicalRetriever,
    query: Query,
    first: Sequence[str],
    allowed: Mask | None = None,
) -> list[Hop]:
    source = InMemory(arm.corpus, arm.graph, FilteredGraph(arm.graph, allowed), query)
    words = partial(lexical.words_in, query.text, titles=())
    return second_hops(source, lambda rows: words(rows.tolist()), query, first)


def obvious(
    arm: TriGraphRetriever,
    lexical: LexicalRetriever,
    query: Query,
    first: Sequence[str],
    allowed: Mask | None,
) -> dict[str, float]:
    """Probability of each named passage."""
    corpus, graph, filtered = arm.corpus, arm.graph, FilteredGraph(arm.graph, allowed)
    heads = corpus.rows(first[:FIRST])

    def words(row: int) -> set[str]:
        return set(content_terms(f"{corpus.titles[row]}\n{corpus.texts([row])[0]}"))

    near = {
        sentence: float(
            corpus.sentence_vectors[np.array([sentence])].astype(np.float32)[0] @ query.vector
        )
        for head in heads
        for sentence in np.flatnonzero(corpus.sentence_passage == head).tolist()
    }
    asked = content_terms(query.text)
    idf = {word: lexical.words_in(word, [], [])[0].weight for word in asked}

    def share(words: Iterable[str]) -> float:
        return sum(idf[word] for word in words) / sum(idf.values())

    def linked(sentence: int) -> float:
        (text,) = corpus.sentence_texts([sentence])
        return share(idf.keys() & set(content_terms(text)))

    best: dict[str, tuple[float, float]] = {}
    for rank, head in enumerate(heads):
        for sentence in np.flatnonzero(corpus.sentence_passage == head).tolist():
            for entity in graph.mentions.one(sentence).tolist():
                one = np.array([entity])
                degree = int(filtered.degree(one)[0])
                titled = filtered.titles(one)[0].tolist()
                mentioned = filtered.mentions(one)[0].tolist() if degree <= RARE else []
                pages = titled if head not in titled and degree <= COMMON else []
                known = HOPS.bias + HOPS.rank * rank + HOPS.rarity * math.log(max(degree, 1))
                known += HOPS.nearness * (near[sentence] - max(near.values()))
                known += HOPS.linked * linked(sentence)
                added_to = [
                    *((row, 0.0) for row in pages),
                    *((row, HOPS.mention) for row in mentioned),
                ]
                for row, added in added_to:
                    if corpus.documents[row] == corpus.documents[head]:
                        continue
                    logit = known + added
                    new = [w for w in idf if w in words(row) and w not in words(head)]
                    if logit > best.get(corpus.ids[row], (-math.inf, 0.0))[0]:
                        chance = 1 / (1 + math.exp(-logit - HOPS.words * share(new)))
                        best[corpus.ids[row]] = (logit, chance)
    return {id_: probability for id_, (_, probability) in best.items()}


def test_a_name_in_the_nearest_sentence_leads_to_its_passage(
    arms: tuple[TriGraphRetriever, LexicalRetriever],
) -> None:
    hops = hops_of(*arms, Query(QUESTION, np.array([1, 0], np.float32)), ["log", "menu"])
    assert [hop.passage for hop in hops] == ["lie", "berg"]
    assert (hops[0].name, hops[0].source) == ("Odd Lie", "log")
    assert hops[0].probability > 0.9 > hops[1].probability


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who was on watch when the mast broke?", ["on 05-07"]),
        ("Who was on watch the night the mast broke?", ["on 05-07"]),
        ("Who saw the broken mast?", []),
    ],
)
def test_a_day_leads_to_the_row_of_that_day_where_the_question_ties_things_by_time(
    corpus_of: CorpusOf, question: str, names: list[str]
) -> None:
    passages = (
        Passage("log.md", "Log", "On 7 May the mast of the [Heron] broke."),
        Passage("rota.csv:1", "Tue", "date: 06.05.31; watch: Lie"),
        Passage("rota.csv:2", "Wed", "date: 07.05.31; watch: Berg"),
    )
    hops = hops_among(corpus_of(*passages, dimension=2), question, "log.md")
    assert [hop.name for hop in hops] == names
    assert {hop.passage for hop in hops} <= {"rota.csv:2"}


IDS = [passage.id for passage in PASSAGES]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.lists(st.sampled_from(IDS), unique=True, min_size=1),
    angle=st.floats(0, 3.0),
    mask=st.none() | st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_it_agrees_with_the_obvious_version(
    arms: tuple[TriGraphRetriever, LexicalRetriever],
    first: list[str],
    angle: float,
    mask: list[bool] | None,
) -> None:
    allowed = None if mask is None else np.array(mask)
    vector = np.array([math.cos(angle), math.sin(angle)], np.float32)
    query = Query(QUESTION, vector)
    hops = hops_of(*arms, query, first, allowed)
    assert {hop.passage: hop.probability for hop in hops} == pytest.approx(
        obvious(*arms, query, first, allowed), rel=1e-5
    )
    assert [hop.probability for hop in hops] == sorted((h.probability for h in hops), reverse=True)


@pytest.mark.parametrize(("head", "places"), [("rota:1", ["staff:2"]), ("log", [])])
def test_among_rows_the_likeliest_passage_has_a_place(
    corpus_of: CorpusOf, head: str, places: list[str]
) -> None:
    passages = (
        Passage("log", "Log", "The watch of [Odd Lie] was quiet."),
        Passage("rota:1", "Tue", "watch: [Odd Lie]; boat: [Heron]"),
        Passage("staff:1", "Heron", "berth: 4; length: 9"),
        Passage("staff:2", "Odd Lie", "role: mate; phone: 4711"),
    )
    question = "What is the phone of the watch on Tuesday?"
    hops = hops_among(corpus_of(*passages, dimension=2), question, head)
    assert "staff:2" in [hop.passage for hop in hops]
    assert [hop.passage for hop in hops if hop.among_first] == places


def test_a_code_in_the_title_of_a_row_leads_to_what_it_names(corpus_of: CorpusOf) -> None:
    passages = (
        Passage("orders:1", "Shaft for PB-4", "ordered by: [Odd Lie]; price: 40"),
        Passage("boats:4", "PB-4", "berth: 7; length: 9"),
    )
    question = "Berth of what needs a shaft?"
    hops = hops_among(corpus_of(*passages, dimension=2), question, "orders:1")
    assert [(hop.passage, hop.name) for hop in hops] == [("boats:4", "PB-4")]


def test_what_the_first_row_says_is_not_asked_of_another(corpus_of: CorpusOf) -> None:
    passages = (
        Passage("log", "Log", "The rope of [Skua] was bad."),
        Passage("orders:1", "Rope", "ordered by: [Odd Lie]; length: 40; colour: red"),
        Passage("orders:2", "Skua", "ordered by: nobody; length: 30; colour: blue"),
        Passage("staff:2", "Odd Lie", "role: mate; phone: 4711"),
    )
    vectors = {"The rope of Skua was bad.": [1.0, 0.0]}
    corpus = corpus_of(*passages, vectors=vectors, dimension=2)
    question = "Phone of who ordered rope of that length and colour?"
    hops = hops_among(corpus, question, "orders:1", "log")
    assert [hop.passage for hop in hops if hop.among_first] == ["staff:2"]


def test_a_share_has_the_same_bits_in_any_order_of_words() -> None:
    weights = {"a": 0.1, "b": 0.2, "c": 0.3}
    words = _Words(WordCoverage(name, weight, 0, 0) for name, weight in weights.items())
    assert words.share("abc") == words.share("cba") == words.share("bca")
