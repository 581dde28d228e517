"""A corpus to its Tri-Graph: passages, sentences and entities, and who mentions whom.

Everything here follows from one version's content. Nothing depends on the order of the corpus
file: entities are numbered by their key, passages by their id, and two passages are neighbours
only where they are consecutive chunks of one document.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from backends.numerics import distinct, without
from backends.store.derived import Arrays, pack_strings, unpack_strings
from backends.store.snapshot import Corpus
from backends.trigraph.bridging import MentionGraph
from backends.trigraph.linking import (
    DisplayNames,
    NameTrie,
    NameWords,
    NormalisedCorpus,
    name_words,
    normalise,
)
from backends.types import Int32, Int64, Mask
from backends.words import Strings, ascending, places

if TYPE_CHECKING:
    from scipy import sparse

# A noun phrase ties passages together when it recurs, and says nothing when it is everywhere.
MIN_PHRASE_PASSAGES = 2
MAX_PHRASE_PASSAGES = 20
MAX_PHRASE_SHARE = 0.02
# Named entities to noun phrases below which "auto" takes the noun phrases in.
FEW_ENTITIES = 0.25
_SPARSE = ("data", "indices", "indptr")
_MENTIONS = ("sentence_starts", "sentences", "entity_starts", "entities")


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """What counts as an entity, and as mentioning one.

    Attributes:
        title_entities: A passage's title is an entity of the passage and of each of its sentences.
        link_text: A sentence mentions every known entity whose name stands in it word for word,
            tagged or not.
        noun_phrases: Whether noun phrases that recur are entities as well: "on", "off", or "auto",
            which means on in a corpus with fewer than one named entity to four noun phrases
            (technical texts have one to ten, encyclopaedic ones two to three).
    """

    title_entities: bool = True
    link_text: bool = True
    noun_phrases: Literal["auto", "on", "off"] = "auto"


@dataclass(frozen=True)
class TriGraph:
    """n passages, s sentences, e entities and j edges between consecutive chunks.

    Attributes:
        keys: e entity keys, ascending.
        is_phrase: (e,) whether an entity is known as a noun phrase only.
        counts: (n, e + j) CSC float32, C: how often passage i mentions entity j. A chunk edge
            counts as one mention in both of its chunks, so walks may cross from chunk to chunk.
        mentions: M: which sentence mentions which entity.
        titled: (e, n) CSR bool: passages whose title an entity is.
        name_words: Their names in words, for the version after.
        normalised: What all this was made from, for the version after.
    """

    keys: Strings
    is_phrase: Mask
    counts: "sparse.csc_array"
    mentions: MentionGraph
    titled: "sparse.csr_array"
    names: NameTrie
    display_names: DisplayNames
    name_words: NameWords
    normalised: NormalisedCorpus

    def __len__(self) -> int:
        """How many entities there are."""
        return len(self.keys)

    @property
    def passages_of(self) -> Int32:
        """(e,) number of passages that mention an entity."""
        return np.diff(self.counts.indptr[: len(self) + 1])

    def to_arrays(self) -> Arrays:
        """All of it, for `from_arrays`."""
        arrays: dict[str, NDArray[Any]] = {"is_phrase": self.is_phrase}
        for name, matrix in (("counts", self.counts), ("titled", self.titled)):
            arrays |= {f"{name}.{part}": getattr(matrix, part) for part in _SPARSE}
            arrays[f"{name}.shape"] = np.array(matrix.shape)
        arrays |= {f"mentions.{name}": getattr(self.mentions, name) for name in _MENTIONS}
        parts = (self.names, self.display_names, self.name_words, self.normalised)
        for part in parts:
            arrays |= part.to_arrays()
        return {**pack_strings("keys", self.keys), **arrays}

    @classmethod
    def from_arrays(cls, corpus: Corpus, arrays: Arrays) -> "TriGraph":
        """The graph that gave these arrays, of the same corpus."""
        from scipy import sparse  # noqa: PLC0415 - see `lexical.bm25`

        keys, normalised = unpack_strings("keys", arrays), NormalisedCorpus.from_arrays(arrays)

        def parts(name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
            data, indices, starts = (arrays[f"{name}.{part}"] for part in _SPARSE)
            return data, indices, starts

        return cls(
            keys=keys,
            is_phrase=arrays["is_phrase"],
            counts=sparse.csc_array(parts("counts"), shape=arrays["counts.shape"].tolist()),
            mentions=MentionGraph(*(arrays[f"mentions.{name}"] for name in _MENTIONS)),
            titled=sparse.csr_array(parts("titled"), shape=arrays["titled.shape"].tolist()),
            names=NameTrie.from_arrays(normalised.words, arrays),
            display_names=DisplayNames.from_arrays(corpus, keys, arrays),
            name_words=NameWords.from_arrays(arrays),
            normalised=normalised,
        )


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Entity numbers of what the corpus calls things; -1 where a name is no entity."""

    keys: Strings
    surface: Int64  # of each named-entity surface
    phrase: Int64  # of each noun phrase
    title_passage: Int64  # passage of each title
    title_entity: Int64  # its entity


