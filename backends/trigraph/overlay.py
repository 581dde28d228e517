"""A graph updated by a few passages: equal to one assembled from all, at the cost of the few.

Nothing of the base is copied. The changes follow from the names that come and go with the passages:
a key without a name left is no longer an entity, a new key becomes one, and both change which names
are found in the sentences of the base. The affected passages are analysed again, and the lists of
the entities that they mention, before or after, replace those of the base. `assemble` of all
passages is the slow reference.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.numerics import distinct, ranges, sums, without
from wye.backends.store.snapshot import AnyMentions, Corpus, TwoCorpora
from wye.backends.strings import FurtherWords, SentenceWords
from wye.backends.text import entity_key, title_keys, title_names
from wye.backends.trigraph.full_walk import reciprocal
from wye.backends.trigraph.graph import MentionGraph, TriGraph
from wye.backends.trigraph.graph_sources import LayeredKeys
from wye.backends.trigraph.lists import PatchedLists, PlainLists, patched_lists
from wye.backends.trigraph.local_walk import Edges, LocalWalk
from wye.backends.trigraph.names import MAX_WORDS, MIN_SINGLE_WORD, NameTrie, NameWords, says_enough
from wye.backends.trigraph.overlay_changes import (
    NameChanges,
    OverlaidNames,
    OverlaidTrie,
    changed_edges,
    layers_before,
    mentions_in,
)
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Float32, Float64, Int32, Int64, Mask

_NONE = np.empty(0, np.int64)


def overlay(
    two: TwoCorpora, graph: TriGraph, walk: LocalWalk | None, settings: AssemblySettings
) -> tuple[TriGraph, LocalWalk | None] | None:
    """The graph of two corpora together, and the local walk on it.

    Args:
        graph: The graph of the base alone, with the same settings.
        walk: The local walk on that graph; None if none is wanted.

    Returns:
        None if the change decides anew whether noun phrases are entities: then the graph must be
        assembled from all passages.
    """
    changes = NameChanges(two, graph, settings)
    if not changes.is_alike:
        return None
    return _Overlay(two, graph, settings, changes).laid(walk)


@dataclass(frozen=True, slots=True)
class _Part:
    """The names in some passages; everything is in new numbers.

    Attributes:
        passages: The passages, ascending.
        sentences: Their sentences, ascending.
        owner: The passage of each sentence.
        words: The tokenised sentences.
        tagged: (2, m) sentence and entity of each tagged mention.
        found: (2, m) sentence and entity of each noun phrase that is an entity.
        titles: (2, m) passage and entity of each title.
    """

    passages: Int64
    sentences: Int64
    owner: Int64
    words: SentenceWords
    tagged: Int64
    found: Int64
    titles: Int64


class _Overlay:
    """The difference between the graph of two corpora together and that of the base."""

    def __init__(
        self, two: TwoCorpora, graph: TriGraph, settings: AssemblySettings, changes: NameChanges
    ) -> None:
        self._two, self._graph, self._settings = two, graph, settings
        self._sources = graph.sources
        self._changes, self._names = changes, changes.by_key
        self._edges = changed_edges(two, graph.chunk_edges)

    def laid(self, walk: LocalWalk | None) -> tuple[TriGraph, LocalWalk | None]:
        """The graph and the walk of both corpora."""
        two, graph = self._two, self._graph
        self._number()
        changed_rows = [*self._find_names(), self._with_changed_phrases(), self._edges.rows]
        rows = without(distinct(np.concatenate(changed_rows)), two.passages.gone)
        ties = self._tied([self._of_base(rows), self._of_added()])
        taken = np.zeros(len(two.base), bool)
        taken[two.passages.gone] = taken[rows] = True
        touched = self._touched(taken, ties.node)
        by_node = np.lexsort([ties.row, ties.node])
        new = ties.node[by_node], ties.row[by_node], ties.times[by_node]
        passages = patched_lists(
            graph.passages, self._nodes, two.passages, touched, lost=taken.__getitem__, new=new
        )
        totals = two.passages.lay(graph.totals, np.zeros(len(two.added)))
        totals[ties.passages] = sums(
            np.searchsorted(ties.passages, ties.row), ties.times, len(ties.passages)
        )
        self._titles = self._titled()
        graph_of_both = TriGraph(
            keys=self._keys,
            is_phrase=self._phrases_only(),
            passages=passages,
            totals=totals,
            mentions=self._mentions(ties, taken, touched),
            titled=self._titles,
            names=self._trie,
            display_names=OverlaidNames(self._keys, self._written),
            own_sources=None,
        )
        return graph_of_both, walk and self._walk(walk, passages, totals, ties, touched)

    def _number(self) -> None:
        """Number the entities, and after them the edges between chunks."""
        names, sources = self._names, self._sources
        names_after = [(key, name) for key, name in names.items() if name.is_there]
        born = sorted(key for key, name in names_after if name.entity < 0)
        dead = [name.entity for name in names.values() if name.entity >= 0 and not name.is_there]
        gone = np.sort(np.array(dead, np.int64))
        before = np.array([sources.keys.place(key) for key in born], np.int64)
        size, edges = len(sources.keys), self._edges.layers
        self._entities = self._nodes = layers_before(size, gone, before)
        if len(edges) or edges.base:
            self._nodes = layers_before(
                size + edges.base,
                np.concatenate([gone, size + edges.gone]),
                np.concatenate([before, size + self._edges.before]),
            )
        self._keys = LayeredKeys(self._entities, sources.keys, born)
        kept_numbers = {
            key: self._entities.number(name.entity) for key, name in names_after if name.entity >= 0
        }
        self._numbers = kept_numbers | dict(zip(born, self._entities.added.tolist(), strict=True))

    def _find_names(self) -> list[Int64]:
        """Build the new trie, and return the rows of the base in which it may find other names."""
        sources, trie = self._sources, self._graph.names
        words = FurtherWords(sources.words)
        changed = [key for key, name in self._names.items() if name.was_named != name.is_named]
        named = NameWords.of(changed, words)
        ends = np.cumsum(named.lengths)
        spelt: dict[tuple[int, ...], list[str]] = {}
        for key, end, length, says in zip(
            changed, ends.tolist(), named.lengths.tolist(), named.informative.tolist(), strict=True
        ):
            if says and 0 < length <= MAX_WORDS:
                spelt.setdefault(tuple(named.words[end - length : end].tolist()), []).append(key)
        dead = {self._names[key].entity for key in changed if self._names[key].was_named}
        hidden_entities: list[int] = []
        added_entities: list[int] = []
        affected_rows = [_NONE]
        for name, keys in spelt.items():
            base_entity = trie.spelt(name)
            with_it = [base_entity, *trie.others[0, trie.others[1] == base_entity].tolist()]
            others_left = [entity for entity in with_it if entity >= 0 and entity not in dead]
            candidates = [self._entities.number(entity) for entity in others_left]
            candidates += [self._numbers[key] for key in keys if self._names[key].is_named]
            best = min(candidates, default=-1)
            if (
                base_entity >= 0
                and best == self._entities.number(base_entity)
                and base_entity not in dead
            ):
                continue
            if base_entity >= 0:
                hidden_entities.append(base_entity)
            if best >= 0:
                added_entities.append(best)
            if self._settings.link_text:
                sentences = sources.starts.sentences_with(sources.sentences, name)
                affected_rows.append(self._two.base.sentence_passage[sentences].astype(np.int64))
        added = NameTrie.of(
            [(self._keys[entity], entity) for entity in sorted(added_entities)], words
        )
        self._words = words
        self._trie = OverlaidTrie(words, trie.without(hidden_entities), added, self._entities)
        return affected_rows

    def _with_changed_phrases(self) -> Int64:
        """Rows of the base with noun phrases that become entities or cease to be."""
        codes = [
            self._sources.phrases.of(key)
            for key, name in self._names.items()
            if name.was_phrase != name.is_phrase
        ]
        is_changed = np.zeros(len(self._sources.phrases.entity), bool)
        is_changed[[code for name_codes in codes for code in name_codes]] = True
        base = self._two.base
        if not is_changed.any():
            return _NONE
        sentences = base.phrases.sentence[is_changed[base.phrases.code]]
        return base.sentence_passage[sentences].astype(np.int64)

    def _of_base(self, rows: Int64) -> _Part:
        two, sources, numbers = self._two, self._sources, self._nodes.numbers
        base = two.base
        sentences, lengths = _sentences_of(base, rows)
        passages = two.passages.numbers(rows).astype(np.int64)
        words = SentenceWords(np.empty(0, np.int32), np.empty(0, np.int32))
        if self._settings.link_text:
            every = sources.sentences
            ends, own = sources.starts.ends[sentences], every.lengths[sentences]
            words = SentenceWords(every.packed[ranges(ends - own, ends)], own)
        number = two.sentences.numbers(sentences).astype(np.int64)
        place, code = mentions_in(base.entities, sentences)
        entity = sources.surfaces.entity[code]
        known = entity >= 0
        tagged = np.stack([number[place[known]], numbers(entity[known])])
        found = np.empty((2, 0), np.int64)
        if self._changes.with_phrases:
            place, code = mentions_in(base.phrases, sentences)
            found = np.stack([number[place], self._phrase_entities[code]])
        titles = np.repeat(passages, sources.titles.lengths(rows)), numbers(sources.titles.of(rows))
        return _Part(
            passages,
            number,
            np.repeat(passages, lengths),
            words,
            tagged,
            found[:, found[1] >= 0],
            np.stack(titles),
        )

    @cached_property
    def _phrase_entities(self) -> Int64:
        """(m,) entity of each noun phrase of the base, -1 if it is none."""
        phrases = self._sources.phrases
        entity = phrases.entity.astype(np.int64)
        known = entity >= 0
        entity[known] = self._nodes.numbers(entity[known])
        for key, name in self._names.items():
            for code in phrases.of(key):
                entity[code] = self._numbers[key] if name.is_phrase else -1
        return entity

    def _of_added(self) -> _Part:
        two, added = self._two, self._two.added
        passages, number = two.passages.added, two.sentences.added
        words = SentenceWords.of((), self._words)
        if self._settings.link_text:
            texts = chain.from_iterable(added.iter_sentence_texts())
            words = SentenceWords.of(texts, self._words)
        surface = np.array(
            [self._numbers.get(key, -1) for key in self._changes.surface_keys], np.int64
        )
        keys = [entity_key(phrase) for phrase in added.phrases.names if self._changes.with_phrases]
        phrase = np.full(len(added.phrases.names), -1, np.int64)
        for code, key in enumerate(keys):
            if key in self._names and self._names[key].is_phrase:
                phrase[code] = self._numbers[key]
        titles = [
            (row, self._numbers[key])
            for row, title in zip(passages.tolist(), added.titles, strict=True)
            for key in title_keys(title)
            if self._settings.title_entities
        ]

        def entries(mentions: AnyMentions, entity: Int64) -> Int64:
            found = np.stack([number[mentions.sentence], entity[mentions.code]])
            return found[:, found[1] >= 0]

        return _Part(
            passages,
            number,
            passages[added.sentence_passage],
            words,
            entries(added.entities, surface),
            entries(added.phrases, phrase),
            np.array(titles, np.int64).reshape(-1, 2).T,
        )

    def _tied(self, parts: Sequence[_Part]) -> "_Ties":
        """The mentions in some passages, as `assemble` computes them."""
        size = len(self._nodes)
        mentions: list[Int64] = []
        counts: list[Int64] = []
        for part in parts:
            place = np.searchsorted(part.passages, part.titles[0])
            lengths = np.bincount(place, minlength=len(part.passages))
            own = np.searchsorted(part.passages, part.owner)
            titled = PlainLists.from_lengths(lengths, part.titles[1]).of(own)
            in_title = np.stack([np.repeat(part.sentences, lengths[own]), titled])
            where, linked = self._trie.find_all(part.words)
            links = np.stack([part.sentences[where], linked])[:, self._are_linked(linked)]
            tagged = distinct(_pairs(np.concatenate([part.tagged, in_title], axis=1), size))
            found = distinct(_pairs(np.concatenate([part.found, links], axis=1), size))
            found = without(found, tagged)
            mentions += [tagged, found]
            for sentence, entity in (part.tagged, np.divmod(found, size)):
                owner = part.owner[np.searchsorted(part.sentences, sentence)]
                counts.append(owner * size + entity)
            counts.append(_pairs(part.titles, size))
            edge, end = np.nonzero(np.isin(self._edges.ends, part.passages))
            ends = self._edges.ends[edge, end].astype(np.int64)
            counts.append(ends * size + len(self._keys) + edge)
        pairs, times = np.unique(np.concatenate(counts), return_counts=True)
        sentences = np.sort(np.concatenate([part.sentences for part in parts]))
        passages = np.sort(np.concatenate([part.passages for part in parts]))
        sentence, entity = np.divmod(np.sort(np.concatenate(mentions)), size)
        row, node = np.divmod(pairs, size)
        return _Ties(sentences, sentence, entity, passages, row, node, times.astype(np.float32))

    def _are_linked(self, entity: Int32) -> Mask:
        """Mask of the found entities whose name is linked in running text; see `says_enough`."""
        is_new, rows = self._entities.split(entity)
        are_linked = np.empty(len(entity), bool)
        base = self._sources.keys.array.take(pa.array(rows[~is_new]))
        enough = pc.greater_equal(pc.utf8_length(base), MIN_SINGLE_WORD)
        are_linked[~is_new] = pc.or_(enough, pc.match_substring(base, " ")).to_numpy(
            zero_copy_only=False
        )
        are_linked[is_new] = [says_enough(self._keys[number]) for number in entity[is_new].tolist()]
        return are_linked

    def _touched(self, taken: Mask, node: Int64) -> Int64:
        """Entities and edges of the analysed passages, before or after the change."""
        graph, rows = self._graph, np.flatnonzero(taken)
        sentences, _ = _sentences_of(self._two.base, rows)
        edges = np.flatnonzero(taken[graph.chunk_edges].any(axis=1))
        known = [graph.mentions.entities.of(sentences), self._sources.titles.of(rows)]
        old = distinct(np.concatenate([*known, len(graph) + edges]).astype(np.int64))
        left = self._nodes.numbers(without(old, self._nodes.gone))
        return distinct(np.concatenate([left, node]))

    def _phrases_only(self) -> Mask:
        was_phrase = self._graph.is_phrase
        is_phrase = self._entities.lay(was_phrase, np.zeros(len(self._entities.added), bool))
        for key, number in self._numbers.items():
            is_phrase[number] = not self._names[key].is_named
        return is_phrase

    def _mentions(self, ties: "_Ties", taken: Mask, touched: Int64) -> MentionGraph:
        two, known = self._two, self._graph.mentions
        place = np.searchsorted(ties.sentences, ties.sentence)
        lengths = np.bincount(place, minlength=len(ties.sentences))
        own = PlainLists.from_lengths(lengths, ties.entity.astype(np.int32))
        by_entity = np.lexsort([ties.sentence, ties.entity])
        return MentionGraph(
            patched_lists(
                known.sentences,
                self._entities,
                two.sentences,
                touched[touched < len(self._keys)],
                lost=lambda sentences: taken[two.base.sentence_passage[sentences]],
                new=(ties.entity[by_entity], ties.sentence[by_entity], None),
            ),
            PatchedLists(known.entities, two.sentences, self._nodes, ties.sentences, own),
        )

    def _written(self, entity: int) -> str:
        """The name of an entity, by the rules of `DisplayNames`."""
        two, key = self._two, self._keys[entity]
        if key not in self._names:
            return self._graph.display_names.of(self._entities.place(entity)[1])
        spellings, surfaces = self._sources.surfaces, two.base.entities.names
        base_counts = {surfaces[code]: int(spellings.frequency[code]) for code in spellings.of(key)}
        times = Counter(base_counts)
        times.update(self._names[key].mentions)
        if best := max(times.values(), default=0):
            surface = min(spelling for spelling, count in times.items() if count == best)
            return surface.strip()
        for passage in self._titles.one(entity)[:1].tolist():
            is_added, row = two.passages.place(passage)
            names = title_names((two.added if is_added else two.base).titles[row])
            return next(name for name in reversed(names) if entity_key(name) == key)
        return key

    def _titled(self) -> PatchedLists:
        two, numbers = self._two, self._numbers
        some = [(numbers[key], self._names[key]) for key in numbers]
        some = [(e, name) for e, name in some if name.lost or name.titled or name.entity < 0]
        pairs = sorted((entity, row) for entity, name in some for row in name.titled)
        new = np.array(pairs, np.int64).reshape(-1, 2).T
        gone = np.zeros(len(two.base), bool)
        gone[two.passages.gone] = True
        patched = np.sort(np.array([entity for entity, _ in some], np.int64))
        known = self._graph.titled
        return patched_lists(
            known, self._entities, two.passages, patched, lost=gone.__getitem__, new=(*new, None)
        )

    def _walk(
        self,
        walk: LocalWalk,
        passages: PatchedLists,
        totals: Float64,
        ties: "_Ties",
        touched: Int64,
    ) -> LocalWalk:
        """The new walk, with weights and shares as in `share_of_mentions` and `local_walk`.

        It shares the buffers of the walk before it.
        """
        two, own = self._two, passages.patch
        weights = own.values * reciprocal(totals[own.items])
        owner = np.repeat(np.arange(len(touched)), own.sizes)
        weights *= reciprocal(sums(owner, weights, len(touched)))[owner]
        shares = PlainLists(own.starts, own.items, weights)
        onto = PatchedLists(walk.entities.lists, self._nodes, two.passages, touched, shares)
        beside = self._tied([self._of_base(self._beside(passages, touched, ties.passages))])
        changed = np.concatenate([ties.passages, beside.passages])
        order = np.argsort(changed)
        changed = changed[order]
        row, node, times = (
            np.concatenate([getattr(each, name) for each in (ties, beside)])
            for name in ("row", "node", "times")
        )
        by_passage = np.lexsort([node, row])
        row, node, times = row[by_passage], node[by_passage], times[by_passage]
        place = np.searchsorted(changed, row)
        weights = times * reciprocal(totals[row])
        whole = reciprocal(sums(place, weights, len(changed)))
        leads_on = passages.lengths(node) > 1
        edges = PlainLists.from_lengths(
            np.bincount(place[leads_on], minlength=len(changed)),
            node[leads_on].astype(np.int32),
            (weights * whole[place])[leads_on],
        )
        returned = two.passages.lay(walk.returned, np.zeros(len(two.added)))
        returned[changed] = sums(place[~leads_on], weights[~leads_on], len(changed)) * whole
        back = PatchedLists(walk.passages.lists, two.passages, self._nodes, changed, edges)
        return replace(walk, passages=Edges(back), entities=Edges(onto), returned=returned)

    def _beside(self, passages: PatchedLists, touched: Int64, own: Int64) -> Int64:
        """Rows of the base with an entity that becomes or ceases to be shared by passages."""
        is_new, rows = self._nodes.split(touched)
        was_shared = np.zeros(len(touched), bool)
        was_shared[~is_new] = self._graph.passages.lengths(rows[~is_new]) > 1
        changed = was_shared != (passages.patch.sizes > 1)
        found = without(distinct(passages.of(touched[changed]).astype(np.int64)), own)
        return self._two.passages.split(found)[1]


@dataclass(frozen=True, slots=True)
class _Ties:
    """The mentions in some passages; everything is in new numbers.

    Attributes:
        sentences: The passages' sentences, ascending.
        sentence, entity: Sentence and entity of each mention, ascending by both.
        passages: The passages, ascending.
        row, node, times: Passage, node (entity or edge between chunks) and count of each pair,
            ascending by passage and node.
    """

    sentences: Int64
    sentence: Int64
    entity: Int64
    passages: Int64
    row: Int64
    node: Int64
    times: Float32


def _sentences_of(corpus: Corpus, rows: Int64) -> tuple[Int64, Int64]:
    """Sentences of some passages, end to end, and the number of each passage's sentences."""
    owner = corpus.sentence_passage
    first, last = (np.searchsorted(owner, rows.astype(owner.dtype), s) for s in ("left", "right"))
    return ranges(first, last), last - first


def _pairs(entries: Int64, size: int) -> Int64:
    """Each pair as one number."""
    pairs: Int64 = entries[0] * size + entries[1]
    return pairs
