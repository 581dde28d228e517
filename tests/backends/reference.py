"""Slow, obvious versions of the fast algorithms, to test against in values."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from wye.backends.trigraph.question import MOST_NAMING
from wye.backends.trigraph.walk import PROMOTING
from wye.backends.types import Float64


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
        similarity: Similarity of each sentence to the question.
        seeds: Value of each seed entity.
        steps: T; the seeds are the first step.
        threshold: An entity below it is neither activated nor expanded.
        sentences_per_entity: How many of the sentences not used before, the best, each entity uses.

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


def equation_5(
    mentions: Float64,
    similarity: Float64,
    seeds: Mapping[int, float],
    *,
    steps: int,
    threshold: float,
) -> tuple[Float64, Float64]:
    """LinearRAG's equation 5 as printed, on dense arrays.

    Args:
        mentions: (s, e), 1 where a sentence mentions an entity.
        similarity: Similarity (s,) to the question.

    Returns:
        Values (e,) and first steps (e,) of the entities; 0 if not active.
    """
    value = np.zeros(mentions.shape[1])
    for entity, own in seeds.items():
        value[entity] = own
    level = (value > 0).astype(np.float64)
    for step in range(2, steps + 1):
        found = np.maximum(value, mentions.T @ (np.maximum(similarity, 0) * (mentions @ value)))
        kept = found >= threshold
        kept[[*seeds]] = True
        value = np.where(kept, found, 0)
        level[(level == 0) & (value > 0)] = step
    return value, level


def activate_facts(
    facts: Sequence[tuple[Sequence[int], float]], passages_of: Sequence[int], entities: int
) -> dict[int, float]:
    """EA-GraphRAG, algorithm 1, up to its restart masses.

    Args:
        facts: Entities and score of each fact, best first.
        passages_of: Number of passages that mention an entity.
        entities: Most entities.

    Returns:
        Entity -> score.
    """
    best: dict[int, float] = {}
    for members, score in facts:
        for entity in members:
            best[entity] = max(score, best.get(entity, 0.0))
    order = sorted((e for e in best if best[e]), key=lambda e: (-best[e] / passages_of[e], e))
    return {entity: best[entity] for entity in order[:entities]}


def overlap(
    question: Sequence[str], words: Sequence[frozenset[str]], passages: Sequence[frozenset[str]]
) -> float:
    """Share of a question's words, weighted by rarity, that some sentences have.

    Args:
        question: Words of the question.
        words: Words of each sentence.
        passages: Words in the sentences of each allowed passage.
    """
    weight = {
        word: math.log(1 + len(passages) / (1 + sum(word in own for own in passages)))
        for word in sorted(set(question))
    }
    total = math.fsum(weight.values())
    has = frozenset[str]().union(*words)
    return math.fsum(weight[word] for word in weight if word in has) / total if total else 0.0


def clue(
    sentences: Sequence[Sequence[int]],
    vectors: Float64,
    question: Float64,
    anchors: set[int],
    score: Callable[[tuple[int, ...]], float],
    *,
    nearest: int,
    rounds: int,
    sets: int,
    updating: bool,
) -> dict[tuple[int, ...], float]:
    """Clue-RAG, algorithms 3 and 4: the sets of sentences that are followed, with their scores.

    Args:
        sentences: Entities that each sentence mentions.
        vectors: Vectors of the sentences, (s, d).
        anchors: Entities to begin with.
        score: Scores a set of sentences.
        nearest: K.
        rounds: D.
        sets: M.
        updating: Whether the sentences taken are subtracted from the question.
    """
    states: dict[tuple[int, ...], set[int]] = {(): anchors}
    followed: dict[tuple[int, ...], float] = {}
    for _ in range(rounds):
        found: dict[tuple[int, ...], set[int]] = {}
        for taken, entities in states.items():
            left = question - vectors[[*taken]].sum(axis=0) * updating
            for entity in entities:
                own = [s for s, who in enumerate(sentences) if entity in who and s not in taken]
                for s in sorted(own, key=lambda s: (-(vectors[s] @ left), s))[:nearest]:
                    found.setdefault(tuple(sorted((*taken, s))), set()).update(sentences[s])
        best = sorted(found, key=lambda one: (-score(one), one))[:sets]
        followed |= {one: score(one) for one in best}
        states = {one: found[one] for one in best}
    return followed


def zoom(
    mentions: Float64,
    near: Float64,
    named: Sequence[int],
    similar: Float64 | None = None,
    *,
    deviations: float,
    restart: float,
    steps: int,
) -> Float64:
    """ZoomRAG's walk for one question over a dense graph in which the question is a node.

    Args:
        mentions: (n, e), 1 where a passage mentions an entity; entities without any are left out.
        near: Similarities (n,) of the question to the passages.
        named: Entities that the question names.
        similar: Weights (n, n) between passages; None for no edges.

    Returns:
        Masses (n + e,) of passages and entities.
    """
    n, e = mentions.shape
    entities = int((mentions.sum(axis=0) > 0).sum())

    def rescaled(block: Float64, cells: int) -> Float64:
        return block * cells / block.sum() if block.sum() else block

    edges = np.zeros((1 + n + e, 1 + n + e))
    chosen = near > near.mean() + deviations * near.std()
    edges[0, 1 : n + 1] = rescaled(np.where(chosen, np.exp(near), 0), n)
    edges[0, [n + 1 + one for one in named]] = 1
    edges[0, n + 1 :] = rescaled(edges[0, n + 1 :], entities)
    edges[1 : n + 1, n + 1 :] = rescaled(mentions, n * entities)
    edges += edges.T
    if similar is not None:
        edges[1 : n + 1, 1 : n + 1] = rescaled(similar, n * n)
    sums = edges.sum(axis=0)
    step = edges / np.where(sums > 0, sums, 1)
    start = np.zeros(1 + n + e)
    start[0] = 1
    mass = start
    for _ in range(steps):
        mass = (1 - restart) * step @ mass + restart * start
    return mass[1:]


def promote(
    mass: Sequence[float],
    mentioned: Sequence[Collection[int]],
    titled: Sequence[Collection[int]],
    degree: Sequence[int],
    share: float,
) -> list[float]:
    """Masses after promotion.

    Args:
        mass: Mass of each passage.
        mentioned: Entities that each passage mentions.
        titled: Passages whose title each entity is.
        degree: Number of passages that mention each entity.
        share: How far a passage is moved up.
    """
    after = list(mass)
    for source in sorted(range(len(mass)), key=lambda at: (-mass[at], at))[:PROMOTING]:
        for entity in mentioned[source]:
            if source in titled[entity] or degree[entity] > MOST_NAMING:
                continue
            for passage in titled[entity]:
                low, high = mass[passage], mass[source]
                if 0 < low < high:
                    power = share / math.sqrt(max(degree[entity] - 1, 1))
                    after[passage] = max(after[passage], low ** (1 - power) * high**power)
    return after
