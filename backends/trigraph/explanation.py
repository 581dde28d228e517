"""Explanations of the graph arm's rankings, by the numbers that produced them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.types import Float64, Int64, Ranking

if TYPE_CHECKING:
    from wye.backends.trigraph.bridging import Activation
    from wye.backends.trigraph.question import PassageSource
    from wye.backends.trigraph.seeds import Seed

QUESTION = -1  # stands for the question as the source of a bridge


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps from one question to its restart vector.

    Attributes:
        passages: (c,) rows of the candidates, to which the walk is confined, ascending.
        prior: (c,) their restart mass, before normalisation.
        restart: (a,) restart mass of the active entities, before normalisation.
    """

    seeds: "tuple[Seed, ...]"
    activation: "Activation"
    passages: Int64
    prior: Float64
    restart: Float64


@dataclass(frozen=True, slots=True)
class SeedNote:
    """A span of the question and the entity that it was linked to.

    Attributes:
        mention: The question's words.
        entity: Name of the entity.
        value: In (0, 1]; 1 for the same name, less where spelling or similarity leaves a doubt.
        origin: How it was linked: name, nearest, vocabulary or phrase.
    """

    mention: str
    entity: str
    value: float
    origin: str


@dataclass(frozen=True, slots=True)
class BridgeNote:
    """The sentence that led from one entity to another.

    Attributes:
        source: Name of the entity it was reached from; empty for the question itself.
        passage: Id of the sentence's passage.
        sentence: Text of the sentence.
        similarity: Similarity of the sentence to the question.
    """

    source: str
    passage: str
    sentence: str
    similarity: float


@dataclass(frozen=True, slots=True)
class EntityNote:
    """An active entity.

    Attributes:
        entity: Its name.
        level: Step at which it was first reached; 1 for a seed.
        value: Largest value with which it was reached.
        weight: Sum of the values with which it was reached.
        passages: How many allowed passages mention it.
        bridge: How it was first reached; None for a seed.
    """

    entity: str
    level: int
    value: float
    weight: float
    passages: int
    bridge: BridgeNote | None


@dataclass(frozen=True, slots=True)
class PassageNote:
    """The numbers behind a passage's rank.

    Attributes:
        id: Id of the passage.
        prior: Its share of the restart mass, before the walk.
        pagerank: Its share of the mass on passages after the walk.
        entities: Names of the active entities that it mentions, highest weight first.
        named_in: Id of the passage that mentions its title and that it was moved up to; empty if it
            was not moved.
    """

    id: str
    prior: float
    pagerank: float
    entities: tuple[str, ...]
    named_in: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How the graph arm came to its ranking, from the question's words to the passages.

    Attributes:
        seeds: Entities that the question names.
        entities: Active entities by level, then by descending weight.
        passages: The passages of the ranking, in its order.
    """

    seeds: tuple[SeedNote, ...]
    entities: tuple[EntityNote, ...]
    passages: tuple[PassageNote, ...]


def explain_walk(
    source: "PassageSource",
    trace: Trace,
    mass: Float64,
    ranking: Ranking,
    named_in: Mapping[int, int] = MappingProxyType({}),
) -> Explanation:
    """Explain a ranking's passages by the mass (c,) that a walk left on those of the trace.

    Passages that this version lacks are left out. `named_in` has for each passage that was moved up
    the one that mentions its title.
    """
    name, activation = cache(source.name), trace.activation
    total = trace.prior.sum() + trace.restart.sum()
    passages = source.numbers([hit.id for hit in ranking.hits])
    shares = trace.prior / (total or 1), mass / (mass.sum() or 1)
    candidates = trace.passages.tolist()
    prior, pagerank = (dict(zip(candidates, each.tolist(), strict=True)) for each in shares)
    # The active entities, highest weight first, that each passage mentions.
    order = np.lexsort((activation.entities, -activation.weight))
    strength = {entity: n for n, entity in enumerate(activation.entities[order].tolist())}
    mentioned: dict[int, list[int]] = {passage: [] for passage in passages.tolist()}
    edges = source.edges(passages)
    owners = edges.passages[edges.passage].tolist()
    for passage, entity in zip(owners, edges.entity.tolist(), strict=True):
        if entity in strength:
            mentioned[passage].append(entity)
    notes = [
        PassageNote(
            id_,
            prior.get(passage, 0.0),
            pagerank.get(passage, 0.0),
            tuple(map(name, sorted(mentioned[passage], key=strength.__getitem__))),
            source.ids(np.array([named_in[passage]]))[0] if passage in named_in else "",
        )
        for passage, id_ in zip(passages.tolist(), source.ids(passages), strict=True)
    ]
    seeds = (SeedNote(s.mention, name(s.entity), s.value, s.origin) for s in trace.seeds)
    return Explanation(tuple(seeds), _explain_entities(source, name, activation), tuple(notes))


def _explain_entities(
    source: "PassageSource", name: Callable[[int], str], activation: "Activation"
) -> tuple[EntityNote, ...]:
    """Active entities by level, then by descending weight, with the sentences that led to them."""
    bridges = activation.bridges
    sentences = np.array([bridge.sentence for bridge in bridges.values()], np.int64)
    led: dict[int, BridgeNote] = {}
    for entity, statement in zip(bridges, source.statements(sentences), strict=True):
        bridge = bridges[entity]
        before = name(bridge.source) if bridge.source != QUESTION else ""
        led[entity] = BridgeNote(before, *statement, bridge.similarity)
    columns = activation.entities, activation.level, activation.value, activation.weight
    degrees = source.degree(activation.entities)
    rows = zip(*(column.tolist() for column in (*columns, degrees)), strict=True)
    notes = [
        EntityNote(name(entity), level, value, weight, passages, led.get(entity))
        for entity, level, value, weight, passages in rows
    ]
    return tuple(sorted(notes, key=lambda note: (note.level, -note.weight, note.entity)))
