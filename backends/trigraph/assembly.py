"""Assembles the Tri-Graph of a corpus."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wye.backends.numerics import distinct, without
from wye.backends.store.corpus import Corpus
from wye.backends.strings import FurtherWords, Strings, Words, ascending, find_all
from wye.backends.trigraph.graph import MentionGraph, PlainLists, TriGraph
from wye.backends.trigraph.names import (
    DisplayNames,
    NameTrie,
    NameWords,
    NormalisedCorpus,
    normalise,
)
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Int32, Int64, Mask

# A noun phrase links passages if it recurs, and says nothing if it is everywhere.
MIN_PHRASE_PASSAGES = 2
MAX_PHRASE_PASSAGES = 20
MAX_PHRASE_SHARE = 0.02

# "auto" includes noun phrases below this ratio of named entities to noun phrases.
FEW_ENTITIES = 0.25


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Entity numbers of the names in a corpus; -1 for a name that is no entity."""

    keys: Strings
    surface: Int64  # of each named-entity surface
    phrase: Int64  # of each noun phrase
    title_passage: Int64  # passage of each title
    title_entity: Int64  # its entity


def assemble(
    corpus: Corpus,
    settings: AssemblySettings,
    room: Path | None = None,
    *,
    base: TriGraph | None = None,
) -> TriGraph:
    """Build the Tri-Graph of a corpus.

    Args:
        room: Folder for the tokenised sentences; None to hold them in memory.
        base: A graph of other passages, whose names and recurring noun phrases count here too.
    """
    with_phrases = wants_phrases(settings, corpus)
    words = Words() if base is None else FurtherWords(base.names.words)
    normalised = normalise(
        corpus, words, sentences=settings.link_text, phrases=with_phrases, room=room
    )
    recurs = _recurring(corpus) if with_phrases else np.empty(0, bool)
    names = Strings(())
    if base is not None:
        known = base.names.somewhere_in(normalised.sentences)
        names = Strings(map(base.keys.__getitem__, known.tolist()))
        recurs |= np.fromiter((base.keys.find(key) >= 0 for key in normalised.phrases), bool)
    numbers = _number(corpus, settings, normalised, recurs, names)
    rows = NameWords.of(numbers.keys, normalised.words)
    size = len(numbers.keys)
    named = np.zeros(size, bool)
    named[numbers.surface[numbers.surface >= 0]] = True
    named[numbers.title_entity] = True
    named[find_all(names, numbers.keys)] = True
    trie = NameTrie(normalised.words, rows, np.flatnonzero(named & rows.informative))
    tagged = _entries(corpus.entities.sentence, numbers.surface[corpus.entities.code])
    titled = np.concatenate([tagged, _title_entries(corpus, numbers)], axis=1)
    tagged_pairs = _pairs(titled, size)
    del titled  # in a large corpus each of these takes a tenth of a gigabyte
    untagged = _entries(corpus.phrases.sentence, numbers.phrase[corpus.phrases.code])
    if settings.link_text:
        untagged = np.concatenate([untagged, _link(normalised, trie, rows)], axis=1)
    untagged_pairs = without(_pairs(untagged, size), tagged_pairs)
    del untagged
    pairs = np.sort(np.concatenate([tagged_pairs, untagged_pairs]), kind="stable")
    sentence, entity = np.divmod(pairs, max(size, 1))
    del pairs, tagged_pairs, untagged_pairs
    titled_pairs = distinct(numbers.title_entity * max(len(corpus), 1) + numbers.title_passage)
    title_entity, title_passage = np.divmod(titled_pairs, max(len(corpus), 1))
    mentioned = entity * max(len(corpus), 1) + corpus.sentence_passage[sentence]
    passages = distinct(np.concatenate([mentioned, titled_pairs])) // max(len(corpus), 1)
    titles = np.bincount(numbers.title_passage, minlength=len(corpus))
    return TriGraph(
        keys=numbers.keys,
        is_phrase=~named,
        degrees=np.bincount(passages, minlength=size).astype(np.int32),
        mentions=MentionGraph.of(sentence, entity, (len(corpus.sentence_passage), size)),
        titled=PlainLists.from_owners(title_entity, title_passage, size),
        titles=PlainLists.from_lengths(titles, numbers.title_entity.astype(np.int32)),
        owners=corpus.sentence_passage,
        names=trie,
        display_names=DisplayNames(
            corpus,
            numbers.keys,
            numbers.surface,
            np.stack([numbers.title_passage, numbers.title_entity]),
        ),
    )


