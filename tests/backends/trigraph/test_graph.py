"""Corpora of a few marked sentences, and the graphs they must give."""

import random
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from tests.backends.conftest import CorpusOf, counts_of, many_passages, unmarked
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import LISTS, MAX_PHRASE_PASSAGES, TriGraph, assemble
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Passage

BARE = AssemblySettings(title_entities=False, link_text=False, noun_phrases="off")


def counts(graph: TriGraph, corpus: Corpus) -> dict[str, dict[str, float]]:
    """How often each passage mentions each entity, by id and key, as each method says it."""
    dense = counts_of(graph, corpus)
    row, entity, count = graph.mentioned_in(np.arange(len(corpus)))
    assert dense[row, entity].tolist() == count.tolist()
    assert np.count_nonzero(dense[:, : len(graph)]) == len(row)
    owner, rows = graph.passages.pairs(np.arange(len(graph)))
    assert sorted(zip(rows, owner, strict=True)) == sorted(zip(row, entity, strict=True))
    assert graph.degrees.tolist() == np.bincount(owner, minlength=len(graph)).tolist()
    return {
        id_: {key: float(dense[row, e]) for e, key in enumerate(graph.keys) if dense[row, e]}
        for row, id_ in enumerate(corpus.ids)
    }


def mentions(graph: TriGraph, corpus: Corpus) -> dict[str, list[str]]:
    every = range(len(corpus.sentence_passage))
    return {
        text: [graph.keys[e] for e in graph.mentions.one(sentence)]
        for sentence, text in zip(every, corpus.sentence_texts(list(every)), strict=True)
    }


def titled(graph: TriGraph, corpus: Corpus) -> dict[str, list[str]]:
    found = {
        key: [corpus.ids[row] for row in graph.titled.one(e).tolist()]
        for e, key in enumerate(graph.keys)
    }
    return {key: ids for key, ids in found.items() if ids}


def test_mentions_count_once_a_sentence(corpus_of: CorpusOf) -> None:
    corpus = corpus_of(
        Passage("a", "", "[Ada] wrote to [Ada]'s friend [Bo Ek].\n[ADA] slept."),
        Passage("b", "", "[bo  ek’s] house."),  # noqa: RUF001
    )
    graph = assemble(corpus, BARE)
    assert list(graph.keys) == ["ada", "bo ek"]
    assert [graph.keys.find(key) for key in ("ada", "ad", "bo ek", "z")] == [0, -1, 1, -1]
    assert len(graph) == 2
    assert counts(graph, corpus) == {"a": {"ada": 2, "bo ek": 1}, "b": {"bo ek": 1}}
    assert mentions(graph, corpus) == {
        "Ada wrote to Ada's friend Bo Ek.": ["ada", "bo ek"],
        "ADA slept.": ["ada"],
        "bo  ek’s house.": ["bo ek"],  # noqa: RUF001
    }
    assert graph.degrees.tolist() == [1, 2]
    assert graph.is_phrase.tolist() == [False, False]
    assert not len(graph.titled.pairs(np.arange(len(graph.titled)))[1])


def test_a_title_is_an_entity_of_its_passage_and_of_its_sentences(corpus_of: CorpusOf) -> None:
    corpus = corpus_of(
        Passage("a", "The Reef (film)", "Shot by [Ada].\nNobody is named here.\n[Reef] sank."),
        Passage("b", "Reef", "Seen by [Bo]."),
    )
    graph = assemble(corpus, replace(BARE, title_entities=True))
    assert list(graph.keys) == ["ada", "bo", "reef", "reef (film"]
    expected = {"a": {"ada": 1, "reef": 3, "reef (film": 3}, "b": {"bo": 1, "reef": 2}}
    assert counts(graph, corpus) == expected
    assert mentions(graph, corpus) == {
        "Shot by Ada.": ["ada", "reef", "reef (film"],
        "Reef sank.": ["reef", "reef (film"],
        "Seen by Bo.": ["bo", "reef"],
    }
    assert titled(graph, corpus) == {"reef": ["a", "b"], "reef (film": ["a"]}


