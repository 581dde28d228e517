"""A graph with late passages: a base that was assembled before, and what was written since.

The late passages are assembled by themselves, at the cost of these few, and know the base's names:
their sentences mention what they would in a graph of all passages. The base is not looked at again,
so its sentences do not mention a name that only late passages have until both are assembled
together, which the next derivation does. Deleted passages count nowhere at once.

Nothing of the base is numbered anew: late passages, their sentences and new entities follow.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from wye.backends.arrays import Words
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import Lists, TriGraph, assemble, counted_lists, wants_phrases
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Mask


def with_late(corpus: Corpus, base: TriGraph, settings: AssemblySettings) -> TriGraph:
    """The graph of a corpus that has a base, by the base's graph with the same settings."""
    if not corpus.parts:
        raise ValueError("A graph with late passages is of a corpus with a base.")
    size, remaining = len(corpus.parts[0]), _without_gone(base, corpus.present)
    mentions = (len(each.code) for each in (corpus.parts[0].entities, corpus.parts[0].phrases))
    phrases: Literal["on", "off"] = "on" if wants_phrases(settings, *mentions) else "off"
    late = assemble(corpus.parts[1], replace(settings, noun_phrases=phrases), base=remaining)
    keys = Words(base.keys)
    entities = np.array([*map(keys.number, late.keys)], np.int64)
    new = (0, len(keys) - len(base))
    is_named = np.pad(~base.is_phrase & (remaining.degrees > 0), new)
    is_phrase = np.pad(base.is_phrase, new, constant_values=True)
    is_phrase[entities] = late.is_phrase & ~is_named[entities]
    degrees = np.pad(remaining.degrees, new)
    degrees[entities] += late.degrees

    def by_entity(first: Lists, lists: Lists) -> Lists:
        entity, row = lists.pairs(np.argsort(entities))
        owners = np.sort(entities)[entity]
        return replace(first, late=Lists.from_owners(owners, row + size, len(keys)))

    def by_row(first: Lists, lists: Lists) -> Lists:
        starts = np.pad(lists.starts, (len(first), 0))
        return replace(first, late=Lists(starts, entities[lists.items]))

    passage, entity, counts = late.mentioned_in(np.arange(len(corpus.parts[1])))
    entity = entities[entity]
    order = np.lexsort((entity, passage))
    pairs = passage[order] + size, entity[order], counts[order]
    return TriGraph(
        keys=keys,
        is_phrase=is_phrase,
        degrees=degrees,
        passages=by_entity(base.passages, late.passages),
        mentioned=replace(base.mentioned, late=counted_lists(*pairs, len(corpus))),
        mentions=by_row(base.mentions, late.mentions),
        titled=by_entity(base.titled, late.titled),
        titles=by_row(base.titles, late.titles),
        owners=corpus.sentence_passage,
        names=remaining.names.with_late(late.names, entities),
        display_names=remaining.display_names.with_late(
            corpus, keys, late.display_names, entities, remaining.degrees > 0
        ),
        present=corpus.present,
    )


def _without_gone(base: TriGraph, present: Mask | None) -> TriGraph:
    """A base whose degrees and names leave out passages that are gone; its lists have them."""
    if present is None:
        return base
    gone = np.flatnonzero(~present)
    _, entity, _ = base.mentioned_in(gone)
    degrees = base.degrees.copy()
    np.subtract.at(degrees, entity, 1)
    dead = entity[degrees[entity] == 0]
    return replace(base, degrees=degrees, names=base.names.without({*dead.tolist()}))
