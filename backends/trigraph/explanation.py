"""Explanations of the graph arm's rankings, by the numbers that produced them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.numerics import located
from wye.backends.types import Float64, Int64, Ranking

if TYPE_CHECKING:
    from wye.backends.store.corpus import Corpus
    from wye.backends.trigraph.bridging import Activation, Bridge
    from wye.backends.trigraph.graph import TriGraph
    from wye.backends.trigraph.seeds import Seed
    from wye.backends.trigraph.walk import Masses


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


def explain_walk(  # noqa: PLR0917 - what was walked, and what came of it
    graph: "TriGraph",
    corpus: "Corpus",
    trace: Trace,
    settled: "Masses",
    ranking: Ranking,
    degree: Callable[[Int64], Int64],
    named_in: Mapping[int, int] = MappingProxyType({}),
) -> Explanation:
    """Explain the ranks of a ranking's passages by the numbers of a walk.

    Args:
        settled: Passages, ascending, and the mass on each.
        ranking: A ranking of any arm; passages that this version lacks are left out.
        degree: From (a,) entities to (a,) numbers of allowed passages that mention them.
        named_in: Row of a passage that was moved up -> row of the one that mentions its title.
    """
    from wye.backends.trigraph.graph import counted  # noqa: PLC0415 - `wye search --url` needs none

    name, activation = graph.display_names.of, trace.activation
    total = trace.prior.sum() + trace.restart.sum()
    rows = np.array(corpus.rows([hit.id for hit in ranking.hits]), np.int64)
    prior = _mass_on(rows, (trace.passages, trace.prior)) / (total or 1)
    pagerank = _mass_on(rows, settled) / (settled[1].sum() or 1)
    # The active entities, highest weight first, that each passage mentions.
    order = np.lexsort((activation.entities, -activation.weight))
    strength = {entity: n for n, entity in enumerate(activation.entities[order].tolist())}
    position, entities, _ = counted(*graph.entities_of(rows), len(graph))
    mentioned: list[list[int]] = [[] for _ in range(len(rows))]
    for at, entity in zip(position.tolist(), entities.tolist(), strict=True):
        if entity in strength:
            mentioned[at].append(entity)
    return Explanation(
        tuple(SeedNote(s.mention, name(s.entity), s.value, s.origin) for s in trace.seeds),
        _explain_entities(graph, corpus, activation, degree(activation.entities)),
        tuple(
            PassageNote(
                corpus.ids[row],
                before,
                after,
                tuple(map(name, sorted(of_row, key=strength.__getitem__))),
                corpus.ids[named_in[row]] if row in named_in else "",
            )
            for row, before, after, of_row in zip(
                rows.tolist(), prior.tolist(), pagerank.tolist(), mentioned, strict=True
            )
        ),
    )


def _mass_on(rows: Int64, masses: "Masses") -> Float64:
    """(r,) mass on some passages."""
    positions, exists = located(rows, masses[0])
    return np.where(exists, masses[1][positions], 0.0) if len(masses[0]) else np.zeros(len(rows))


def _explain_entities(
    graph: "TriGraph", corpus: "Corpus", activation: "Activation", degrees: Int64
) -> tuple[EntityNote, ...]:
    """Active entities by level, then by descending weight, with the sentences that led to them."""
    name = graph.display_names.of
    bridges = _explain_bridges(graph, corpus, list(activation.bridges.items()))
    columns = (activation.entities, activation.level, activation.value, activation.weight)
    notes = [
        EntityNote(name(entity), level, value, weight, passages, bridges.get(entity))
        for entity, level, value, weight, passages in zip(
            *(column.tolist() for column in columns), degrees.tolist(), strict=True
        )
    ]
    return tuple(sorted(notes, key=lambda note: (note.level, -note.weight, note.entity)))


def _explain_bridges(
    graph: "TriGraph", corpus: "Corpus", bridges: "Sequence[tuple[int, Bridge]]"
) -> dict[int, BridgeNote]:
    rows = np.array([bridge.sentence for _, bridge in bridges], np.int64)
    texts = corpus.sentence_texts(rows) if len(rows) else []
    return {
        entity: BridgeNote(
            graph.display_names.of(bridge.source) if bridge.source >= 0 else "",
            corpus.ids[int(corpus.sentence_passage[bridge.sentence])],
            text,
            bridge.similarity,
        )
        for (entity, bridge), text in zip(bridges, texts, strict=True)
    }
