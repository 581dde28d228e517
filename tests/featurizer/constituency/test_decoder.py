import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wye.featurizer.constituency.checkpoint import UNKNOWN, Checkpoint, Lstm, read_checkpoint
from wye.featurizer.constituency.decoder import Decoder, Derivation, Reader, Words
from wye.featurizer.constituency.parser import ConstituencySettings, open_decoder
from wye.featurizer.constituency.tree import ParserState, Tree, parse_brackets
from wye.featurizer.types import Float32

Float64 = NDArray[np.float64]
Maker = Callable[..., Path]

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


def slow(model: Lstm, inputs: Sequence[Float32]) -> Float64:
    """(n, h) states as the definition has them."""
    hidden = cell = np.zeros(model.recurrent.shape[0])
    states = []
    for value in inputs:
        gates = value.astype(float) @ model.inputs + hidden @ model.recurrent + model.bias
        enter, forget, leave, new = np.split(gates, 4)
        cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
        hidden = _sigmoid(leave) * np.tanh(cell)
        states.append(hidden)
    return np.array(states)


def _sigmoid(values: Float64) -> Float64:
    return np.asarray((1 + np.tanh(values / 2)) / 2, np.float64)


def slow_both_ways(forward: Lstm, backward: Lstm, inputs: Sequence[Float32]) -> Float64:
    return np.concatenate([slow(forward, inputs), slow(backward, inputs[::-1])[::-1]], axis=1)


def slow_tree(model: Checkpoint, words: Words, steps_a_word: int) -> Tree | None:
    """The tree as the definition has it: both LSTMs read all of their inputs at each step."""
    activate = np.tanh if model.nonlinearity == "tanh" else lambda values: np.maximum(values, 0)
    inputs = [
        np.concatenate(
            [
                model.vectors[model.vector_rows.get(word.replace(" ", "\xa0").lower(), UNKNOWN)],
                model.deltas[model.delta_rows.get(word, UNKNOWN)],
                model.tags[model.tag_rows.get(tag, UNKNOWN)],
            ]
        )
        for word, tag in words
    ]
    before, after = model.boundaries
    read = slow_both_ways(model.forward, model.backward, [before, *inputs, after])
    vectors = activate(read @ model.to_constituent[0] + model.to_constituent[1])
    state = ParserState(words, model.roots, model.unary_limit)
    taken, items = [model.transition_start], [model.constituent_start]
    for _ in range(steps_a_word * (len(words) + 2)):
        word = vectors[state.position + 1]
        layer = np.concatenate(
            [word, slow(model.transition_lstm, taken)[-1], slow(model.constituent_lstm, items)[-1]]
        )
        for weights, bias in model.output:
            layer = activate(layer) @ weights + bias
        legal = [move for move, one in enumerate(model.transitions) if state.is_legal(one)]
        if not legal:
            return None
        move = max(legal, key=lambda one: layer[one])
        transition = model.transitions[move]
        taken.append(model.transition_vectors[move])
        joined = state.apply(transition)
        if transition.kind == "shift":
            items.append(word)
        elif transition.kind == "open":
            items.append(model.opens[model.open_rows[transition.labels]])
        else:
            first, _, *others = items[-joined - 1 :]
            largest = np.max([first, *others], axis=0)
            items[-joined - 1 :] = [activate(largest @ model.compose[0] + model.compose[1])]
        if state.tree is not None:
            return state.tree
    return None


def test_reading_is_one_lstm_each_way() -> None:
    forward, backward, boundaries = lstm(5, 7, seed=20), lstm(5, 7, seed=30), drawn(2, 5)
    reader = Reader(forward, backward, boundaries)
    sentences = [drawn(length, 5, seed=length) for length in (9, 4, 4, 1)]
    expected = [
        slow_both_ways(forward, backward, [boundaries[0], *inputs, boundaries[1]])[1:]
        for inputs in sentences
    ]
    np.testing.assert_allclose(reader.read(sentences), np.concatenate(expected), atol=1e-5)
    for inputs, alone in zip(sentences, expected, strict=True):
        np.testing.assert_allclose(reader.read([inputs]), alone, atol=1e-5)


words = st.sampled_from(["The", "boat", "ferry", "of course", "(", "Ωmega", " ", "lantern"])
tags = st.sampled_from(["DT", "NN", "VB", "XX"])
sentences = st.lists(st.tuples(words, tags), min_size=1, max_size=6)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
@given(st.lists(sentences, max_size=3), st.integers(0, 5), st.sampled_from(["relu", "tanh"]))
def test_trees_are_those_of_the_definition_whatever_is_parsed_beside(
    make_model: Maker, drawn: list[list[tuple[str, str]]], seed: int, nonlinearity: str
) -> None:
    model = read_checkpoint(make_model(seed, nonlinearity=nonlinearity))
    decoder = Decoder(model)
    decoder.steps_a_word = 4
    together = decoder.parse_many(drawn)
    assert together[::-1] == decoder.parse_many(drawn[::-1])
    for tree, sentence in zip(together, drawn, strict=True):
        assert tree == slow_tree(model, sentence, decoder.steps_a_word)
        assert decoder.parse_many([sentence]) == [tree]
        if tree is not None:  # random weights may go round in circles
            assert (tree.label, tree.tagged_words()) == ("ROOT", tuple(sentence))


def test_the_shipped_model_gives_the_trees_that_stanza_gave() -> None:
    decoder = open_decoder(ConstituencySettings())
    first, *lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    # Another model needs another file: the trees of Stanza, as test_stanza.py asks for them.
    assert json.loads(first)["digest"] == decoder.digest
    assert len(lines) == len(QUESTIONS.read_text(encoding="utf-8").splitlines())
    trees = [parse_brackets(json.loads(line)["tree"]) for line in lines]
    sentences = [tree.tagged_words() for tree in trees]
    # As text: "(" may be a tag here.
    for result in (
        [decoder.parse_many([words])[0] for words in sentences],
        decoder.parse_many(sentences),
    ):
        assert [str(tree) for tree in result] == [str(tree) for tree in trees]


def test_what_a_neighbour_might_decide_is_decided_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = open_decoder(ConstituencySettings())
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()[1:]
    sentences = [parse_brackets(json.loads(line)["tree"]).tagged_words() for line in lines]
    groups: list[int] = []
    derive = decoder._derive

    def counted(group: Sequence[Words]) -> list[Derivation]:
        groups.append(len(group))
        return derive(group)

    monkeypatch.setattr(decoder, "_derive", counted)
    monkeypatch.setattr("wye.featurizer.constituency.decoder.SIDE_BY_SIDE", 30)
    side_by_side = decoder.parse_many(sentences)
    assert groups == [30, len(sentences) - 30]
    groups.clear()
    # Now every decision is too close.
    monkeypatch.setattr("wye.featurizer.constituency.decoder.CLOSE_CALL", np.inf)
    assert decoder.parse_many(sentences) == side_by_side
    assert groups.count(1) == len(sentences)


def test_a_sentence_without_words_or_beyond_the_limit_has_no_tree(
    make_model: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(read_checkpoint(make_model()))
    assert decoder.parse_many([]) == []
    assert decoder.parse_many([[], [("boat", "NN")], []])[::2] == [None, None]

    monkeypatch.setattr(decoder, "steps_a_word", 0)
    assert decoder.parse_many([[("the", "DT"), ("boat", "NN")]]) == [None]
    assert decoder.parse_many([[("boat", "NN")]] * 5) == [None] * 5
