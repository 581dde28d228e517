"""Chunk-Zoom of ZoomRAG: which sentences to hand to a language model."""

import numpy as np

from wye.backends.types import Float32, Float64, Int64

_RESTART = 0.9
_WEIGHT = 0.5


def chunk_zoom(
    vectors: Float64, passage: Int64, mentions: Float64, active: Float64, question: Float32
) -> Float64:
    """(s,) scores of sentences by ZoomRAG's equation 10, with restart 0.9.

    Links between sentences are half by similarity and half by distance, with a deviation of one
    sentence.

    Args:
        vectors: (s, d) vectors of the sentences.
        passage: (s,) the passage of each sentence, ascending.
        mentions: (s, e) 1 where a sentence mentions an entity.
        active: (e,) restart mass of the entities; if all 0, the sentences have e^cos instead.
        question: (d,) vector of the question.
    """
    size = len(vectors)
    place = np.arange(size)
    near = np.where(passage[:, None] == passage, np.exp(-((place[:, None] - place) ** 2) / 2), 0)
    alike = _columns(np.exp(vectors @ vectors.T))
    chunks = _level(_WEIGHT * _columns(near) + (1 - _WEIGHT) * alike)
    links = _level(mentions)
    walk = _columns(np.block([[chunks, links], [links.T, np.zeros((len(active),) * 2)]]))
    start = np.concatenate([np.zeros(size), active])
    if not active.any():
        start[:size] = np.exp(vectors @ question)
    solved = np.linalg.solve(np.eye(len(walk)) - (1 - _RESTART) * walk, start / start.sum())
    return np.asarray(solved[:size], np.float64)


def _columns(matrix: Float64) -> Float64:
    shares: Float64 = matrix / np.maximum(matrix.sum(axis=0), 1e-12)
    return shares


def _level(matrix: Float64) -> Float64:
    """Scale a matrix so that its nonzero entries average 1."""
    return matrix * (np.count_nonzero(matrix) / matrix.sum()) if matrix.any() else matrix