def _number(
    corpus: Corpus,
    settings: AssemblySettings,
    normalised: NormalisedCorpus,
    recurs: Mask,
    names: Strings,
) -> _Numbers:
    phrases = normalised.phrases
    recurring_phrases = phrases.where(recurs) if phrases else Strings(())
    title_passage: list[int] = []
    titles: list[str] = []
    if settings.title_entities:
        for passage, keys_of in enumerate(normalised.titles):
            for key in keys_of:
                title_passage.append(passage)
                titles.append(key)
    named = Strings(titles)
    keys = ascending(normalised.surfaces, named, recurring_phrases, names)
    phrase = np.full(len(corpus.phrases.names), -1, np.int64)
    if phrases:
        phrase[:] = np.where(find_all(phrases, recurring_phrases) >= 0, find_all(phrases, keys), -1)
    return _Numbers(
        keys,
        find_all(normalised.surfaces, keys),
        phrase,
        np.array(title_passage, np.int64),
        find_all(named, keys),
    )


def wants_phrases(settings: AssemblySettings, corpus: Corpus) -> bool:
    """Whether noun phrases are entities of a corpus."""
    if settings.noun_phrases == "auto":
        return len(corpus.entities.code) < FEW_ENTITIES * len(corpus.phrases.code)
    return settings.noun_phrases == "on"


def _recurring(corpus: Corpus) -> Mask:
    """Mask of the noun phrases that occur in more than one passage, and not in too many."""
    passages = corpus.sentence_passage[corpus.phrases.sentence].astype(np.int64)
    pairs = distinct(corpus.phrases.code.astype(np.int64) * max(len(corpus), 1) + passages)
    frequency = np.bincount(pairs // max(len(corpus), 1), minlength=len(corpus.phrases.names))
    most = max(MAX_PHRASE_PASSAGES, MAX_PHRASE_SHARE * len(corpus))
    recurs: Mask = (frequency >= MIN_PHRASE_PASSAGES) & (frequency <= most)
    return recurs


def _entries(sentence: Int32, entity: Int64) -> Int64:
    """(2, m) sentence and entity of the mentions whose name is an entity."""
    is_entity = entity >= 0
    return np.stack([sentence[is_entity].astype(np.int64), entity[is_entity]])


def _title_entries(corpus: Corpus, numbers: _Numbers) -> Int64:
    """(2, m) sentence and entity for titles: every sentence mentions its passage's title."""
    first = np.searchsorted(corpus.sentence_passage, numbers.title_passage)
    last = np.searchsorted(corpus.sentence_passage, numbers.title_passage, side="right")
    length = last - first
    start = np.repeat(first - np.cumsum(length) + length, length)
    return np.stack(
        [start + np.arange(len(start), dtype=np.int64), np.repeat(numbers.title_entity, length)]
    )


def _link(normalised: NormalisedCorpus, trie: NameTrie, rows: NameWords) -> Int64:
    """(2, m) sentence and entity of names that occur word for word, tagged or not."""
    sentence, entity = trie.find_all(normalised.sentences)
    linked = rows.linked[entity]
    return np.stack([sentence[linked].astype(np.int64), entity[linked].astype(np.int64)])


def _pairs(entries: Int64, size: int) -> Int64:
    """Distinct (sentence, entity) pairs, ascending, each as the number sentence * size + entity."""
    return distinct(entries[0] * size + entries[1])
