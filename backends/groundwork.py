"""What a Tri-Graph is assembled from: every name under its key, every sentence in words.

This is where assembling spends its time, one string after the other. All of it depends on single
names, titles and sentences, so a version takes over from the one before what both have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from backends.corpus import Corpus
from backends.linking import entity_key, title_keys
from backends.names import Names
from backends.ragged import ragged
from backends.types import Int64
from backends.words import SentenceWords, Words


@dataclass(frozen=True, slots=True)
class Groundwork:
    """Made of one version of a corpus.

    Attributes:
        words: The numbers of words, shared with versions before and after.
        sentences: s sentences in words; none where names in running text do not count.
        surfaces: The key of each named-entity surface.
        phrases: The key of each noun phrase; empty where they do not count.
        titles: The keys of each passage's title.
    """

    words: Words
    sentences: SentenceWords
    surfaces: Sequence[str]
    phrases: Sequence[str]
    titles: Sequence[tuple[str, ...]]


def lay(
    corpus: Corpus,
    *,
    sentences: bool,
    phrases: bool,
    before: tuple[Corpus, Groundwork] | None = None,
) -> Groundwork:
    """Make the groundwork of a corpus.

    Args:
        corpus: One version.
        sentences: Whether names in running text count.
        phrases: Whether noun phrases do.
        before: The version that this one was read after.
    """
    if corpus.origin is None or (before and before[1].sentences.are_worn(before[1].words)):
        before = None
    old, ground = before or (None, None)
    words = Words() if ground is None else ground.words
    surfaces = _keys(
        corpus.entities.names,
        old.entities.names if old else (),
        ground.surfaces if ground else (),
    )
    noun_phrases = _keys(
        corpus.phrases.names if phrases else (),
        old.phrases.names if old and ground and ground.phrases else (),
        ground.phrases if ground else (),
    )
    return Groundwork(
        words,
        _sentences(corpus, words, before) if sentences else SentenceWords.of((), words),
        surfaces,
        noun_phrases,
        _titles(corpus, before),
    )


def name_rows(
    keys: Sequence[str], words: Words, before: tuple[dict[str, int], Names] | None
) -> Names:
    """The words of each entity's name.

    Args:
        keys: Of the entities.
        words: The numbers of words.
        before: Key -> entity of the version before, and its names.
    """
    if before is None:
        return Names.of(keys, words)
    index, names = before
    source = np.array([index.get(key, -1) for key in keys], np.int64)
    new = np.flatnonzero(source < 0)
    source[new] = len(index) + np.arange(len(new), dtype=np.int64)
    return names.joined(Names.of((keys[entity] for entity in new.tolist()), words), source)


def _keys(names: Sequence[str], known: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The key of each name, some of which are known."""
    memo = dict(zip(known, keys, strict=True))
    return [memo[name] if name in memo else entity_key(name) for name in names]


def _titles(corpus: Corpus, before: tuple[Corpus, Groundwork] | None) -> list[tuple[str, ...]]:
    if before is None or corpus.origin is None:
        return [title_keys(title) for title in corpus.titles]
    known = before[1].titles
    return [
        known[origin] if origin >= 0 else title_keys(title)
        for title, origin in zip(corpus.titles, corpus.origin.tolist(), strict=True)
    ]


def _sentences(
    corpus: Corpus, words: Words, before: tuple[Corpus, Groundwork] | None
) -> SentenceWords:
    texts = chain.from_iterable(corpus.iter_sentence_texts(corpus.changed))
    read = SentenceWords.of(texts, words)
    if before is None or corpus.origin is None:
        return read
    old, ground = before
    counts = [_per_passage(old), _per_passage(corpus)[corpus.changed]]
    return ground.sentences.joined(
        read, ragged(np.concatenate(counts), corpus.places_after(len(old)))
    )


def _per_passage(corpus: Corpus) -> Int64:
    """(n,) sentences of each passage."""
    return np.bincount(corpus.sentence_passage, minlength=len(corpus)).astype(np.int64)
