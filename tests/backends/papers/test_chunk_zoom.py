"""Chunk-Zoom against its walk, step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wye.backends.papers.chunk_zoom import chunk_zoom
from wye.backends.types import Float64


def level(matrix: Float64) -> Float64:
    """Average 1 over what is not 0."""
    return matrix / matrix[matrix != 0].mean() if matrix.any() else matrix


def columns(matrix: Float64) -> Float64:
    """Each column divided by its sum; one of zeros stays."""
    made = matrix.copy()
    for number in range(matrix.shape[1]):
        if total := matrix[:, number].sum():
            made[:, number] /= total
    return made


def walked(
    vectors: Float64, passage: list[int], mentions: Float64, active: Float64, question: Float64
) -> Float64:
    """Mass of the sentences after 400 steps of a walk that restarts with probability .9."""
    size, names = mentions.shape
    near, alike = np.zeros((size, size)), np.zeros((size, size))
    for one in range(size):
        for other in range(size):
            alike[one, other] = np.exp(vectors[one] @ vectors[other])
            if passage[one] == passage[other]:
                near[one, other] = np.exp(-((one - other) ** 2) / 2)
    walk = np.zeros((size + names, size + names))
    walk[:size, :size] = level(0.5 * columns(near) + 0.5 * columns(alike))
    walk[:size, size:] = level(mentions)
    walk[size:, :size] = level(mentions).T
    walk = columns(walk)
    start = np.zeros(size + names)
    if active.any():
        start[size:] = active
    else:
        start[:size] = np.exp(vectors @ question)
    start /= start.sum()
    mass, settled = start, np.zeros_like(start)
    for _ in range(400):
        settled = settled + mass
        mass = 0.1 * walk @ mass
    return settled[:size]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 5))
def test_scores_are_those_of_the_walk(seed: int, sentences: int, names: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((sentences, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    passage = np.sort(random.integers(0, 3, sentences))
    mentions = (random.random((sentences, names)) < 0.4).astype(float)
    active = random.random(names) * (random.random(names) < 0.5)
    question = random.standard_normal(4).astype(np.float32)
    scores = chunk_zoom(vectors, passage, mentions, active, question)
    expected = walked(vectors, passage.tolist(), mentions, active, question.astype(float))
    assert scores == pytest.approx(expected, rel=1e-6, abs=1e-12)
