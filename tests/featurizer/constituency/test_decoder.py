"""The constituency decoder against its definition, and the files that it is read from."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.featurizer.conftest import Maker
from wye.featurizer.constituency.checkpoint import VECTORS, StanzaFiles, read_safetensors
from wye.featurizer.constituency.decoder import Decoder, Gates, Reader, TaggedWords, Tensors
from wye.featurizer.constituency.parser import ConstituencySettings, open_decoder
from wye.featurizer.constituency.tree import ParserState, Transition, Tree, parse_brackets
from wye.featurizer.errors import ModelError
from wye.featurizer.types import Float32

Float64 = NDArray[np.float64]
QUESTIONS = Path(__file__).parents[1] / "questions.txt"
GOLDEN = Path(__file__).parents[1] / "parsed_questions.jsonl"


def drawn(*shape: int, seed: int = 0) -> Float32:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def lstm(tensors: Tensors, name: str, inputs: Sequence[Float32], suffix: str = "") -> Float64:
    """(n, h) states as PyTorch's manual defines them."""
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    enter_weights, recurrent, *biases = (tensors[f"{name}.{kind}_l0{suffix}"] for kind in kinds)
    hidden = cell = np.zeros(recurrent.shape[1])
    states = []
    for value in inputs:
        gates = enter_weights @ value.astype(float) + recurrent @ hidden + biases[0] + biases[1]
        enter, forget, new, leave = np.split(gates, 4)
        cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
        hidden = _sigmoid(leave) * np.tanh(cell)
        states.append(hidden)
    return np.array(states)


def _sigmoid(values: Float64) -> Float64:
    return np.asarray((1 + np.tanh(values / 2)) / 2, np.float64)


def both_ways(tensors: Tensors, inputs: Sequence[Float32]) -> Float64:
    backward = lstm(tensors, "word_lstm", inputs[::-1], "_reverse")[::-1]
    return np.concatenate([lstm(tensors, "word_lstm", inputs), backward], axis=1)


def slow_tree(files: StanzaFiles, words: TaggedWords, steps_a_word: int) -> Tree | None:
    """The tree as the definition has it: both LSTMs read all of their inputs at each step."""
    params, tensors = files.content["params"], files.tensors
    moves = [*map(Transition.from_repr, params["transitions"])]
    opens = [tuple(labels) for labels in params["constituent_opens"]]

    def row(units: Sequence[str], unit: str, first: int = 2) -> int:
        return units.index(unit) + first if unit in units else 1  # the unknown word

    def linear(name: str, values: Float64) -> Float64:
        return np.asarray(tensors[f"{name}.weight"] @ values + tensors[f"{name}.bias"], np.float64)

    inputs = [
        np.concatenate(
            [
                tensors[VECTORS][row(files.words, word.replace(" ", "\xa0").lower(), 0)],
                tensors["delta_embedding.weight"][row(params["words"], word)],
                tensors["tag_embedding.weight"][row(params["tags"], tag)],
            ]
        )
        for word, tag in words
    ]
    ends = tensors["word_start_embedding"], tensors["word_end_embedding"]
    read = both_ways(tensors, [ends[0], *inputs, ends[1]])
    vectors = [np.maximum(linear("word_to_constituent", state), 0) for state in read]
    state = ParserState(words, frozenset(params["root_labels"]), params["unary_limit"])
    taken = [tensors["transition_stack.start_embedding"]]
    items = [tensors["constituent_stack.start_embedding"]]
    for _ in range(steps_a_word * (len(words) + 2)):
        word = vectors[state.position + 1]
        stacks = (("transition_stack.lstm", taken), ("constituent_stack.lstm", items))
        layer = np.concatenate([word, *(lstm(tensors, name, rows)[-1] for name, rows in stacks)])
        for number in range(params["config"]["num_output_layers"]):
            layer = linear(f"output_layers.{number}", np.maximum(layer, 0))
        legal = [move for move, one in enumerate(moves) if state.is_legal(one)]
        if not legal:
            return None
        move = max(legal, key=lambda one: layer[one])
        transition = moves[move]
        taken.append(tensors["transition_embedding.weight"][move])
        joined = state.apply(transition)
        if transition.kind == "shift":
            items.append(word)
        elif transition.kind == "open":
            items.append(tensors["dummy_embedding.weight"][opens.index(transition.labels)])
        else:
            first, _, *others = items[-joined - 1 :]
            largest = np.max([first, *others], axis=0)
            items[-joined - 1 :] = [np.maximum(linear("reduce_linear", largest), 0)]
        if state.tree is not None:
            return state.tree
    return None


