"""Questions to seeds, over a graph of a few marked sentences."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tests.backends.conftest import CorpusOf
from wye.backends.errors import BackendError
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import assemble
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.seeds import SeedFinder
from wye.backends.trigraph.settings import AssemblySettings, SeedSettings, TriGraphSettings
from wye.backends.types import Mention, NameCoverage, Passage, Query

PLAIN = SeedSettings(lower_case_word=0.25, lower_case_name=0.75, noun_phrase=0.5)
PASSAGES = [
    Passage("a", "The Reef (film)", "[Ada Lind] filmed the {warm salt} of [Como]."),
    Passage("b", "", "[St. Gallen] trades {warm salt} with [Bo]."),
    Passage("c", "", "[Lake Como] and the [1900s]."),
]
VECTORS = {
    "Ada Lind": [1, 0, 0, 0],
    "Como": [0, 1, 0, 0],
    "Bo": [0, 0.6, 0.8, 0],
    "St. Gallen": [0, 0, 0, 1],
    "Lake Como": [0, 0.8, 0.6, 0],
    "1900s": [-1, 0, 0, 0],
    "The Reef": [0, 0, -1, 0],
    "The Reef (film)": [0, 0, -1, 0],
}


class Asker:
    """Names seeds instead of numbering them."""

    def __init__(
        self, corpus: Corpus, settings: SeedSettings, noun_phrases: Literal["on", "off"] = "on"
    ) -> None:
        self.graph = assemble(corpus, AssemblySettings(noun_phrases=noun_phrases))
        self.finder = SeedFinder(self.graph, corpus, settings)

    def find(
        self, text: str, *mentions: Mention, without: Sequence[str] = ()
    ) -> list[tuple[str, float, str, str]]:
        """Leave these keys without any passage, as a filter may."""
        usable = self.graph.degrees.astype(np.int64)
        usable[[self.graph.keys.find(key) for key in without]] = 0
        query = Query(text, np.zeros(4, np.float32), mentions=mentions)
        seeds = self.finder.find(query, lambda entities: usable[entities])
        return [(self.graph.keys[s.entity], s.value, s.mention, s.origin) for s in seeds]


@pytest.fixture
def asker(corpus_of: CorpusOf) -> Asker:
    return Asker(corpus_of(*PASSAGES), PLAIN)


@pytest.fixture
def near(corpus_of: CorpusOf) -> Callable[..., Asker]:
    corpus = corpus_of(*PASSAGES, vectors=VECTORS, entity_vectors=True)

    def make(**changes: float) -> Asker:
        return Asker(corpus, replace(PLAIN, nearest=True, **changes))  # type: ignore[arg-type]

    return make


def named(text: str, vector: list[float] | None = None) -> Mention:
    return Mention(text, "entity", None if vector is None else np.array(vector, np.float32))


def test_a_tagged_name_is_the_entity_of_that_name(asker: Asker) -> None:
    found = asker.find("who is it", named("ADA LIND’s"), named("nobody"))  # noqa: RUF001
    assert found == [("ada lind", 1.0, "ADA LIND’s", "name")]  # noqa: RUF001


@pytest.mark.parametrize(
    ("question", "seeds"),
    [
        ("Where is Lake Como?", [("lake como", 1.0, "Lake Como")]),
        ("Where is lake Como?", [("lake como", 1.0, "lake Como")]),
        ("where is lake como?", [("lake como", 0.75, "lake como")]),
        ("where is como", [("como", 0.25, "como")]),
        ("when was the como built", [("como", 0.75, "como")]),
        # The first word of a question has a capital letter anyway.
        ("Como is where?", [("como", 0.25, "Como")]),
        ("Lake como is where?", [("lake como", 0.75, "Lake como")]),
        ("Lake Como is where?", [("lake como", 1.0, "Lake Como")]),
        ("what of the 1900s", [("1900s", 1.0, "1900s")]),
        ("Is St. Gallen far?", [("st. gallen", 1.0, "St. Gallen")]),
        ("Did Ada Lind see Como and como?", [("ada lind", 1, "Ada Lind"), ("como", 1, "Como")]),
        ("who saw como, or Como", [("como", 1.0, "Como")]),
        ("the reef or The Reef", [("reef", 1.0, "Reef")]),
        ("is combo a comologno", []),
        ("the warm salt", []),
        ("", []),
        ("?!", []),
        ("😀 כומו", []),
    ],
)
def test_known_names_are_found_word_for_word(
    asker: Asker, question: str, seeds: list[tuple[str, float, str]]
) -> None:
    assert asker.find(question) == [(*seed, "vocabulary") for seed in seeds]


def test_the_vocabulary_can_be_left_out(corpus_of: CorpusOf) -> None:
    asker = Asker(corpus_of(*PASSAGES), replace(PLAIN, vocabulary=False))
    assert asker.find("Lake Como", named("Bo")) == [("bo", 1.0, "Bo", "name")]


def test_a_noun_phrase_is_a_seed_when_the_graph_knows_it_as_one(asker: Asker) -> None:
    phrases = [Mention(text, "phrase") for text in ("warm salt", "como", "cold salt")]
    assert asker.find("??", *phrases) == [("warm salt", 0.5, "warm salt", "phrase")]
    # What the tagger takes for a name is not looked up among noun phrases.
    assert asker.find("??", named("warm salt")) == []


def test_each_entity_is_a_seed_once_with_its_best_value_in_the_order_found(asker: Asker) -> None:
    mentions = [named("Bo"), named("Ada Lind"), Mention("warm salt", "phrase"), named("bo")]
    assert asker.find("does como lie by the Ada Lind", *mentions) == [
        ("bo", 1.0, "Bo", "name"),
        ("ada lind", 1.0, "Ada Lind", "name"),
        ("como", 0.25, "como", "vocabulary"),
        ("warm salt", 0.5, "warm salt", "phrase"),
    ]


def test_mentions_are_left_out_where_a_name_is_spelt_as_one(corpus_of: CorpusOf) -> None:
    asker = Asker(corpus_of(*PASSAGES), PLAIN, noun_phrases="off")
    lake = [("lake como", 1.0, "Lake Como", "vocabulary")]
    assert asker.find("Is it Lake Como?", named("Bo"), named("1900s")) == lake
    # The parser is asked where capitals do not tell, and where a filter leaves the name nothing.
    bo = [("bo", 1.0, "Bo", "name")]
    assert asker.find("is it lake como", named("Bo"))[:1] == bo
    assert asker.find("Is it Lake Como?", named("Bo"), without=["lake como", "como"]) == bo


def test_an_entity_that_a_filter_leaves_without_passages_is_no_seed(asker: Asker) -> None:
    mentions = [named("Bo"), named("Ada Lind"), Mention("warm salt", "phrase")]
    found = asker.find("Is it Como?", *mentions, without=["como", "bo", "warm salt"])
    assert found == [("ada lind", 1.0, "Ada Lind", "name")]


def test_a_name_that_a_filter_hides_does_not_hide_a_shorter_one(asker: Asker) -> None:
    text = "Who sailed on Lake Como?"
    assert [one[0] for one in asker.find(text)] == ["lake como"]
    assert asker.find(text, without=["lake como"]) == [("como", 1.0, "Como", "vocabulary")]
    assert asker.find(text, without=["lake como", "como"]) == []


def test_an_unknown_name_takes_the_nearest_entity(near: Callable[..., Asker]) -> None:
    asker = near(similarity_floor=0.79)
    assert asker.finder.needs_vector("Beau")
    assert not asker.finder.needs_vector("bo’s")  # noqa: RUF001
    # A noun phrase of the graph is no name.
    assert asker.finder.needs_vector("warm salt")
    beau = named("Beau", [0, 0, 1, 0])
    found = asker.find("x", beau, named("Adah", [1, 0, 0, 0]))
    names = [(key, mention, origin) for key, _, mention, origin in found]
    assert names == [("bo", "Beau", "nearest"), ("ada lind", "Adah", "nearest")]
    assert [value for _, value, *_ in found] == pytest.approx([0.8, 1.0], abs=1e-3)
    assert near(similarity_floor=0.81).find("x", beau) == []
    # Known names need no vector, and mentions without one are passed over.
    assert asker.find("x", named("Bo", [1, 0, 0, 0]), named("Beau")) == [("bo", 1.0, "Bo", "name")]


def test_a_seed_is_positive_whatever_the_floor(near: Callable[..., Asker]) -> None:
    opposite = named("Opposite", [0, -0.8, 0, -0.6])
    gone = ["1900s", "reef", "reef (film", "warm salt"]
    assert near(similarity_floor=-1.0).find("x", opposite, without=gone) == []


def test_the_nearest_is_looked_for_among_what_a_filter_leaves(near: Callable[..., Asker]) -> None:
    asker = near(similarity_floor=0.5)
    ((key, value, *_),) = asker.find("x", named("Beau", [0, 0, 1, 0]), without=["bo"])
    assert key == "lake como"
    assert value == pytest.approx(0.6, abs=1e-3)


def test_no_vector_is_asked_for_when_nearest_is_off(corpus_of: CorpusOf) -> None:
    asker = Asker(corpus_of(*PASSAGES), PLAIN)
    assert not asker.finder.needs_vector("Beau")
    assert asker.find("x", named("Beau", [0, 0, 1, 0])) == []
    # When it is on, an index without such vectors says what to do.
    with pytest.raises(BackendError, match=r"no vectors of names.*wye index SOURCE.*linearrag"):
        Asker(corpus_of(*PASSAGES), replace(PLAIN, nearest=True))


@pytest.mark.parametrize("passages", [[], [Passage("a", "", "nothing named.")]])
def test_a_graph_of_no_entities_has_no_seeds(corpus_of: CorpusOf, passages: list[Passage]) -> None:
    for settings in (PLAIN, replace(PLAIN, nearest=True, similarity_floor=0.0)):
        asker = Asker(corpus_of(*passages), settings)
        assert asker.find("Is Como named?", named("Como", [1, 0, 0, 0])) == []


def test_names_of_a_question_are_found_among_a_few_passages(corpus_of: CorpusOf) -> None:
    passages = [
        Passage("a", "Reef (film)", "[Ada Lind] filmed it."),
        Passage("b", "", "[Ada Lind] met [Bo Ek]."),
        Passage("c", "Ada Lind", "Born in [Como]."),
    ]
    arm = TriGraphRetriever(
        corpus_of(*passages), TriGraphSettings(lexical_weight=0, lexical_weight_titled=0)
    )
    query = Query("Where was Ada Lind, director of Reef, born?", np.ones(4, np.float32))
    expected = [
        NameCoverage("Ada Lind", 1.0, 3, 1, 0b10, 0b11),
        NameCoverage("Reef", 1.0, 1, 1, 0b01, 0b01),
    ]
    assert arm.batch([query]).names_in([0], [["a", "c"]]) == [tuple(expected)]
    # Of the passages that take part, one mentions her.
    ((found, _),) = arm.batch([query], np.array([True, False, False])).names_in([0], [["a"]])
    assert (found.degree, found.titled, found.titles, found.texts) == (1, 0, 0, 1)
    # What a parser tagged changes nothing: it may not have been asked yet.
    tagged = replace(query, mentions=(Mention("Como", "entity"),))
    assert arm.batch([tagged]).names_in([0], [["a", "c"]]) == [tuple(expected)]
