"""Activation by facts, as in EA-GraphRAG's graph arm, with sentences as facts.

Bridging starts from the names in a question and goes from sentence to sentence. This takes the
sentences of the whole corpus that are closest to the question, reranks them by their words as well,
and starts from the entities that the best of them mention. No language model extracts triples or
selects among them: a sentence is the fact, and its entities stand for head and tail.

Source: EA-GraphRAG (arXiv 2602.03578), section 3.4.2 and algorithm 1, after HippoRAG 2. The paper
does not say how scores are normalised nor how many facts and entities are kept: here scores are
scaled to [0, 1] over the reranked sentences, 5 facts and 20 entities are kept, and an entity has
the score of its best fact.
"""

from collections.abc import Callable

import numpy as np

from wye.backends.numerics import top_rows
from wye.backends.papers.units import Units
from wye.backends.trigraph.bridging import Activation, Bridge
from wye.backends.trigraph.graph import MentionGraph
from wye.backends.types import Float64, Int64, Mask, Query

POOL = 200
FACTS = 5
ENTITIES = 20
QUESTION = -1
"""Source of a bridge that leads from the question itself."""


def best_facts(units: Units, query: Query, allowed: Mask | None) -> tuple[Int64, Float64]:
    """The sentences closest to a question.

    Args:
        allowed: (n,) mask over the passages; None for all.

    Returns:
        Their rows, best first, ties by row, and their scores in [0, 1].
    """
    pool = np.sort(units.nearest(query.vector, POOL, allowed))
    sets = units.narrowed(query, [(row,) for row in pool.tolist()], "mix", allowed)
    pool = np.array([row for (row,) in sets], np.int64)
    scores = units.scores(query, sets, "mix", allowed)
    best = np.argsort(-scores, kind="stable")[:FACTS]
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    values = (scores[best] - low) / (high - low) if high > low else np.ones(len(best))
    return pool[best], values


def activate(
    graph: MentionGraph,
    facts: Int64,
    scores: Float64,
    degree: Callable[[Int64], Int64],
    entities: int = ENTITIES,
) -> Activation:
    """Activate the entities of some facts. The values equal those of `reference.activate_facts`.

    Args:
        facts: (f,) rows of sentences.
        scores: (f,) their scores.
        degree: How many allowed passages mention each of the given entities.
        entities: How many entities are kept, by highest score / degree, ties by number.
    """
    bridges: dict[int, Bridge] = {}
    for sentence, score in zip(facts.tolist(), scores.tolist(), strict=True):
        for entity in graph.entities_of(sentence):
            if score > 0 and (entity not in bridges or score > bridges[entity].similarity):
                bridges[entity] = Bridge(sentence, score, QUESTION)
    named = sorted(bridges)
    each = np.array([bridges[entity].similarity for entity in named])
    best = top_rows(each / degree(np.array(named, np.int64)), entities)
    active = [named[place] for place in sorted(best.tolist())]
    values = np.array([bridges[entity].similarity for entity in active])
    return Activation(
        np.array(active, np.int64),
        values,
        values,
        np.ones(len(active), np.int64),
        {entity: bridges[entity] for entity in active},
    )
