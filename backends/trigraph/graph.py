"""The Tri-Graph of a corpus: passages, sentences, entities, and the mentions between them.

It depends on one version's content alone, not on the order of the corpus file: entities are
numbered by key, passages by id, and two passages are neighbours only if they are consecutive chunks
of one document.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from wye.backends.numerics import distinct, sums, without
from wye.backends.store.derived import (
    Arrays,
    pack_strings,
    pack_table,
    unpack_strings,
    unpack_table,
)
from wye.backends.store.snapshot import Corpus
from wye.backends.trigraph.bridging import MentionGraph
from wye.backends.trigraph.linking import (
    DisplayNames,
    NameTrie,
    NameWords,
    NormalisedCorpus,
    normalise,
)
from wye.backends.trigraph.lists import Lists, PlainLists
from wye.backends.trigraph.sources import Keys, NameStarts, Spellings
from wye.backends.types import Float64, Int32, Int64, Mask
from wye.backends.words import SentenceWords, Strings, Words, ascending, places

if TYPE_CHECKING:
    from scipy import sparse

# A noun phrase links passages if it recurs, and says nothing if it is everywhere.
MIN_PHRASE_PASSAGES = 2
MAX_PHRASE_PASSAGES = 20
MAX_PHRASE_SHARE = 0.02
# "auto" includes noun phrases below this ratio of named entities to noun phrases.
FEW_ENTITIES = 0.25


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """What counts as an entity, and as mentioning one.

    Attributes:
        title_entities: A passage's title is an entity of the passage and of each of its sentences.
        link_text: A sentence mentions every known entity whose name it contains word for word,
            tagged or not.
        noun_phrases: Whether recurring noun phrases are also entities: "on", "off", or "auto",
            which is on in a corpus with fewer than one named entity to four noun phrases
            (technical texts have one to ten, encyclopaedic ones two to three).
    """

    title_entities: bool = True
    link_text: bool = True
    noun_phrases: Literal["auto", "on", "off"] = "auto"


@dataclass(frozen=True, slots=True)
class Ground:
    """The sources of a graph that an overlay on it needs.

    Attributes:
        keys: e entity keys, ascending.
        words: The vocabulary of sentences and names.
        sentences: s tokenised sentences; none where names in running text are not linked.
        starts: Where words occur in the sentences.
        surfaces: Named-entity surfaces.
        phrases: Noun phrases; none where they are no entities.
        titles: For each passage, the entities of its title in the order of `title_keys`.
    """

    keys: Strings
    words: Words
    sentences: SentenceWords
    starts: NameStarts
    surfaces: Spellings
    phrases: Spellings
    titles: PlainLists
    _found: dict[str, int] = field(init=False, default_factory=dict, compare=False)

    def find(self, key: str) -> int:
        """The entity with a key, -1 if there is none; cached, since each version asks again."""
        if key not in self._found:
            self._found[key] = self.keys.find(key)
        return self._found[key]

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`."""
        return {
            **pack_strings("keys", self.keys),
            **pack_table("words", self.words.table),
            "sentences.packed": self.sentences.packed,
            "sentences.lengths": self.sentences.lengths,
            **self.starts.to_arrays(),
            **self.surfaces.to_arrays("surfaces"),
            **self.phrases.to_arrays("phrases"),
            "titled_by.starts": self.titles.starts,
            "titled_by.entities": self.titles.items,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Ground":
        """The inverse of `to_arrays`."""
        return cls(
            unpack_strings("keys", arrays),
            Words(unpack_table("words", arrays)),
            SentenceWords(arrays["sentences.packed"], arrays["sentences.lengths"]),
            NameStarts.from_arrays(arrays),
            Spellings.from_arrays("surfaces", arrays),
            Spellings.from_arrays("phrases", arrays),
            PlainLists(arrays["titled_by.starts"], arrays["titled_by.entities"]),
        )


@dataclass(frozen=True)
class TriGraph:
    """n passages, s sentences, e entities and j edges between consecutive chunks.

    Attributes:
        keys: e entity keys, ascending.
        is_phrase: (e,) whether an entity is known only as a noun phrase.
        passages: For each of e entities the passages that mention it, ascending, with counts; then
            for each of j edges its two chunks. A chunk edge counts as one mention in both chunks,
            so walks may cross from chunk to chunk.
        totals: (n,) sum of the counts of each passage.
        mentions: M: which sentence mentions which entity.
        titled: For each entity the passages whose title it is, ascending.
        kept: The graph's sources; None for an overlay.
    """

    keys: Keys
    is_phrase: Mask
    passages: Lists
    totals: Float64
    mentions: MentionGraph
    titled: Lists
    names: NameTrie
    display_names: DisplayNames
    kept: Ground | None

    def __len__(self) -> int:
        """Number of entities."""
        return len(self.keys)

    @property
    def ground(self) -> Ground:
        """The graph's sources.

        Raises:
            ValueError: The graph is an overlay on another.
        """
        if self.kept is None:
            raise ValueError("This graph is an overlay; its base has the sources")
        return self.kept

    @property
    def passages_of(self) -> Int32 | Int64:
        """(e,) number of passages that mention an entity."""
        return self.passages.sizes[: len(self)]

    @cached_property
    def chunk_edges(self) -> Int32 | Int64:
        """(j, 2) passages of each edge between consecutive chunks."""
        edges = np.arange(len(self), len(self.passages), dtype=np.int64)
        return self.passages.of(edges).reshape(-1, 2)

    @property
    def counts(self) -> "sparse.csc_array":
        """(n, e + j) CSC float32, C: how often passage i mentions entity j."""
        from scipy import sparse  # noqa: PLC0415 - takes .1 s, which a mapped graph need not pay

        own = self.passages.plain()
        return sparse.csc_array(
            (own.values, own.items, own.starts), shape=(len(self.totals), len(own))
        )

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`."""
        counts, titled = self.passages.plain(), self.titled.plain()
        sentences, entities = self.mentions.sentences.plain(), self.mentions.entities.plain()
        arrays: dict[str, NDArray[Any]] = {
            "is_phrase": self.is_phrase,
            "counts.starts": counts.starts,
            "counts.passages": counts.items,
            "counts.values": counts.values,
            "totals": self.totals,
            "titled.starts": titled.starts,
            "titled.passages": titled.items,
            "mentions.sentence_starts": sentences.starts,
            "mentions.sentences": sentences.items,
            "mentions.entity_starts": entities.starts,
            "mentions.entities": entities.items,
        }
        for part in (self.names, self.display_names, self.ground):
            arrays |= part.to_arrays()
        return arrays

    @classmethod
    def from_arrays(cls, corpus: Corpus, arrays: Arrays) -> "TriGraph":
        """The inverse of `to_arrays`, given the same corpus."""
        ground = Ground.from_arrays(arrays)

        def lists(*names: str) -> PlainLists:
            return PlainLists(*(arrays[name] for name in names))

        return cls(
            keys=ground.keys,
            is_phrase=arrays["is_phrase"],
            passages=lists("counts.starts", "counts.passages", "counts.values"),
            totals=arrays["totals"],
            mentions=MentionGraph(
                lists("mentions.sentence_starts", "mentions.sentences"),
                lists("mentions.entity_starts", "mentions.entities"),
            ),
            titled=lists("titled.starts", "titled.passages"),
            names=NameTrie.from_arrays(ground.words, arrays),
            display_names=DisplayNames.from_arrays(corpus, ground.keys, arrays),
            kept=ground,
        )


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Entity numbers of the names in a corpus; -1 for a name that is no entity."""

    keys: Strings
    surface: Int64  # of each named-entity surface
    phrase: Int64  # of each noun phrase
    title_passage: Int64  # passage of each title
    title_entity: Int64  # its entity


def assemble(corpus: Corpus, settings: AssemblySettings, room: Path | None = None) -> TriGraph:
    """Build the Tri-Graph of a corpus.

    Args:
        room: Folder for the tokenised sentences; None to hold them in memory.
    """
    sizes = len(corpus.entities.code), len(corpus.phrases.code)
    wanted = wants_phrases(settings, *sizes)
    normalised = normalise(corpus, sentences=settings.link_text, phrases=wanted, room=room)
    frequency = phrase_frequency(corpus) if wanted else np.empty(0, np.int64)
    numbers = _number(corpus, settings, normalised, recurring(frequency, len(corpus)))
    rows = NameWords.of(numbers.keys, normalised.words)
    size = len(numbers.keys)
    named = np.zeros(size, bool)
    named[numbers.surface[numbers.surface >= 0]] = True
    named[numbers.title_entity] = True
    trie = NameTrie(normalised.words, rows, np.flatnonzero(named & rows.informative))
    tagged = _entries(corpus.entities.sentence, numbers.surface[corpus.entities.code])
    titled = np.concatenate([tagged, _title_entries(corpus, numbers)], axis=1)
    tagged_pairs = _pairs(titled, size)
    del titled  # in a large corpus each of these takes a tenth of a gigabyte
    found = _entries(corpus.phrases.sentence, numbers.phrase[corpus.phrases.code])
    if settings.link_text:
        found = np.concatenate([found, _link(normalised, trie, rows)], axis=1)
    found_pairs = without(_pairs(found, size), tagged_pairs)
    del found
    mentions = _matrix(
        np.concatenate([tagged_pairs, found_pairs]), len(corpus.sentence_passage), size
    )
    counts = _with_chunk_edges(corpus, _counts(corpus, numbers, tagged, found_pairs, size))
    return TriGraph(
        keys=numbers.keys,
        is_phrase=~named,
        passages=PlainLists(counts.indptr, counts.indices, counts.data),
        totals=sums(counts.indices, counts.data, len(corpus)),
        mentions=MentionGraph.of(mentions),
        titled=_titled(corpus, numbers, size),
        names=trie,
        display_names=DisplayNames(
            corpus,
            numbers.keys,
            numbers.surface,
            np.stack([numbers.title_passage, numbers.title_entity]),
        ),
        kept=_ground(corpus, numbers, normalised, frequency),
    )


def _ground(
    corpus: Corpus, numbers: _Numbers, normalised: NormalisedCorpus, frequency: Int64
) -> Ground:
    mentioned = np.bincount(corpus.entities.code, minlength=len(numbers.surface))
    # Entities are numbered in key order; a name that is no entity has the empty key.
    by_key = np.argsort(numbers.surface, kind="stable")
    phrase = numbers.phrase[: len(normalised.phrases)].astype(np.int32)
    phrases = pc.sort_indices(normalised.phrases.array).to_numpy().astype(np.int32)
    titles = np.bincount(numbers.title_passage, minlength=len(corpus))
    return Ground(
        numbers.keys,
        normalised.words,
        normalised.sentences,
        NameStarts.of(normalised.sentences, len(normalised.words)),
        Spellings(
            normalised.surfaces,
            numbers.surface.astype(np.int32),
            mentioned.astype(np.int32),
            by_key.astype(np.int32),
        ),
        Spellings(normalised.phrases, phrase, frequency.astype(np.int32), phrases),
        PlainLists.from_lengths(titles, numbers.title_entity),
    )


def _number(
    corpus: Corpus, settings: AssemblySettings, normalised: NormalisedCorpus, recurs: Mask
) -> _Numbers:
    phrases = normalised.phrases
    kept = phrases.where(recurs) if phrases else Strings(())
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


def wants_phrases(settings: AssemblySettings, entities: int, phrases: int) -> bool:
    """Whether noun phrases are entities, given the numbers of mentions of either kind."""
    if settings.noun_phrases == "auto":
        return entities < FEW_ENTITIES * phrases
    return settings.noun_phrases == "on"


def phrase_frequency(corpus: Corpus) -> Int64:
    """(m,) number of passages with each noun phrase."""
    passages = corpus.sentence_passage[corpus.phrases.sentence].astype(np.int64)
    pairs = distinct(corpus.phrases.code.astype(np.int64) * max(len(corpus), 1) + passages)
    return np.bincount(pairs // max(len(corpus), 1), minlength=len(corpus.phrases.names))


def recurring(frequency: Int64, passages: int) -> Mask:
    """Mask of the noun phrases that occur in more than one passage, and not in too many."""
    most = most_passages(passages)
    found: Mask = (frequency >= MIN_PHRASE_PASSAGES) & (frequency <= most)
    return found


def most_passages(passages: int) -> float:
    """In how many of `passages` passages a noun phrase may occur at most."""
    return max(MAX_PHRASE_PASSAGES, MAX_PHRASE_SHARE * passages)


def _entries(sentence: Int32, entity: Int64) -> Int64:
    """(2, m) sentence and entity of the mentions whose name is an entity."""
    known = entity >= 0
    return np.stack([sentence[known].astype(np.int64), entity[known]])


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


def _matrix(pairs: Int64, rows: int, size: int) -> "sparse.csr_array":
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    where = ((pairs // max(size, 1)).astype(np.int32), (pairs % max(size, 1)).astype(np.int32))
    return sparse.csr_array((np.ones(len(pairs), np.float32), where), shape=(rows, size))


def _counts(
    corpus: Corpus, numbers: _Numbers, tagged: Int64, found_pairs: Int64, size: int
) -> "sparse.csc_array":
    """C: tagged mentions, the title once, and one per sentence in which a name was found."""
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    owner = corpus.sentence_passage.astype(np.int64)
    rows = [owner[tagged[0]], numbers.title_passage, owner[found_pairs // max(size, 1)]]
    columns = [tagged[1], numbers.title_entity, found_pairs % max(size, 1)]
    where = (np.concatenate(rows).astype(np.int32), np.concatenate(columns).astype(np.int32))
    ones = np.ones(len(where[0]), np.float32)
    counts = sparse.csc_array((ones, where), shape=(len(corpus), size))
    counts.sum_duplicates()
    return counts


def _with_chunk_edges(corpus: Corpus, counts: "sparse.csc_array") -> "sparse.csc_array":
    """Add a column for each pair of consecutive chunks of one document."""
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

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


def _titled(corpus: Corpus, numbers: _Numbers, size: int) -> PlainLists:
    pairs = distinct(numbers.title_entity * max(len(corpus), 1) + numbers.title_passage)
    entity, passage = np.divmod(pairs, max(len(corpus), 1))
    lengths = np.bincount(entity, minlength=size)
    return PlainLists.from_lengths(lengths, passage.astype(np.int32))
