"""A made-up graph of any size, shaped like the real ones, and walks over it."""

import numpy as np
from scipy import sparse

from backends.types import Float64, Int64

MENTIONS = 12
SENTENCES = 4
ENTITIES_PER_PASSAGE = 4
EXPONENT = 0.8
"""The r-th most frequent entity is mentioned in proportion to r to minus this power."""


def mentions(passages: int, generator: np.random.Generator) -> sparse.csr_array:
    """How often each passage mentions each entity.

    A passage has about 12 mentions in 4 sentences, of which each repeats its passage's subject, an
    entity of the passage's own; the rest are drawn from a power law.

    Returns:
        (passages, entities) CSR float32.
    """
    common = ENTITIES_PER_PASSAGE * passages
    drawn = generator.poisson(MENTIONS - SENTENCES, passages)
    rows = np.repeat(np.arange(passages, dtype=np.int64), drawn)
    columns = power_law(len(rows), common, generator)
    own = np.arange(passages, dtype=np.int64)
    where = (np.concatenate([rows, own]), np.concatenate([columns, common + own]))
    often = np.ones(len(where[0]), np.float32)
    often[len(rows) :] = SENTENCES
    counts = sparse.csr_array((often, where), shape=(passages, common + passages))
    counts.sum_duplicates()
    return counts


def power_law(count: int, size: int, generator: np.random.Generator) -> Int64:
    """Numbers below `size`, the r-th in proportion to r^-EXPONENT, by inverse transform."""
    power = 1 - EXPONENT
    rank = (1 + generator.random(count) * ((size + 1) ** power - 1)) ** (1 / power)
    drawn: Int64 = np.minimum(rank.astype(np.int64) - 1, size - 1)
    return drawn


def restarts(
    counts: sparse.csr_array, columns: int, generator: np.random.Generator
) -> tuple[Float64, sparse.csc_array]:
    """Restart masses with the sizes that default settings give real questions.

    Every passage has its similarity's share. The subjects of two passages, and eight entities that
    these mention, are active; where such a subject is a title, its passage has far more.

    Returns:
        (n, columns) of the passages, (e, columns) of the entities.
    """
    n = counts.shape[0]
    prior = np.clip(generator.normal(0.4, 0.12, (n, columns)), 0, 1) * 0.2
    degree = np.bincount(counts.indices, minlength=counts.shape[1])
    active: list[Int64] = []
    for column in range(columns):
        subjects = generator.choice(n, 2, replace=False)
        prior[subjects, column] += generator.uniform(1, 16, 2)
        near = [counts.indices[counts.indptr[row] : counts.indptr[row + 1]] for row in subjects]
        active.append(np.unique(np.concatenate(near))[:10].astype(np.int64))
    entities = np.concatenate(active)
    mass = generator.uniform(0.35, 1.5, len(entities)) / degree[entities]
    starts = np.cumsum([0, *(len(found) for found in active)])
    return prior, sparse.csc_array((mass, entities, starts), shape=(counts.shape[1], columns))
