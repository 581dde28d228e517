"""Where a walk starts: active entities by semantic bridging, and the passages' restart mass.

From each active entity the search goes to the sentences that mention it and are closest to the
question, and from these to the other entities they mention, each time multiplying by the
sentence's similarity (LinearRAG, section 3.2.1). Only sentences that mention active entities are
compared with the question.

The restart mass of passages, their prior, comes from similarity, BM25, and the active entities that
they mention or are titled. Each passage's prior is computed by itself, so it does not depend on
which others are computed. The passages of one question share only the scale: the lowest and the
highest similarity, and the best BM25. Questions are computed together, since most of the time is
that of the calls: the passage in row r of a corpus of n has the key q·n + r in the q-th question.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wye.backends.numerics import distinct, first_of_each, located, sums
from wye.backends.trigraph.graph import FilteredGraph, MentionGraph, Numbers
from wye.backends.trigraph.seeds import Seed
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Float32, Float64, Int64

Similarity = Callable[[Int64], Float32]

HUB = 2000
"""Number of sentences or passages with an entity above which it says next to nothing."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The sentence over which an entity was first reached.

    Attributes:
        sentence: Row of the sentence.
        similarity: Similarity of the sentence to the question.
        source: The entity it was reached from.
    """

    sentence: int
    similarity: float
    source: int


@dataclass(frozen=True, slots=True)
class Activation:
    """The entities that bridging activates, in ascending order.

    Attributes:
        entities: (a,) int64 active entities, seeds included.
        value: (a,) float64 largest value a_e with which each was reached.
        weight: (a,) float64 sum of the values with which each was reached.
        level: (a,) int64 step L_e at which each was first reached; seeds have 1.
        bridges: For each entity that is not a seed, how it was first reached.
    """

    entities: Int64
    value: Float64
    weight: Float64
    level: Int64
    bridges: Mapping[int, Bridge] = field(default_factory=dict)


def bridge(
    graph: MentionGraph,
    seeds: Mapping[int, float],
    similarity: Similarity,
    *,
    steps: int,
    threshold: float,
    sentences_per_entity: int,
    within: Callable[[], Int64] | None = None,
) -> Activation:
    """Activate entities step by step. The values equal those of `reference.bridge`.

    Args:
        seeds: Value of each seed entity.
        similarity: Given (m,) rows of sentences, their (m,) similarity to the question.
        steps: T, the step of the seeds included; 1 activates only the seeds.
        threshold: An entity with a lower value is neither activated nor expanded.
        sentences_per_entity: How many of its best unused sentences each entity takes.
        within: Returns the rows (ascending) to which the sentences of hubs are restricted.
    """
    value, weight = dict(seeds), dict(seeds)
    level = dict.fromkeys(seeds, 1)
    bridges: dict[int, Bridge] = {}
    known: dict[int, tuple[Int64, Float32]] = {}
    used: set[int] = set()
    reached = dict(seeds)
    for step in range(2, steps + 1):
        expanded = sorted(e for e, reached_value in reached.items() if reached_value >= threshold)
        _compare_sentences(
            graph, [e for e in expanded if e not in known], similarity, known, within
        )
        best: dict[int, float] = {}
        for entity in expanded:
            for sentence, sigma in _best_unused(*known[entity], used, sentences_per_entity):
                used.add(sentence)
                passed_on = reached[entity] * sigma
                if passed_on < threshold:
                    continue
                for other in graph.entities_of(sentence):
                    weight[other] = weight.get(other, 0.0) + passed_on
                    best[other] = max(best.get(other, 0.0), passed_on)
                    if other not in level:
                        level[other] = step
                        bridges[other] = Bridge(sentence, sigma, entity)
        for entity, best_value in best.items():
            value[entity] = max(value.get(entity, 0.0), best_value)
        if not best:
            break
        reached = best
    entities = sorted(value)
    return Activation(
        np.array(entities, np.int64),
        np.array([value[e] for e in entities]),
        np.array([weight[e] for e in entities]),
        np.array([level[e] for e in entities], np.int64),
        bridges,
    )


def equation_5(
    graph: MentionGraph,
    seeds: Mapping[int, float],
    similarity: Similarity,
    *,
    steps: int,
    threshold: float,
) -> Activation:
    """Activation as LinearRAG prints it. The values equal those of `reference.equation_5`.

    a becomes max(a, M' (s * (M a))) with s the similarities of the sentences; then values below the
    threshold become 0. Every sentence of an active entity counts, and counts again at each step, so
    values may exceed 1. A similarity below 0 counts as 0.

    Args:
        seeds: Value of each seed entity.
        similarity: Given (m,) rows of sentences, their (m,) similarity to the question.
        steps: T, the step of the seeds included.
        threshold: An entity with a lower value is not active, unless it is a seed.
    """
    entities = np.array(sorted(seeds), np.int64)
    value = np.array([seeds[entity] for entity in entities.tolist()])
    level = dict.fromkeys(seeds, 1)
    for step in range(2, steps + 1):
        owners, mentioning = graph.sentences.pairs(entities)
        sentences, position = np.unique(mentioning.astype(np.int64), return_inverse=True)
        sigma = np.maximum(similarity(sentences), 0).astype(np.float64)
        passed_on = sigma * sums(position, value[owners], len(sentences))
        owners, reached = graph.entities.pairs(sentences)
        candidates, position = np.unique(np.concatenate([entities, reached]), return_inverse=True)
        reached_value = sums(position[len(entities) :], passed_on[owners], len(candidates))
        reached_value[position[: len(entities)]] = np.maximum(
            reached_value[position[: len(entities)]], value
        )
        active = (reached_value >= threshold) & (reached_value > 0) | np.isin(
            candidates, list(seeds)
        )
        entities, value = candidates[active].astype(np.int64), reached_value[active]
        for entity in entities.tolist():
            level.setdefault(entity, step)
    levels = np.array([level[entity] for entity in entities.tolist()], np.int64)
    return Activation(entities, value, value, levels)


def _compare_sentences(
    graph: MentionGraph,
    entities: list[int],
    similarity: Similarity,
    known: dict[int, tuple[Int64, Float32]],
    within: Callable[[], Int64] | None,
) -> None:
    """Compare the sentences of entities with the question, in one call for all of them."""
    if not entities:
        return
    # Entities share few sentences: comparing some twice costs less than finding duplicates.
    lists = [graph.sentences.one(entity) for entity in entities]
    if within is not None and any(len(rows) > HUB for rows in lists):
        near = within()
        lists = [_among(rows, near) if len(rows) > HUB else rows for rows in lists]
    sentences = np.concatenate(lists).astype(np.int64)
    # A copy, since used sentences are overwritten in it.
    sigma = similarity(sentences).copy()
    end = 0
    for entity, rows in zip(entities, lists, strict=True):
        start, end = end, end + len(rows)
        known[entity] = sentences[start:end], sigma[start:end]


def _among(sentences: Numbers, within: Int64) -> Int64:
    """The entity's sentences that are also in `within`."""
    return within[located(within, sentences)[1]]


def _best_unused(
    sentences: Int64, sigma: Float32, used: set[int], count: int
) -> list[tuple[int, float]]:
    """The best `count` unused sentences with their similarities, best first, ties by row.

    Each sentence that is looked at gets a similarity of -inf: it is used, or is about to be.
    """
    best: list[tuple[int, float]] = []
    while len(best) < count and len(sentences):
        position = int(sigma.argmax())
        similarity = float(sigma[position])
        if similarity == -math.inf:
            break
        sigma[position] = -math.inf
        sentence = int(sentences[position])
        if sentence not in used:
            best.append((sentence, similarity))
    return best


# Exponent of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4


class Priors:
    """The prior of the allowed passages, for each of q questions.

    Attributes:
        degree: (a,) number of allowed passages that mention each active entity of each question.
        named: Keys of the allowed passages that mention an active entity or have it as their title,
            ascending. An entity that more than `HUB` passages mention adds none, and nothing to
            their prior.
    """

    def __init__(
        self,
        settings: TriGraphSettings,
        filtered: FilteredGraph,
        passages: int,
        seeds: Sequence[Sequence[Seed]],
        activations: Sequence[Activation],
    ) -> None:
        """Look up the passages that mention active entities.

        Args:
            passages: Number n of passages of the corpus.
            seeds: The seeds of each question; there is at least one question.
        """
        self._settings, self._passages = settings, passages
        question = np.repeat(np.arange(len(activations)), [len(each.value) for each in activations])
        entities = np.concatenate([each.entities for each in activations])
        value = np.concatenate([each.value for each in activations])
        weight = np.concatenate([each.weight for each in activations])
        level = np.concatenate([each.level for each in activations])
        self.degree = filtered.degree(entities)
        telling = np.flatnonzero(self.degree <= HUB)
        rows, counts, lengths = filtered.mentions(entities[telling])
        owners = np.repeat(telling, lengths)
        mentioned = question[owners] * passages + rows
        self._mentioned = mentioned, (value / level)[owners] * np.log1p(counts)
        titled_rows, sizes = filtered.titles(entities)
        share = settings.title_weight * weight**2 / np.maximum(sizes, 1)
        owners = np.repeat(np.arange(len(entities)), sizes)
        titled = question[owners] * passages + titled_rows
        # Entities of a question are ascending.
        stride = int(entities.max(initial=0)) + 1
        seed_question = np.repeat(np.arange(len(seeds)), [len(each) for each in seeds])
        seed_entity = np.array([seed.entity for each in seeds for seed in each], np.int64)
        is_sure = np.array([seed.value >= 1 for each in seeds for seed in each], bool)
        position, _ = located(seed_question * stride + seed_entity, question * stride + entities)
        is_meant = np.ones(len(entities), bool)
        is_meant[position[~is_sure]] = False
        self._titled = titled, share[owners], is_meant[owners]
        # BM25 weighs less if the question names a title outright.
        self._weight = np.full(len(seeds), settings.lexical_weight, np.float64)
        naming = seed_question[is_sure][sizes[position[is_sure]] > 0]
        self._weight[naming] = settings.lexical_weight_titled
        self.named: Int64 = distinct(np.concatenate([mentioned, titled[sizes[owners] <= HUB]]))
        # Without an entity to start from, passages rank by their prior, whatever its weight.
        lengths = np.array([len(each.entities) for each in activations])
        usual = settings.passage_weight
        self._passage_weight = np.where(lengths > 0, usual, usual or 1.0)
        self._lowest = np.zeros(len(seeds))
        self._highest = np.zeros(len(seeds))
        self._best_lexical = np.zeros(len(seeds))

    def scale(self, keys: Int64, similar: Float32, lexical: Float32) -> None:
        """Set each question's scale from the similarities and BM25 scores of some passages.

        Args:
            keys: (c,) keys of passages, ascending.
            similar: (c,) their similarities.
            lexical: (c,) their BM25 scores.
        """
        question = keys // self._passages
        first = first_of_each(question)
        if len(first):
            known = question[first]
            self._lowest[known] = np.minimum.reduceat(similar, first)
            self._highest[known] = np.maximum.reduceat(similar, first)
            self._best_lexical[known] = np.maximum.reduceat(lexical, first)

    def of(self, keys: Int64, similar: Float32, lexical: Float32) -> Float64:
        """(c,) (λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, with BM25 added to similarity.

        The arguments are as in `scale`.
        """
        question = keys // self._passages
        similarity = _scaled(similar, self._lowest[question], self._highest[question])
        best = self._best_lexical[question]
        prior = np.divide(lexical, best, out=np.zeros(len(keys)), where=best > 0)
        prior *= self._weight[question]
        prior += similarity
        prior *= self._settings.similarity_weight
        bonus = self._bonus(keys)
        mentioned = np.flatnonzero(bonus)
        prior[mentioned] += np.log1p(bonus[mentioned])
        prior *= self._passage_weight[question]
        self._add_titles(prior, keys, similarity)
        return prior

    def _bonus(self, keys: Int64) -> Float64:
        """(c,) Σ a_e·ln(1 + N_e)/L_e over the active entities that a passage mentions."""
        mentioned, values = self._mentioned
        positions, known = located(mentioned, keys)
        return sums(positions[known], values[known], len(keys))

    def _add_titles(self, prior: Float64, keys: Int64, similarity: Float64) -> None:
        """Add the mass that an active title gives to its passages.

        Squaring the value favours a title that is named outright or reached over several bridges
        against an uncertain one. If only lower-case words of the question matched the title, its
        passage must be close to the question as well.
        """
        titled, share, is_meant = self._titled
        positions, known = located(titled, keys)
        closeness = similarity[positions[known]]
        closeness = np.where(is_meant[known], closeness, closeness**DOUBT)
        np.add.at(prior, positions[known], share[known] * closeness)


def _scaled(similar: Float32, low: Float64, high: Float64) -> Float64:
    """Similarities scaled from [low, high] to [0, 1] and clipped; 1 if low and high are equal."""
    width = high - low
    scaled = np.divide(similar - low, width, out=np.ones(len(similar)), where=width > 0)
    return np.clip(scaled, 0, 1, out=scaled)
