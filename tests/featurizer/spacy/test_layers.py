"""Vectors of words are those of spaCy, whatever is computed beside them."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spacy.language import Language
from threadpoolctl import ThreadpoolController

import wye.featurizer.spacy.layers
from wye.featurizer.spacy.layers import OneThread, WindowEncoder
from wye.featurizer.spacy.pipeline import is_window_encoder

QUESTIONS = (Path(__file__).parents[1] / "questions.txt").read_text(encoding="utf-8").splitlines()


def part(nlp: Language, name: str) -> Any:  # noqa: ANN401 - spaCy says nothing of its kind
    return nlp.get_pipe(name)


@pytest.mark.parametrize("place", ["tok2vec", "ner"])
def test_vectors_are_those_of_thinc_and_depend_on_nothing_beside(
    plain: Language, place: str
) -> None:
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
