"""Vectors of words are those of spaCy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.language import Language

import wye.featurizer.spacy.layers
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.layers import WindowEncoder
from wye.featurizer.spacy.pipeline import Pipeline

QUESTIONS = (Path(__file__).parents[1] / "questions.txt").read_text(encoding="utf-8").splitlines()


def part(nlp: Language, name: str) -> Any:  # noqa: ANN401 - spaCy says nothing of its kind
    return nlp.get_pipe(name)


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


def test_what_is_remembered_of_words_changes_nothing_and_is_bounded(
    plain: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = part(plain, "tok2vec").model
    docs = [plain.make_doc(text) for text in QUESTIONS]
    expected = WindowEncoder(model)(docs)
    encoder = WindowEncoder(model)
    monkeypatch.setattr(wye.featurizer.spacy.layers, "REMEMBERED", 50)
    for doc, vectors in [*zip(docs, expected, strict=True)] * 2:
        assert np.array_equal(encoder([doc])[0], vectors)
        assert len(encoder._known) <= 50 + len(doc)


def test_a_faster_pipeline_is_for_reading_alone(fast: Pipeline) -> None:
    with pytest.raises(ModelError, match="cannot be trained"):
        part(fast.nlp, "tok2vec").model([fast.nlp.make_doc("a")], is_train=True)
