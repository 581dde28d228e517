import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from featurizer.constituency.decoder import Decoder, Reader, Stepper, times
from featurizer.constituency.stanza_checkpoint import Lstm, read_checkpoint
from featurizer.constituency.tree import parse_brackets
from featurizer.errors import ParseError
from featurizer.types import Float32

Float64 = NDArray[np.float64]
Maker = Callable[..., tuple[Path, Path]]
SHIPPED = Path(__file__).parents[3] / "models" / "constituency-en-gum"
QUESTIONS = Path(__file__).parents[1] / "questions.txt"
GOLDEN = Path(__file__).parents[1] / "parsed_questions.jsonl"


def drawn(*shape: int, seed: int = 0) -> Float32:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def lstm(inputs: int, hidden: int, seed: int) -> Lstm:
    return Lstm(
        drawn(inputs, 4 * hidden, seed=seed),
        drawn(hidden, 4 * hidden, seed=seed + 1),
        drawn(4 * hidden, seed=seed + 2),
    )


def slow(model: Lstm, inputs: Float32) -> Float32:
    """(n, h) states as the definition has them, in float64."""
    hidden = cell = np.zeros(model.recurrent.shape[0])
    states = []
    for value in inputs.astype(float):
        gates = value @ model.inputs + hidden @ model.recurrent + model.bias
        enter, forget, leave, new = np.split(gates, 4)
        cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
        hidden = _sigmoid(leave) * np.tanh(cell)
        states.append(hidden)
    return np.array(states, np.float32)


def _sigmoid(values: Float64) -> Float64:
    return np.asarray(1 / (1 + np.exp(-values)), np.float64)


def test_a_row_is_multiplied_as_if_it_were_alone() -> None:
    matrix = drawn(224, 896, seed=1)
    for number in (1, 2, 3, 16, 33):
        rows = drawn(number, 224, seed=number)
        together = times(rows, matrix)
        assert all(
            np.array_equal(times(row[None], matrix)[0], one)
            for row, one in zip(rows, together, strict=True)
        )
        np.testing.assert_allclose(together, rows @ matrix, atol=1e-3)


def test_steps_are_those_of_the_definition_alone_and_side_by_side() -> None:
    model = lstm(5, 7, seed=3)
    stepper, inputs = Stepper(model), drawn(4, 6, 5, seed=9)
    expected = np.stack([slow(model, sentence) for sentence in inputs])
    state = stepper.start(inputs[0, 0])
    for place in range(1, 6):
        state = stepper.step(stepper.inputs(inputs[:1, place]), state)
    np.testing.assert_allclose(state[0], expected[:1, -1], atol=1e-5)
    starts = zip(*(stepper.start(sentence[0]) for sentence in inputs), strict=True)
    hidden, cell = map(np.concatenate, starts)
    several = (hidden, cell)
    for place in range(1, 6):
        several = stepper.step(stepper.inputs(inputs[:, place]), several)
    np.testing.assert_allclose(several[0], expected[:, -1], atol=1e-5)
    assert np.array_equal(several[0][:1], state[0])


def test_reading_is_one_lstm_each_way() -> None:
    forward, backward = lstm(5, 7, seed=20), lstm(5, 7, seed=30)
    sentences = [drawn(length, 5, seed=length) for length in (9, 9, 4, 1)]
    reader = Reader(forward, backward)
    for found, inputs in zip(reader.read(sentences), sentences, strict=True):
        np.testing.assert_allclose(found[:, :7], slow(forward, inputs), atol=1e-5)
        np.testing.assert_allclose(found[:, 7:], slow(backward, inputs[::-1])[::-1], atol=1e-5)
        assert np.array_equal(found, reader.read([inputs])[0])


words = st.sampled_from(["The", "boat", "ferry", "of course", "(", "Ωmega", " ", "lantern"])
tags = st.sampled_from(["DT", "NN", "VB", "XX"])
sentences = st.lists(st.tuples(words, tags), min_size=1, max_size=9)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(st.lists(sentences, max_size=40), st.integers(0, 5))
def test_a_tree_holds_its_words_and_tags_and_is_the_same_whatever_is_parsed_beside(
    make_model: Maker, drawn: list[list[tuple[str, str]]], seed: int
) -> None:
    decoder = Decoder(read_checkpoint(*make_model(seed)))
    together = decoder.parse_many(drawn)
    assert together[::-1] == decoder.parse_many(drawn[::-1])
    for tree, sentence in zip(together, drawn, strict=True):
        if tree is None:  # random weights may go round in circles
            with pytest.raises(ParseError):
                decoder.parse(sentence)
        else:
            assert tree == decoder.parse(sentence)
            assert (tree.label, tree.tagged_words()) == ("ROOT", tuple(sentence))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("nonlinearity", ["relu", "tanh"])
def test_trees_are_stanzas_own(make_model: Maker, seed: int, nonlinearity: str) -> None:
    pytest.importorskip("stanza", reason="Stanza is an optional extra")
    import torch  # noqa: PLC0415
    from stanza.models.constituency.trainer import Trainer  # noqa: PLC0415

    model, vectors = make_model(seed, nonlinearity=nonlinearity, combined_dummy_embedding=seed > 5)
    decoder = Decoder(read_checkpoint(model, vectors))
    content = torch.load(model, weights_only=True)["params"]
    args = {"wordvec_pretrain_file": str(vectors), "device": "cpu"}
    reference = Trainer.model_from_params(content, None, args)
    drawn = [
        [("The", "DT"), ("boat", "NN"), ("(", "XX"), ("of course", "NN")],
        [("ferry", "NN")],
        [("the", "DT"), ("Boat", "VB"), ("rows", "VB"), ("a", "DT"), ("lantern", "NN"), ("?", ".")],
    ]
    for sentence in drawn:
        theirs = [str(tree) for tree in reference.parse_tagged_words([sentence], 1)]
        try:
            ours = [stanza_style(str(decoder.parse(sentence)))]
        except ParseError:
            ours = []
        assert ours == [stanza_style(text) for text in theirs]


def stanza_style(text: str) -> str:
    return text.replace("of course", "of_course")


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="the model is not in this checkout")
def test_the_shipped_model_gives_the_trees_that_stanza_gave() -> None:
    decoder = Decoder(read_checkpoint(SHIPPED / "model.pt", SHIPPED / "vectors.pt"))
    first, *lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    # Written by `python -m training.constituency.reference`; another model needs another file.
    assert json.loads(first)["digest"] == decoder.digest
    assert len(lines) == len(QUESTIONS.read_text(encoding="utf-8").splitlines())
    for line in lines:
        tree = parse_brackets(json.loads(line)["tree"])
        assert str(decoder.parse(tree.tagged_words())) == str(tree)


def test_a_sentence_without_words_or_without_a_tree_says_so(
    make_model: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(read_checkpoint(*make_model()))
    with pytest.raises(ParseError, match="without words"):
        decoder.parse([])
    assert decoder.parse_many([]) == []
    assert decoder.parse_many([[], [("boat", "NN")], []])[::2] == [None, None]

    monkeypatch.setattr(decoder, "steps_a_word", 0)
    with pytest.raises(ParseError, match="no tree for 'the boat'"):
        decoder.parse([("the", "DT"), ("boat", "NN")])
    assert decoder.parse_many([[("boat", "NN")]] * 5) == [None] * 5
