"""The faster parts of a pipeline say what spaCy's own say."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span

import featurizer.spacy_pipeline
from featurizer.errors import ModelError
from featurizer.spacy_parser import SpacyParser
from featurizer.spacy_pipeline import (
    DEFAULT_PIPELINE,
    Names,
    Pipeline,
    WindowEncoder,
    WordForms,
    load_pipeline,
)

WORDS = "Who 's let 's gon na ai n't the Boats boat wrote 1926 , Oslo that 're \n is it ? but I"
TEXTS = st.lists(
    st.lists(st.sampled_from([*WORDS.split(" "), "\n"]), max_size=40).map(" ".join)
    | st.text(max_size=40),
    min_size=1,
    max_size=6,
)
QUESTIONS = Path(__file__).with_name("questions.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def plain() -> Language:
    """The default pipeline as spaCy loads it."""
    return load_pipeline(DEFAULT_PIPELINE)


@pytest.fixture(scope="session")
def fast() -> Pipeline:
    return Pipeline(DEFAULT_PIPELINE)


def part(nlp: Language, name: str) -> Any:  # noqa: ANN401 - spaCy says nothing of its kind
    return nlp.get_pipe(name)


def said(doc: Doc) -> list[object]:
    """All that is read of a document."""
    return [
        *[(t.text, t.tag_, t.pos_, t.lemma_, t.dep_, t.head.i) for t in doc],
        *[(t.ent_type_, t.ent_iob_, t.is_sent_start) for t in doc],
        *[(chunk.start, chunk.end) for chunk in doc.noun_chunks],
    ]


def check(plain: Language, fast: Pipeline, texts: Sequence[str]) -> None:
    docs = [fast.nlp.make_doc(text) for text in texts]
    found = [said(doc) for doc in fast.run(docs, batch_size=4)]
    assert found == [said(plain(text)) for text in texts]
    # Whatever was remembered in between.
    again = fast.run([fast.nlp.make_doc(text) for text in texts], batch_size=4)
    assert [said(doc) for doc in again] == found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
@example(["let's go", "Oslo's boats", "we gon na sail", "He got ta go", "na", "it ai n't"])
def test_the_pipeline_says_what_spacy_says(
    plain: Language, fast: Pipeline, texts: list[str]
) -> None:
    check(plain, fast, texts)


def test_of_questions_too(plain: Language, fast: Pipeline) -> None:
    names = [type(component).__name__ for component in fast.components]
    assert names == ["Tok2Vec", "Tagger", "DependencyParser", "WordForms", "Names"]
    check(plain, fast, QUESTIONS)


@pytest.mark.parametrize("place", ["tok2vec", "ner"])
def test_vectors_are_those_of_thinc_and_depend_on_nothing_beside(
    plain: Language, place: str
) -> None:
    (model,) = [node for node in part(plain, place).model.walk() if WindowEncoder.fits(node)]
    encoder = WindowEncoder(model)
    docs = [plain.make_doc(text) for text in ["Who", "", *QUESTIONS, " ".join(QUESTIONS[:20])]]
    together = encoder(docs)
    for doc, vectors, expected in zip(docs, together, model.predict(docs), strict=True):
        assert vectors.shape == (len(doc), model.get_dim("nO"))
        assert vectors == pytest.approx(expected, abs=2e-5)
        if len(doc):
            assert np.array_equal(vectors, encoder([doc])[0])


def test_no_more_is_remembered_than_is_useful(
    plain: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = Pipeline(DEFAULT_PIPELINE)
    (forms,) = [one for one in fast.components if isinstance(one, WordForms)]
    monkeypatch.setattr(featurizer.spacy_pipeline, "REMEMBERED", 50)
    check(plain, fast, QUESTIONS)
    assert len(forms._known) < 50 + max(len(plain.make_doc(text)) for text in QUESTIONS)


def test_a_pipeline_of_another_make_keeps_what_it_has(plain: Language, tmp_path: Path) -> None:
    other = load_pipeline(DEFAULT_PIPELINE)
    other.remove_pipe("lemmatizer")
    rule = {"patterns": [[{"LENGTH": 3}]], "attrs": {"LEMMA": "three"}}
    part(other, "attribute_ruler").add_patterns([rule])
    part(other, "ner").cfg["beam_width"] = 4
    other.to_disk(tmp_path / "other")
    fast = Pipeline(str(tmp_path / "other"))
    names = [type(component).__name__ for component in fast.components]
    assert names == ["Tok2Vec", "Tagger", "DependencyParser", "AttributeRuler", "EntityRecognizer"]
    assert not WordForms.fits(part(fast.nlp, "attribute_ruler"))
    assert not WindowEncoder.fits(part(plain, "tagger").model)
    check(other, fast, QUESTIONS[:20])


PAGE = (
    "Maria Silva of the University of Lisbon sold Blue Harbour Ltd. to the Bank of Norway on 3 May "
    "1926 for $ 4 million .   \n It opened in New York City , on Fifth Avenue"
)


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


def test_a_faster_pipeline_is_for_reading_alone(fast: Pipeline) -> None:
    with pytest.raises(ModelError, match="cannot be trained"):
        part(fast.nlp, "tok2vec").model([fast.nlp.make_doc("a")], is_train=True)


@pytest.mark.parametrize("name", ["en_no_such", "json", "", "../x"])
def test_what_is_no_pipeline_is_refused_with_what_was_tried(name: str, tmp_path: Path) -> None:
    tried = r"\(tried a folder, then .*PIPELINE"
    with pytest.raises(ModelError, match=rf"No spaCy pipeline at '{name}' {tried}"):
        load_pipeline(name)
    with pytest.raises(ModelError, match=rf"No spaCy pipeline at '{tmp_path}' {tried}"):
        _ = SpacyParser(str(tmp_path)).fingerprint


def test_a_pipeline_without_the_parts_we_need_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ModelError, match=r"has no ner and no parser; it has none"):
        load_pipeline(str(tmp_path / "blank"))
