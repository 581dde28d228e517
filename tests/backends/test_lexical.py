"""The lexical arm, against the BM25 formula over dictionaries."""

from collections import Counter
from collections.abc import Callable
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wye.backends.lexical import (
    NO_TERM,
    LexicalRetriever,
    LexicalSettings,
    RequestError,
    question_notations,
)
from wye.backends.notations import notations
from wye.backends.text import singular, terms
from wye.backends.types import Query, Ranking

TEXTS = [
    "Ada Lovelace\nAda Lovelace wrote the first program.",
    "Charles Babbage\nBabbage designed the analytical engine.",
    "Analytical Engine\nA machine designed by Charles Babbage; Ada Lovelace wrote about it.",
    "Emoji \N{RAINBOW}\n",
    "",
]


def ids_of(n: int) -> list[str]:
    return [f"p{row:05}" for row in range(n)]


def ask(text: str) -> Query:
    return Query(text, np.zeros(1, np.float32))


def slow_bm25(texts: list[str], question: str, chosen: LexicalSettings) -> list[float]:
    """Kamphuis et al. 2020, table 1, one passage and one term at a time."""
    stopwords = frozenset(chosen.stopwords)

    def further(text: str, read: Callable[[str], list[str]] = notations) -> list[str]:
        words = [word for word in read(text) if word not in stopwords]
        return [singular(word) if chosen.stemmer == "s" else word for word in words]

    lengths = [len(terms(text, chosen.stemmer, stopwords)) for text in texts]
    passages = [Counter([*terms(own, chosen.stemmer, stopwords), *further(own)]) for own in texts]
    n = len(texts)
    mean = sum(lengths) / n or 1.0
    scores = [0.0] * n
    wanted = terms(question, chosen.stemmer, stopwords)
    # A word with an umlaut counts once where a passage has it.
    is_known = any(passage["ol"] for passage in passages)
    twice = {"oel"} if "Öl" in question and is_known else set()
    wanted += [term for term in further(question, question_notations) if term not in twice]
    for term in wanted:
        df = sum(term in passage for passage in passages)
        for row, passage in enumerate(passages):
            if tf := passage[term]:
                norm = chosen.k1 * (1 - chosen.b + chosen.b * lengths[row] / mean)
                scores[row] += log(1 + (n - df + 0.5) / (df + 0.5)) * tf / (tf + norm)
    return scores


WORDS = (
    "ada engine engines the who Łódź café x1 東京 X-400 x400 1.5.1999 Öl oel|1 May 1999|1,000 km"
)
words = st.sampled_from([*WORDS.partition("|")[0].split(), *WORDS.split("|")[1:]])
text = st.lists(words, max_size=12).map(" ".join)


@given(
    texts=st.lists(text, min_size=1, max_size=12),
    question=text,
    chosen=st.builds(
        LexicalSettings,
        k1=st.sampled_from([0.0, 0.9, 1.2, 2.0]),
        b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
        stemmer=st.sampled_from(["s", "none"]),
        stopwords=st.sampled_from([(), ("the", "who")]),
    ),
    k=st.integers(1, 15),
    seed=st.integers(0, 1000),
)
@settings(max_examples=300)
def test_values_order_and_filters_equal_the_formula(
    texts: list[str], question: str, chosen: LexicalSettings, k: int, seed: int
) -> None:
    n = len(texts)
    retriever = LexicalRetriever(ids_of(n), texts, chosen)
    expected = slow_bm25(texts, question, chosen)
    fast = retriever.score(ask(question))
    assert fast.shape == (n,)
    assert fast.dtype == np.float32
    np.testing.assert_allclose(fast, expected, rtol=1e-5, atol=1e-6)
    assert not retriever.score(ask("")).any()
    given_as_texts = retriever.score_texts(question, texts)
    np.testing.assert_allclose(given_as_texts, expected, rtol=1e-5, atol=1e-6)

    allowed = np.random.default_rng(seed).random(n) < 0.6
    for mask in (None, allowed):
        ranking = retriever.search([ask(question)], k, mask)[0]
        # Equal in exact arithmetic, two scores may differ in float32's last bit; order and ties
        # are checked on the retriever's own values, which were checked against the formula.
        rows = [r for r in range(n) if fast[r] > 0 and (mask is None or mask[r])]
        rows.sort(key=lambda row: (-fast[row], row))
        assert [(hit.id, hit.score) for hit in ranking.hits] == [
            (f"p{row:05}", float(fast[row])) for row in rows[:k]
        ]
        assert [hit.rank for hit in ranking.hits] == list(range(1, len(ranking.hits) + 1))
        assert ranking.candidates == len(rows)


