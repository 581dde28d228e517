import numpy as np
from numpy.typing import NDArray

from featurizer.constituency.decoder import Reader, Stepper, times
from featurizer.constituency.stanza_checkpoint import Lstm
from featurizer.types import Float32

Float64 = NDArray[np.float64]


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
            np.array_equal(times(row, matrix), one) for row, one in zip(rows, together, strict=True)
        )
        np.testing.assert_allclose(together, rows @ matrix, atol=1e-3)


def test_steps_are_those_of_the_definition_alone_and_side_by_side() -> None:
    model = lstm(5, 7, seed=3)
    stepper, inputs = Stepper(model), drawn(4, 6, 5, seed=9)
    expected = np.stack([slow(model, sentence) for sentence in inputs])
    state = stepper.start(inputs[0, 0])
    for place in range(1, 6):
        state = stepper.step(stepper.inputs(inputs[0, place]), state)
    np.testing.assert_allclose(state[0], expected[0, -1], atol=1e-5)
    starts = [stepper.start(sentence[0]) for sentence in inputs]
    several = (np.stack([s[0] for s in starts]), np.stack([s[1] for s in starts]))
    for place in range(1, 6):
        several = stepper.step(stepper.inputs(inputs[:, place]), several)
    np.testing.assert_allclose(several[0], expected[:, -1], atol=1e-5)
    assert np.array_equal(several[0][0], state[0])


def test_reading_is_one_lstm_each_way() -> None:
    forward, backward = lstm(5, 7, seed=20), lstm(5, 7, seed=30)
    sentences = [drawn(length, 5, seed=length) for length in (9, 9, 4, 1)]
    reader = Reader(forward, backward)
    for found, inputs in zip(reader.read(sentences), sentences, strict=True):
        np.testing.assert_allclose(found[:, :7], slow(forward, inputs), atol=1e-5)
        np.testing.assert_allclose(found[:, 7:], slow(backward, inputs[::-1])[::-1], atol=1e-5)
        assert np.array_equal(found, reader.read([inputs])[0])