def test_known_names_are_linked_where_they_stand_word_for_word(corpus_of: CorpusOf) -> None:
    corpus = corpus_of(
        Passage("a", "", "[Lake Como] is deep.\n[Como] is near."),
        Passage("b", "", "[Ada] saw Lake Como and Como again, and Comologno.\nIn como [Ada] sat."),
        Passage("c", "", "[Bo] swam in Lake\nComo met [Bo]."),
    )
    graph = assemble(corpus, replace(BARE, link_text=True))
    found = mentions(graph, corpus)
    assert found["Ada saw Lake Como and Como again, and Comologno."] == ["ada", "como", "lake como"]
    # In running text a name begins with a capital letter, and ends with its sentence.
    assert found["In como Ada sat."] == ["ada"]
    assert found["Bo swam in Lake"] == ["bo"]
    assert found["Como met Bo."] == ["bo", "como"]
    # "Lake Como" is tagged in a, and its own "Como" is no name there: the longest counts.
    assert counts(graph, corpus) == {
        "a": {"lake como": 1, "como": 1},
        "b": {"ada": 2, "como": 1, "lake como": 1},
        "c": {"bo": 2, "como": 1},
    }


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # A linked name counts once a sentence and not beside the tagger.
        (["[Como] and Como.\nComo with [Ada], Como with Ada."], {"ada": 1, "como": 2}),
        # Short single words and function words are not linked.
        (
            [
                "Bo saw [Ada]. It saw The Who. Al Bo saw nothing.",
                "[Bo] and [It] and [Al Bo] and [The Who] stand alone.",
            ],
            {"ada": 1, "al bo": 1},
        ),
    ],
)
def test_linking_counts(corpus_of: CorpusOf, texts: list[str], expected: dict[str, float]) -> None:
    corpus = corpus_of(*(Passage(f"p{n}", "", text) for n, text in enumerate(texts)))
    graph = assemble(corpus, replace(BARE, link_text=True))
    assert counts(graph, corpus)["p0"] == expected


def test_noun_phrases_tie_passages_when_they_recur(corpus_of: CorpusOf) -> None:
    corpus = corpus_of(
        Passage("a", "", "A {tidal wave} and a {tidal wave}.\nThe {coral} of [Ada]."),
        Passage("b", "", "One {tidal wave}, {one lamp} and {one lamp}."),
        Passage("c", "", "The [Coral] and {coral}."),
    )
    graph = assemble(corpus, replace(BARE, noun_phrases="on"))
    assert list(graph.keys) == ["ada", "coral", "tidal wave"]
    # What the tagger names anywhere is no mere phrase.
    assert graph.is_phrase.tolist() == [False, False, True]
    expected = {"a": {"ada": 1, "coral": 1, "tidal wave": 1}, "b": {"tidal wave": 1}}
    assert counts(graph, corpus) == {**expected, "c": {"coral": 1}}
    assert graph.names.find(["coral"]) != []
    assert graph.names.find(["tidal", "wave"]) == []


@pytest.mark.parametrize(
    ("passages", "salt", "sand"),
    [(100, MAX_PHRASE_PASSAGES, MAX_PHRASE_PASSAGES + 1), (1200, 24, 25)],
)
def test_a_noun_phrase_of_too_many_passages_says_nothing(
    corpus_of: CorpusOf, passages: int, salt: int, sand: int
) -> None:
    """Of more than a few passages, or of more than two per cent in a large corpus."""
    texts = ["{salt}"] * salt + ["{sand}"] * sand + ["[Ada]"] * (passages - salt - sand)
    corpus = corpus_of(*(Passage(f"{n:04}", "", text) for n, text in enumerate(texts)))
    assert list(assemble(corpus, replace(BARE, noun_phrases="on")).keys) == ["ada", "salt"]