@given(st.text(), st.text())
def test_any_text_can_be_indexed_and_asked(one: str, other: str) -> None:
    retriever = LexicalRetriever(ids_of(2), [one, other])
    ranking = retriever.search([ask(one)], 2)[0]
    shared = set(retriever.score(ask(one)).nonzero()[0].tolist())
    assert {int(hit.id[1:]) for hit in ranking.hits} == shared


def test_texts_that_are_not_in_the_corpus_are_weighed_by_it() -> None:
    retriever = LexicalRetriever(ids_of(3), ["ada engine", "ada mill", "ada"])
    rare, common, new, none = retriever.score_texts(
        "ada mill store", ["mill", "ada", "store", "rain"]
    )
    assert new > rare > common > none == 0
    assert LexicalRetriever([], []).score_texts("ada", ["ada", "rain"])[0] > 0


@pytest.mark.parametrize("question", ["", "who was it?", "zzz", "\N{RAINBOW}", "\x00\x1f"])
def test_only_what_has_no_known_term_degrades(question: str) -> None:
    retriever = LexicalRetriever(ids_of(5), TEXTS)
    assert retriever.search([ask(question)], 3) == [Ranking("lexical", (), 0, NO_TERM)]
    none = np.zeros(5, np.bool_)
    assert retriever.search([ask("Lovelace")], 3, none) == [Ranking("lexical", (), 0)]


@pytest.mark.parametrize("texts", [[], [""], ["", "\N{RAINBOW}", "the of"]])
def test_a_corpus_without_a_term(texts: list[str]) -> None:
    retriever = LexicalRetriever(ids_of(len(texts)), texts)
    assert retriever.search([ask("Ada")], 3) == [Ranking("lexical", (), 0, NO_TERM)]
    assert retriever.search([], 3) == []
    assert retriever.score(ask("Ada")).shape == (len(texts),)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("k1", -1.0, "k1=-1.0"), ("b", 1.5, "b=1.5")],
)
def test_settings_that_mean_nothing_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        LexicalSettings(**{name: value})  # type: ignore[arg-type]


@settings(max_examples=60)
@given(
    old=st.lists(text, max_size=6), new=st.lists(text, max_size=4), data=st.data(), question=text
)
def test_with_late_passages_it_ranks_as_one_of_all(
    old: list[str], new: list[str], data: st.DataObject, question: str
) -> None:
    deleted = data.draw(st.sets(st.integers(0, len(old) - 1)) if old else st.just(set()))
    is_late = data.draw(st.permutations([False] * len(old) + [True] * len(new)))
    rows = np.arange(len(is_late))
    order = np.array(sorted(rows, key=lambda row: (is_late[row], row)), np.int64)
    every, present = [*old, *new], np.array([row not in deleted for row in rows], bool)
    by_id = [row for row in np.argsort(order).tolist() if present[row]]
    ids = [ids_of(len(rows))[place] for place in order.tolist()]
    base = LexicalRetriever(ids[: len(old)], old)
    own = None if present.all() else present
    both = LexicalRetriever(ids, new, base=base, order=order, present=own)
    alone = LexicalRetriever([ids[row] for row in by_id], [every[row] for row in by_id])
    query, scores = ask(question), both.score(ask(question))
    assert scores[by_id].tolist() == alone.score(query).tolist()
    assert not scores[~present].any()
    titles, places = [ids[row] for row in by_id], [*range(len(by_id))]
    assert both.words_in(question, by_id, titles) == alone.words_in(question, places, titles)
    assert both.score_texts(question, old).tolist() == alone.score_texts(question, old).tolist()
    for word in ("ada", "engine", "x400", "1999-05-01"):
        expected = [ids[by_id[place]] for place in alone.rows_with(word).tolist()]
        assert sorted(ids[row] for row in both.rows_with(word).tolist()) == expected
    if by_id:
        assert both.search([query], 3) == alone.search([query], 3)
    # What was read since does not show in the base.
    again = LexicalRetriever(ids[: len(old)], old)
    assert base.score(query).tolist() == again.score(query).tolist()