def assemble(
    corpus: Corpus, settings: AssemblySettings, before: tuple[Corpus, TriGraph] | None = None
) -> TriGraph:
    """Build the Tri-Graph of a corpus.

    Args:
        before: The version that this one was read after, and its graph with the same settings. The
            graph is the same without it, but takes longer.
    """
    if corpus.origin is None:
        before = None
    wanted = _wants_phrases(corpus, settings)
    normalised = normalise(
        corpus,
        sentences=settings.link_text,
        phrases=wanted,
        before=(before[0], before[1].normalised) if before else None,
    )
    numbers = _number(corpus, settings, normalised)
    # Words may have been numbered anew, and a name means what its words mean.
    same = before is not None and before[1].normalised.words is normalised.words
    rows = name_words(
        numbers.keys,
        normalised.words,
        (before[1].keys, before[1].name_words) if before and same else None,
    )
    size = len(numbers.keys)
    named = np.zeros(size, bool)
    named[numbers.surface[numbers.surface >= 0]] = True
    named[numbers.title_entity] = True
    trie = NameTrie(normalised.words, rows, np.flatnonzero(named & rows.informative))
    tagged = _entries(corpus.entities.sentence, numbers.surface[corpus.entities.code])
    titled = _title_entries(corpus, numbers)
    found = _entries(corpus.phrases.sentence, numbers.phrase[corpus.phrases.code])
    if settings.link_text:
        found = np.concatenate([found, _link(normalised, trie, rows)], axis=1)
    tagged_pairs = _pairs(np.concatenate([tagged, titled], axis=1), size)
    found_pairs = without(_pairs(found, size), tagged_pairs)
    mentions = _matrix(
        np.concatenate([tagged_pairs, found_pairs]), len(corpus.sentence_passage), size
    )
    counts = _counts(corpus, numbers, tagged, found_pairs, size)
    return TriGraph(
        keys=numbers.keys,
        is_phrase=~named,
        counts=_with_chunk_edges(corpus, counts),
        mentions=MentionGraph.of(mentions),
        titled=_titled(corpus, numbers, size),
        names=trie,
        display_names=DisplayNames(
            corpus,
            numbers.keys,
            numbers.surface,
            np.stack([numbers.title_passage, numbers.title_entity]),
        ),
        name_words=rows,
        normalised=normalised,
    )


def _number(corpus: Corpus, settings: AssemblySettings, normalised: NormalisedCorpus) -> _Numbers:
    phrases = normalised.phrases
    kept = Strings(())
    if phrases:
        kept = phrases.where(_recurring(corpus))
    title_passage: list[int] = []
    titles: list[str] = []
    if settings.title_entities:
        for passage, keys_of in enumerate(normalised.titles):
            for key in keys_of:
                title_passage.append(passage)
                titles.append(key)
    named = Strings(titles)
    keys = ascending(normalised.surfaces, named, kept)
    phrase = np.full(len(corpus.phrases.names), -1, np.int64)
    if phrases:
        phrase[:] = np.where(places(phrases, kept) >= 0, places(phrases, keys), -1)
    return _Numbers(
        keys,
        places(normalised.surfaces, keys),
        phrase,
        np.array(title_passage, np.int64),
        places(named, keys),
    )


def _wants_phrases(corpus: Corpus, settings: AssemblySettings) -> bool:
    if settings.noun_phrases == "auto":
        return len(corpus.entities.code) < FEW_ENTITIES * len(corpus.phrases.code)
    return settings.noun_phrases == "on"


