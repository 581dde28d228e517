"""A graph updated by a few passages: equal to one assembled from all, at the cost of the few.

Nothing of the base is copied. The changes follow from the names that come and go with the passages:
a key without a name left is no longer an entity, a new key becomes one, and both change which names
are found in the sentences of the base. The affected passages are analysed again, and the lists of
the entities that they mention, before or after, replace those of the base. `assemble` of all
passages is the slow reference.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.layers import Layers
from wye.backends.numerics import distinct, ranges, without
from wye.backends.store.corpus import AnyMentions, Corpus, TwoCorpora
from wye.backends.strings import FurtherWords, SentenceWords
from wye.backends.text import entity_key, title_keys, title_names
from wye.backends.trigraph.graph import MentionGraph, TriGraph
from wye.backends.trigraph.graph_sources import LayeredKeys
from wye.backends.trigraph.lists import PatchedLists, PlainLists, patched_lists
from wye.backends.trigraph.names import MAX_WORDS, MIN_SINGLE_WORD, NameTrie, NameWords, says_enough
from wye.backends.trigraph.overlay_changes import (
    NameChanges,
    OverlaidNames,
    OverlaidTrie,
    mentions_in,
)
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Int32, Int64, Mask

_NONE = np.empty(0, np.int64)


def overlay(two: TwoCorpora, graph: TriGraph, settings: AssemblySettings) -> TriGraph | None:
    """The graph of two corpora together.

    Args:
        graph: The graph of the base alone, with the same settings.

    Returns:
        None if the change decides anew whether noun phrases are entities: then the graph must be
        assembled from all passages.
    """
    changes = NameChanges(two, graph, settings)
    if not changes.is_alike:
        return None
    return _Overlay(two, graph, settings, changes).laid()


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

    def laid(self) -> TriGraph:
        """The graph of both corpora."""
        two, graph = self._two, self._graph
        self._number()
        changed_rows = [*self._find_names(), self._with_changed_phrases()]
        rows = without(distinct(np.concatenate(changed_rows)), two.passages.gone)
        ties = self._tied([self._of_base(rows), self._of_added()])
        taken = np.zeros(len(two.base), bool)
        taken[two.passages.gone] = taken[rows] = True
        touched = self._touched(taken, ties.entity)
        self._titled = self._with_changed_titles()
        laid = TriGraph(
            keys=self._keys,
            is_phrase=self._phrases_only(),
            degrees=self._entities.lay(graph.degrees, np.zeros(len(self._entities.added), int)),
            mentions=self._mentions(ties, taken, touched),
            titled=self._titled,
            titles=self._titles_of_passages(),
            owners=two.passages.owners(two.base.sentence_passage, two.added.sentence_passage),
            names=self._trie,
            display_names=OverlaidNames(self._keys, self._written),
            own_sources=None,
        )
        laid.degrees[touched] = laid.passages_of(touched)[2]
        return laid

    def _number(self) -> None:
        """Number the entities."""
        names, sources = self._names, self._sources
        names_after = [(key, name) for key, name in names.items() if name.is_there]
        born = sorted(key for key, name in names_after if name.entity < 0)
        dead = [name.entity for name in names.values() if name.entity >= 0 and not name.is_there]
        gone = np.sort(np.array(dead, np.int64))
        before = np.array([sources.keys.place(key) for key in born], np.int64)
        before -= np.searchsorted(gone, before)
        self._entities = Layers(len(sources.keys), gone, before + np.arange(len(before)))
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
        two, sources, numbers = self._two, self._sources, self._entities.numbers
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
        titles_of = self._graph.titles
        titles = np.repeat(passages, titles_of.lengths(rows)), numbers(titles_of.of(rows))
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
        entity[known] = self._entities.numbers(entity[known])
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
        size = len(self._keys)
        mentions: list[Int64] = []
        for part in parts:
            place = np.searchsorted(part.passages, part.titles[0])
            lengths = np.bincount(place, minlength=len(part.passages))
            own = np.searchsorted(part.passages, part.owner)
            titled = PlainLists.from_lengths(lengths, part.titles[1]).of(own)
            in_title = np.stack([np.repeat(part.sentences, lengths[own]), titled])
            where, linked = self._trie.find_all(part.words)
            links = np.stack([part.sentences[where], linked])[:, self._are_linked(linked)]
            entries = [part.tagged, in_title, part.found, links]
            mentions.append(distinct(_pairs(np.concatenate(entries, axis=1), size)))
        sentences = np.sort(np.concatenate([part.sentences for part in parts]))
        return _Ties(sentences, *np.divmod(np.sort(np.concatenate(mentions)), max(size, 1)))

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

    def _touched(self, taken: Mask, entity: Int64) -> Int64:
        """Entities of the analysed passages, before or after the change, or of changed names."""
        graph, rows = self._graph, np.flatnonzero(taken)
        old = distinct(graph.entities_of(rows)[1])
        left = self._entities.numbers(without(old, self._entities.gone))
        named = np.array([*self._numbers.values()], np.int64)
        return distinct(np.concatenate([left, entity, named]))

    def _phrases_only(self) -> Mask:
        was_phrase = self._graph.is_phrase
        is_phrase = self._entities.lay(was_phrase, np.zeros(len(self._entities.added), bool))
        for key, number in self._numbers.items():
            is_phrase[number] = not self._names[key].is_named
        return is_phrase

    def _mentions(self, ties: "_Ties", taken: Mask, touched: Int64) -> MentionGraph:
        two, known = self._two, self._graph.mentions
        position = np.searchsorted(ties.sentences, ties.sentence)
        patch = PlainLists.from_owners(position, ties.entity, len(ties.sentences))
        by_entity = np.lexsort([ties.sentence, ties.entity])
        return MentionGraph(
            patched_lists(
                known.sentences,
                self._entities,
                two.sentences,
                touched,
                lost=lambda sentences: taken[two.base.sentence_passage[sentences]],
                new=(ties.entity[by_entity], ties.sentence[by_entity]),
            ),
            PatchedLists(known.entities, two.sentences, self._entities, ties.sentences, patch),
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
        for passage in self._titled.one(entity)[:1].tolist():
            is_added, row = two.passages.place(passage)
            names = title_names((two.added if is_added else two.base).titles[row])
            return next(name for name in reversed(names) if entity_key(name) == key)
        return key

    def _with_changed_titles(self) -> PatchedLists:
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
            known,
            self._entities,
            two.passages,
            patched,
            lost=gone.__getitem__,
            new=(new[0], new[1]),
        )

    def _titles_of_passages(self) -> PatchedLists:
        """The entities of each passage's title; those of the added passages are the patch."""
        two = self._two
        keys = [
            title_keys(title) if self._settings.title_entities else () for title in two.added.titles
        ]
        entities = [self._numbers[key] for of_title in keys for key in of_title]
        lengths = np.array([*map(len, keys)], np.int64)
        patch = PlainLists.from_lengths(lengths, np.array(entities, np.int32))
        return PatchedLists(
            self._graph.titles, two.passages, self._entities, two.passages.added, patch
        )


@dataclass(frozen=True, slots=True)
class _Ties:
    """The mentions in some passages; everything is in new numbers.

    Attributes:
        sentences: The passages' sentences, ascending.
        sentence, entity: Sentence and entity of each mention, ascending by both.
    """

    sentences: Int64
    sentence: Int64
    entity: Int64


def _sentences_of(corpus: Corpus, rows: Int64) -> tuple[Int64, Int64]:
    """Sentences of some passages, end to end, and the number of each passage's sentences."""
    owner = corpus.sentence_passage
    first, last = (np.searchsorted(owner, rows.astype(owner.dtype), s) for s in ("left", "right"))
    return ranges(first, last), last - first


def _pairs(entries: Int64, size: int) -> Int64:
    """Each pair as one number."""
    pairs: Int64 = entries[0] * size + entries[1]
    return pairs
