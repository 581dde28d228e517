"""Names and heads are those of spaCy, whatever is parsed beside."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span

import wye.featurizer.spacy.moves
from wye.featurizer.spacy.moves import Dependencies, Names, Tags
from wye.featurizer.spacy.pipeline import Pipeline

QUESTIONS = (Path(__file__).parents[1] / "questions.txt").read_text(encoding="utf-8").splitlines()
PAGE = (
    "Maria Silva of the University of Lisbon sold Blue Harbour Ltd. to the Bank of Norway on 3 May "
    "1926 for $ 4 million .   \n It opened in New York City , on Fifth Avenue"
)


def part(nlp: Language, name: str) -> Any:  # noqa: ANN401 - spaCy says nothing of its kind
    return nlp.get_pipe(name)


def named(docs: Sequence[Doc]) -> list[list[tuple[int, int, str]]]:
    return [[(name.start, name.end, name.label_) for name in doc.ents] for doc in docs]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([*PAGE.split(), "\n", " "]), max_size=60), st.data())
def test_names_are_those_of_spacy_wherever_sentences_begin(
    fast: Pipeline, words: list[str], data: st.DataObject
) -> None:
    """Also where no text begins a sentence: at a space, within a name, at each word."""
    starts: list[bool | int | None] = data.draw(
        st.lists(st.booleans(), min_size=len(words), max_size=len(words))
    )

    def doc() -> Doc:
        return Doc(fast.nlp.vocab, words=words, sent_starts=starts)

    recogniser = part(fast.nlp, "ner")
    assert named([Names(recogniser)(doc())]) == named([recogniser(doc())])


def test_names_depend_on_nothing_beside(fast: Pipeline) -> None:
    texts = [PAGE, "", *QUESTIONS, " ".join(QUESTIONS[:20])]
    names = Names(part(fast.nlp, "ner"))
    alone = [names(fast.nlp.make_doc(text)) for text in texts]
    together = [*names.pipe([fast.nlp.make_doc(text) for text in texts], batch_size=7)]
    assert named(together) == named(alone)
    assert len(named(alone)[0]) > 5


def test_names_that_were_marked_before_stay(fast: Pipeline) -> None:
    def doc() -> Doc:
        own = fast.nlp.make_doc(PAGE)
        own.set_ents([Span(own, 1, 4, label="LAW")], blocked=[own[5:6]], default="missing")
        return own

    recogniser = part(fast.nlp, "ner")
    (found,) = named([Names(recogniser)(doc())])
    assert found == named([recogniser(doc())])[0]
    assert (1, 4, "LAW") in found


def tagged(docs: Sequence[Doc]) -> list[list[str]]:
    return [[word.tag_ for word in doc] for doc in docs]


def test_tags_are_those_of_spacy_and_stay_where_they_were_before(fast: Pipeline) -> None:
    tagger, vectors = part(fast.nlp, "tagger"), part(fast.nlp, "tok2vec")
    texts = [PAGE, "", *QUESTIONS]

    def docs() -> list[Doc]:
        return [vectors(fast.nlp.make_doc(text)) for text in texts]

    expected = tagged([tagger(doc) for doc in docs()])
    assert tagged([*Tags(tagger).pipe(docs(), batch_size=20)]) == expected
    assert tagged([Tags(tagger)(doc) for doc in docs()]) == expected
    one = docs()[0]
    one[1].tag_ = "XX"
    assert tagged([Tags(tagger)(one)])[0] == [expected[0][0], "XX", *expected[0][2:]]


def test_words_without_vectors_are_read_as_spacy_reads_them(fast: Pipeline) -> None:
    def doc() -> Doc:
        return fast.nlp.make_doc(PAGE)

    for name, faster in (("tagger", Tags), ("parser", Dependencies)):
        own = part(fast.nlp, name)
        found, expected = faster(own)(doc()), own(doc())
        assert tagged([found]) == tagged([expected])
        assert attached([found]) == attached([expected])


def attached(docs: Sequence[Doc]) -> list[list[tuple[int, str, bool | None]]]:
    return [[(word.head.i, word.dep_, word.is_sent_start) for word in doc] for doc in docs]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from([*PAGE.split(), "\n", " "]), max_size=60)), st.data())
def test_heads_are_those_of_spacy_wherever_sentences_begin(
    fast: Pipeline, texts: list[list[str]], data: st.DataObject
) -> None:
    """Where a text says that a sentence begins or does not, moves are not allowed."""
    marks: list[list[bool | int | None]] = [
        data.draw(
            st.lists(st.sampled_from([True, False, None]), min_size=len(words), max_size=len(words))
        )
        for words in texts
    ]

    def docs() -> list[Doc]:
        made = [
            Doc(fast.nlp.vocab, words=words, sent_starts=starts)
            for words, starts in zip(texts, marks, strict=True)
        ]
        return [*part(fast.nlp, "tok2vec").pipe(made, batch_size=64)]

    parser = part(fast.nlp, "parser")
    together = Dependencies(parser).pipe(docs(), batch_size=64)
    assert attached([*together]) == attached([parser(doc) for doc in docs()])


def test_heads_depend_on_nothing_beside(fast: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [PAGE, "", *QUESTIONS, " ".join(QUESTIONS[:20])]
    vectors, heads = part(fast.nlp, "tok2vec"), Dependencies(part(fast.nlp, "parser"))
    alone = [heads(vectors(fast.nlp.make_doc(text))) for text in texts]
    docs = [vectors(fast.nlp.make_doc(text)) for text in texts]
    # A text that is longer by itself, and others a few at a time.
    monkeypatch.setattr(wye.featurizer.spacy.moves, "SIDE_BY_SIDE", 50)
    assert attached([*heads.pipe(docs, batch_size=30)]) == attached(alone)


def test_relations_that_were_there_before_are_given_to_spacy(
    plain: Language, fast: Pipeline
) -> None:
    """A relation that the model lacks is one that it learns, in every parser that shares it."""

    def doc(nlp: Language) -> Doc:
        own = nlp.make_doc(PAGE)
        for word in own:
            word.dep_ = "dep"
        encoded: Doc = part(nlp, "tok2vec")(own)
        return encoded

    found = Dependencies(part(fast.nlp, "parser"))(doc(fast.nlp))
    assert attached([found]) == attached([part(plain, "parser")(doc(plain))])