def test_reading_is_one_lstm_each_way() -> None:
    shapes = {"weight_ih": (28, 5), "weight_hh": (28, 7), "bias_ih": (28,), "bias_hh": (28,)}
    tensors = {
        f"word_lstm.{kind}_l0{suffix}": drawn(*shape, seed=20 + number)
        for number, suffix in enumerate(("", "_reverse"))
        for kind, shape in shapes.items()
    }
    forward, backward = (Gates(tensors, "word_lstm", suffix) for suffix in ("", "_reverse"))
    boundaries = drawn(2, 5)
    reader = Reader(forward, backward, boundaries)
    for inputs in (drawn(length, 5, seed=length) for length in (9, 4, 1)):
        expected = both_ways(tensors, [boundaries[0], *inputs, boundaries[1]])[1:]
        np.testing.assert_allclose(reader.read(inputs), expected, atol=1e-5)


words = st.sampled_from(["The", "boat", "ferry", "of course", "(", "Ωmega", " ", "lantern"])
tags = st.sampled_from(["DT", "NN", "VB", "XX"])
sentences = st.lists(st.tuples(words, tags), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(sentences, max_size=3), st.integers(0, 5))
def test_trees_are_those_of_the_definition_whatever_is_parsed_before(
    make_model: Maker, drawn: list[list[tuple[str, str]]], seed: int
) -> None:
    files = read_safetensors(make_model(seed))
    decoder = Decoder(files)
    decoder.steps_a_word = 4
    trees = [*map(decoder.parse, drawn)]
    assert trees[::-1] == [*map(decoder.parse, drawn[::-1])]
    for tree, sentence in zip(trees, drawn, strict=True):
        assert tree == slow_tree(files, sentence, decoder.steps_a_word)
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
    assert [str(decoder.parse(words)) for words in sentences] == [*map(str, trees)]


def test_a_sentence_without_words_or_beyond_the_limit_has_no_tree(
    make_model: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder.read(make_model())
    assert decoder.parse([]) is None

    monkeypatch.setattr(decoder, "steps_a_word", 0)
    assert decoder.parse([("the", "DT"), ("boat", "NN")]) is None
    assert decoder.parse([("boat", "NN")]) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("transition_scheme", "TOP_DOWN"), ("constituency_composition", "BILSTM")],
        *[("bert_model", "some/encoder"), ("charlm_forward_file", "forward.pt")],
        *[("num_lstm_layers", 2), ("sentence_boundary_vectors", "NONE"), ("pattn_num_layers", 3)],
        *[("nonlinearity", "tanh"), ("reversed", True), ("maxout_k", 2), ("use_rattn", True)],
    ],
)
def test_another_architecture_is_named(make_model: Maker, key: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"Wye cannot run .*{key}={value}"):
        Decoder.read(make_model(**{key: value}))


def test_missing_and_foreign_files_are_model_errors(make_model: Maker, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.safetensors"
    with pytest.raises(ModelError, match="No constituency model file"):
        Decoder.read(foreign)
    foreign.write_text("no weights")
    with pytest.raises(ModelError, match="cannot be read as a safetensors file"):
        Decoder.read(foreign)
    save_file({"weights": np.zeros(3)}, foreign)
    with pytest.raises(ModelError, match="is not a constituency model"):
        Decoder.read(foreign)
    files = read_safetensors(make_model())
    del files.tensors["reduce_linear.bias"]
    files.write(foreign)
    with pytest.raises(ModelError, match=r"reduce_linear\.bias"):
        Decoder.read(foreign)


def test_the_digest_names_all_that_decides_a_tree(make_model: Maker) -> None:
    first, again, other = (read_safetensors(make_model(seed)).digest for seed in (0, 0, 1))
    assert first == again != other
    assert read_safetensors(make_model(nonlinearity="tanh")).digest != first
    files = read_safetensors(make_model())
    files.content["best_epoch"] = 7
    files.content["params"]["rare_words"] = ["boat"]
    assert files.digest == first
    files.words[4] = "ship"
    assert files.digest != first


def test_files_are_the_same_bytes_each_time(make_model: Maker) -> None:
    first = make_model().read_bytes()
    assert all(make_model().read_bytes() == first for _ in range(5))


def test_the_shipped_model_builds_trees_without_pytorch_or_stanza() -> None:
    code = (
        "import sys; from wye.featurizer.constituency.parser import *;"
        "trees = open_decoder(ConstituencySettings());"
        "print(trees.parse([('Who', 'WP'), ('rowed', 'VBD'), ('?', '.')]));"
        "print([m for m in ('torch', 'stanza', 'udapi', 'udtools') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tree = "(ROOT (SBARQ (WHNP (WP Who)) (SQ (VP (VBD rowed))) (. ?)))"
    assert done.stdout.splitlines() == [tree, "[]"]