def test_words_of_a_question_are_found_in_titles_and_texts() -> None:
    retriever = LexicalRetriever(ids_of(len(TEXTS)), TEXTS)
    titles = [text.partition("\n")[0] for text in TEXTS]
    result = retriever.words_in("Who is Ada's unknown machine?", [0, 2], [titles[0], titles[2]])
    assert [(word.term, word.titles, word.texts) for word in result] == [
        ("ada", 0b01, 0b11),
        ("unknown", 0, 0),
        ("machine", 0, 0b10),
    ]
    # In two, no and one of five passages.
    weights = [log(1 + (5 - df + 0.5) / (df + 0.5)) for df in (2, 0, 1)]
    assert [word.weight for word in result] == pytest.approx(weights)


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("extention of the sluice", "extension of the sluice"),
        ("the extesion", "the extension"),
        ("their extenssion", "their extension"),
        ("their lenght", "their length"),
        ("the slluice and the ferrry", "the sluice and the ferry"),
        ("the fery", "the fery"),  # too short
        ("Extention, EXTENTION, un-extention", "Extention, EXTENTION, un-extention"),
        ("a kextension", "a kextension"),  # the first letter is hardly ever wrong
        ("a lecer", "a lecer"),  # as near to "lever" as to "leper"
        ("who is a donner", "who is a donner"),  # a word, though no passage has it
        ("the barrell and the harbur", "the barrel and the harbour"),
        ("the levr", "the levr"),
        (
            "zzaab zzaac zzaad zzaae zzaaf and a ferrry",
            "zzaab zzaac zzaad zzaae zzaaf and a ferrry",
        ),
        ("ferry " + 4_000 * "x", "ferry " + 4_000 * "x"),
        ("he levers, levered and levering", "he levers, levered and levering"),
        ("the transpoter", "the transporter"),  # in more passages than "transposer"
        ("the inteltions", "the inteltions"),  # as near to "intentions" as to "inteletions"
    ],
)
def test_a_misspelt_word_stands_for_the_nearest_of_the_corpus(question: str, searched: str) -> None:
    counts = {"extension": 3, "lever": 2, "leper": 2, "sluice": 1, "ferry": 4, "length": 1}
    counts |= {"donne": 1, "harbour": 1, "barrel": 2, "transporter": 2, "transposer": 1}
    counts |= {"intentions": 1, "inteletions": 1}
    texts = [word for word, count in counts.items() for _ in range(count)]
    retriever = LexicalRetriever(ids_of(len(texts)), texts)
    assert retriever.respelt([question], {"donner", "their", "lever"}.__contains__) == [searched]


def test_small_words_of_a_german_question_do_not_count_and_its_words_have_german_endings() -> None:
    """In English text "der" is rare; and what is one slip from "password" is no slip."""
    texts = ["Der Steg ist zu.", "Passwörter ändert die Werft.", "the password", "a ferry"]
    retriever = LexicalRetriever(ids_of(len(texts)), texts)
    question = "wie ist das passwort der fähre, und wo?"
    assert retriever.respelt([question], frozenset[str]().__contains__) == [question]
    (ranking,) = retriever.search([ask(question)], k=4)
    assert ranking.ids() == ["p00001"]