@pytest.mark.parametrize(
    ("entities", "setting", "taken"),
    [(1, "auto", False), (0, "auto", True), (1, "on", True), (0, "off", False)],
)
def test_by_default_noun_phrases_are_taken_where_names_are_rare(
    corpus_of: CorpusOf, entities: int, setting: str, taken: bool
) -> None:
    named = "[Ada] has " * entities
    corpus = corpus_of(
        Passage("a", "", f"{named}{{salt}} and {{sand}}."), Passage("b", "", "{salt} with {sand}.")
    )
    chosen = AssemblySettings(noun_phrases=setting)  # type: ignore[arg-type]
    graph = assemble(corpus, chosen)
    # One name to four phrases is not fewer than one to four.
    assert ("salt" in graph.keys, "sand" in graph.keys) == (taken, taken)


def test_entities_are_shown_as_they_are_most_often_written(corpus_of: CorpusOf) -> None:
    corpus = corpus_of(
        Passage("a", "Mercury (planet)", "[ADA] and [Ada] and [Ada's] and [Ada's].\n[bo] [Bo]."),
        Passage("b", "mercury", "[Ada] again, with {warm salt}."),
        Passage("c", "The Reef (novel)", "More {warm salt} with [Cy]."),
    )
    graph = assemble(corpus, replace(BARE, title_entities=True, noun_phrases="on"))
    assert dict(zip(graph.keys, graph.display_names.all(), strict=True)) == {
        # Ada and Ada's stand twice each: the first in code point order.
        "ada": "Ada",
        "bo": "Bo",
        "cy": "Cy",
        # Of titles, the first passage's.
        "mercury": "Mercury",
        "mercury (planet": "Mercury (planet)",
        "reef": "The Reef",
        "reef (novel": "The Reef (novel)",
        "warm salt": "warm salt",
    }


def test_a_corpus_without_passages(corpus_of: CorpusOf) -> None:
    for settings in (BARE, AssemblySettings(noun_phrases="on")):
        graph = assemble(corpus_of(), settings)
        assert (list(graph.keys), graph.display_names.all(), len(graph)) == ([], [], 0)
        assert graph.degrees.shape == (0,)
        assert len(graph.titled) == 0
        assert graph.names.find(["Ada"]) == []


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        (["nothing here.", "nor {one thing}."], []),
        # A surface that is only punctuation is no entity.
        (["[...] and [Ada] and {“”}.", "{“”}."], ["ada"]),
    ],
)
def test_a_corpus_of_few_entities(corpus_of: CorpusOf, texts: list[str], keys: list[str]) -> None:
    corpus = corpus_of(*(Passage(f"p{n}", "?!", text) for n, text in enumerate(texts)))
    graph = assemble(corpus, AssemblySettings(noun_phrases="on"))
    assert list(graph.keys) == keys
    assert counts(graph, corpus) == {"p0": dict.fromkeys(keys, 1), "p1": {}}
    assert mentions(graph, corpus)[unmarked(texts[1])] == []


def same(one: TriGraph, other: TriGraph) -> bool:
    def arrays(graph: TriGraph) -> tuple[object, ...]:
        lists = [getattr(graph, name) for name in LISTS]
        arrays = [(each.starts, each.items) for each in lists]
        return (*chain(*arrays), graph.degrees, graph.is_phrase, graph.owners)

    def named(graph: TriGraph) -> tuple[object, ...]:
        return list(graph.keys), graph.display_names.all()

    return named(one) == named(other) and all(
        map(np.array_equal, arrays(one), arrays(other))  # type: ignore[arg-type]
    )


def test_the_order_of_the_file_changes_nothing(corpus_of: CorpusOf) -> None:
    passages = many_passages(30, 3)
    settings = AssemblySettings(noun_phrases="on")
    straight = assemble(corpus_of(*passages), settings)
    assert straight.is_phrase.any()
    for seed in range(2):
        random.Random(seed).shuffle(passages)
        assert same(assemble(corpus_of(*passages), settings), straight)