def _recurring(corpus: Corpus) -> Mask:
    """Which noun phrases occur in more than one passage, and not in too many."""
    passages = corpus.sentence_passage[corpus.phrases.sentence].astype(np.int64)
    pairs = distinct(corpus.phrases.code.astype(np.int64) * max(len(corpus), 1) + passages)
    frequency = np.bincount(pairs // max(len(corpus), 1), minlength=len(corpus.phrases.names))
    most = max(MAX_PHRASE_PASSAGES, MAX_PHRASE_SHARE * len(corpus))
    return (frequency >= MIN_PHRASE_PASSAGES) & (frequency <= most)


def _entries(sentence: Int32, entity: Int64) -> Int64:
    """(2, m) sentence and entity of the mentions that are of an entity."""
    known = entity >= 0
    return np.stack([sentence[known].astype(np.int64), entity[known]])


def _title_entries(corpus: Corpus, numbers: _Numbers) -> Int64:
    """(2, m) every sentence mentions its passage's title."""
    first = np.searchsorted(corpus.sentence_passage, numbers.title_passage)
    last = np.searchsorted(corpus.sentence_passage, numbers.title_passage, side="right")
    length = last - first
    start = np.repeat(first - np.cumsum(length) + length, length)
    return np.stack(
        [start + np.arange(len(start), dtype=np.int64), np.repeat(numbers.title_entity, length)]
    )


def _link(normalised: NormalisedCorpus, trie: NameTrie, rows: NameWords) -> Int64:
    """(2, m) names that stand in a sentence word for word, tagged or not."""
    sentence, entity = trie.find_all(normalised.sentences)
    linked = rows.linked[entity]
    return np.stack([sentence[linked].astype(np.int64), entity[linked].astype(np.int64)])


def _pairs(entries: Int64, size: int) -> Int64:
    """Distinct (row, entity) pairs as one ascending number each."""
    return distinct(entries[0] * size + entries[1])


def _matrix(pairs: Int64, rows: int, size: int) -> "sparse.csr_array":
    from scipy import sparse  # noqa: PLC0415 - see `lexical.bm25`

    where = ((pairs // max(size, 1)).astype(np.int32), (pairs % max(size, 1)).astype(np.int32))
    return sparse.csr_array((np.ones(len(pairs), np.float32), where), shape=(rows, size))


def _counts(
    corpus: Corpus, numbers: _Numbers, tagged: Int64, found_pairs: Int64, size: int
) -> "sparse.csc_array":
    """C: tagged mentions, the title once, and one for each sentence in which a name was found."""
    from scipy import sparse  # noqa: PLC0415 - see `lexical.bm25`

    owner = corpus.sentence_passage.astype(np.int64)
    rows = [owner[tagged[0]], numbers.title_passage, owner[found_pairs // max(size, 1)]]
    columns = [tagged[1], numbers.title_entity, found_pairs % max(size, 1)]
    where = (np.concatenate(rows).astype(np.int32), np.concatenate(columns).astype(np.int32))
    ones = np.ones(len(where[0]), np.float32)
    counts = sparse.csc_array((ones, where), shape=(len(corpus), size))
    counts.sum_duplicates()
    return counts


def _with_chunk_edges(corpus: Corpus, counts: "sparse.csc_array") -> "sparse.csc_array":
    """A further column for each pair of consecutive chunks of one document."""
    from scipy import sparse  # noqa: PLC0415 - see `lexical.bm25`

    if not corpus.chunks.any():
        return counts
    order = sorted(range(len(corpus)), key=lambda i: (corpus.documents[i], corpus.chunks[i]))
    pairs = [
        (a, b)
        for a, b in pairwise(order)
        if corpus.documents[a] == corpus.documents[b] and corpus.chunks[b] == corpus.chunks[a] + 1
    ]
    rows = np.array(pairs, np.int32).reshape(-1, 2)
    columns = np.repeat(np.arange(len(rows), dtype=np.int32), 2)
    ones = np.ones(len(columns), np.float32)
    chunk_edges = sparse.csc_array((ones, (rows.ravel(), columns)), shape=(len(corpus), len(rows)))
    return sparse.csc_array(sparse.hstack([counts, chunk_edges], format="csc"))


def _titled(corpus: Corpus, numbers: _Numbers, size: int) -> "sparse.csr_array":
    from scipy import sparse  # noqa: PLC0415 - see `lexical.bm25`

    ones = np.ones(len(numbers.title_entity), bool)
    where = (numbers.title_entity.astype(np.int32), numbers.title_passage.astype(np.int32))
    titled = sparse.csr_array((ones, where), shape=(size, len(corpus)))
    titled.sum_duplicates()
    titled.sort_indices()
    return titled
