"""Slow, obvious versions of the fast algorithms, to test against in values."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from backends.types import Float64


def personalized_pagerank(
    weights: Float64, restart_passages: Float64, restart_entities: Float64, damping: float
) -> tuple[Float64, Float64]:
    """Personalized PageRank of one restart vector on a dense bipartite graph, solved directly.

    Args:
        weights: (n, e) edge weights.
        restart_passages: (n,) non-negative.
        restart_entities: (e,) non-negative.
        damping: Probability of following an edge.

    Returns:
        (n,) mass of the passages and (e,) mass of the entities.
    """
    n, e = weights.shape
    adjacency = np.zeros((n + e, n + e))
    adjacency[:n, n:] = weights
    adjacency[n:, :n] = weights.T
    degree = adjacency.sum(axis=0)
    step = adjacency / np.where(degree > 0, degree, 1)
    restart = np.concatenate([restart_passages, restart_entities]).astype(np.float64)
    if restart.sum() == 0:
        return np.zeros(n), np.zeros(e)
    restart /= restart.sum()
    system = np.eye(n + e) - damping * step
    mass = np.asarray(np.linalg.solve(system, (1 - damping) * restart), np.float64)
    return mass[:n], mass[n:]


def bridge(
    sentences: Sequence[Sequence[int]],
    similarity: Sequence[float],
    seeds: Mapping[int, float],
    *,
    steps: int,
    threshold: float,
    sentences_per_entity: int,
) -> tuple[dict[int, float], dict[int, float], dict[int, int]]:
    """Semantic bridging (LinearRAG, section 3.2.1), sentence by sentence.

    Args:
        sentences: Entities that each sentence mentions.
        similarity: Of each sentence to the question.
        seeds: Value of each seed entity.
        steps: T, the seeds' own step included.
        threshold: An entity below it is neither activated nor expanded.
        sentences_per_entity: Of the sentences not used before, each entity takes its best so many.

    Returns:
        For each activated entity its largest value, the sum of its values, and its first step.
    """
    value, weight = dict(seeds), dict(seeds)
    level = dict.fromkeys(seeds, 1)
    reached, used = dict(seeds), set[int]()
    for step in range(2, steps + 1):
        found: dict[int, float] = {}
        for entity in sorted(reached):
            if reached[entity] < threshold:
                continue
            free = [s for s, members in enumerate(sentences) if entity in members and s not in used]
            for s in sorted(free, key=lambda s: (-similarity[s], s))[:sentences_per_entity]:
                used.add(s)
                passed_on = reached[entity] * similarity[s]
                if passed_on < threshold:
                    continue
                for other in sentences[s]:
                    weight[other] = weight.get(other, 0.0) + passed_on
                    found[other] = max(found.get(other, 0.0), passed_on)
        for entity, reached_value in found.items():
            value[entity] = max(value.get(entity, 0.0), reached_value)
            level.setdefault(entity, step)
        reached = found
    return value, weight, level


def passage_prior(
    counts: Float64,
    similarity: Float64,
    value: Mapping[int, float],
    level: Mapping[int, int],
    similarity_weight: float,
) -> list[float]:
    """LinearRAG, equation 6, without its factor W_p: λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e)."""
    priors = []
    for passage, row in enumerate(counts):
        bonus = sum(value[e] * math.log1p(row[e]) / level[e] for e in sorted(value) if row[e])
        priors.append(similarity_weight * similarity[passage] + math.log1p(bonus))
    return priors
