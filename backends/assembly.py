"""A corpus to its Tri-Graph: passages, sentences and entities, and who mentions whom.

Everything here follows from one version's content. Nothing depends on the order of the corpus
file: entities are numbered by their key, passages by their id, and two passages are neighbours
only where they are consecutive chunks of one document.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy import sparse

from backends.bridging import MentionGraph
from backends.corpus import Corpus
from backends.linking import NameTrie, entity_key, is_telling, title_keys, title_names
from backends.types import Int32, Int64, Mask

# A capital letter at the start of a sentence proves nothing for a shorter single word.
MIN_SINGLE_WORD = 4
# A noun phrase ties passages together when it recurs, and says nothing when it is everywhere.
MIN_PHRASE_PASSAGES = 2
MAX_PHRASE_PASSAGES = 20
MAX_PHRASE_SHARE = 0.02
# Named entities to noun phrases below which "auto" takes the noun phrases in.
FEW_ENTITIES = 0.25


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
    """n passages, s sentences, e entities and j joints between consecutive chunks.

    Attributes:
        keys: e entity keys, ascending.
        display: e names as they are most often written.
        is_phrase: (e,) whether an entity is known as a noun phrase only.
        counts: (n, e + j) CSR float32, C: how often passage i mentions entity j. A joint counts
            as one mention in both of its chunks, so walks may cross from chunk to chunk.
        mentions: M: which sentence mentions which entity.
        passages_of: (e,) int64 number of passages that mention an entity.
        titled: (e, n) CSR bool: passages whose title an entity is.
    """

    keys: list[str]
    display: list[str]
    is_phrase: Mask
    counts: sparse.csr_array
    mentions: MentionGraph
    passages_of: Int64
    titled: sparse.csr_array
    index: dict[str, int]
    names: NameTrie

    def __len__(self) -> int:
        """How many entities there are."""
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class _Names:
    """Entity numbers of what the corpus calls things; -1 where a name is no entity."""

    keys: list[str]
    index: dict[str, int]
    surface: Int64  # of each named-entity surface
    phrase: Int64  # of each noun phrase
    title_passage: Int64  # passage of each title
    title_entity: Int64  # its entity


def assemble(corpus: Corpus, settings: AssemblySettings) -> TriGraph:
    """Build the Tri-Graph of a corpus."""
    names = _number(corpus, settings)
    size = len(names.keys)
    named = np.zeros(size, bool)
    named[names.surface[names.surface >= 0]] = True
    named[names.title_entity] = True
    trie = NameTrie(
        (key, entity) for key, entity in names.index.items() if named[entity] and is_telling(key)
    )
    tagged = _entries(corpus.entities.sentence, names.surface[corpus.entities.code])
    titled = _title_entries(corpus, names)
    found = _entries(corpus.phrases.sentence, names.phrase[corpus.phrases.code])
    if settings.link_text:
        found = np.concatenate([found, _link(corpus, trie, names.keys)], axis=1)
    tagged_pairs = _pairs(np.concatenate([tagged, titled], axis=1), size)
    found_pairs = np.setdiff1d(_pairs(found, size), tagged_pairs)
    mentions = _matrix(
        np.concatenate([tagged_pairs, found_pairs]), len(corpus.sentence_passage), size
    )
    counts = _counts(corpus, names, tagged, found_pairs, size)
    return TriGraph(
        keys=names.keys,
        display=_display(corpus, names),
        is_phrase=~named,
        counts=_with_joints(corpus, counts),
        mentions=MentionGraph.of(mentions),
        passages_of=np.diff(counts.tocsc().indptr).astype(np.int64),
        titled=_titled(corpus, names, size),
        index=names.index,
        names=trie,
    )


def _number(corpus: Corpus, settings: AssemblySettings) -> _Names:
    surfaces = [entity_key(surface) for surface in corpus.entities.names]
    phrases = [entity_key(name) for name in corpus.phrases.names]
    wanted = _wants_phrases(corpus, settings)
    recurring = _recurring(corpus) if wanted else np.zeros(len(phrases), bool)
    title_passage: list[int] = []
    titles: list[str] = []
    if settings.title_entities:
        for passage, title in enumerate(corpus.titles):
            for key in title_keys(title):
                title_passage.append(passage)
                titles.append(key)
    kept = {key for key, good in zip(phrases, recurring.tolist(), strict=True) if good and key}
    keys = sorted({*surfaces, *titles, *kept} - {""})
    index = {key: entity for entity, key in enumerate(keys)}
    return _Names(
        keys,
        index,
        np.array([index.get(key, -1) for key in surfaces], np.int64),
        np.array([index[key] if key in kept else -1 for key in phrases], np.int64),
        np.array(title_passage, np.int64),
        np.array([index[key] for key in titles], np.int64),
    )


def _wants_phrases(corpus: Corpus, settings: AssemblySettings) -> bool:
    if settings.noun_phrases == "auto":
        return len(corpus.entities.code) < FEW_ENTITIES * len(corpus.phrases.code)
    return settings.noun_phrases == "on"


def _recurring(corpus: Corpus) -> Mask:
    """Which noun phrases occur in more than one passage, and not in too many."""
    passages = corpus.sentence_passage[corpus.phrases.sentence].astype(np.int64)
    pairs = np.unique(corpus.phrases.code.astype(np.int64) * max(len(corpus), 1) + passages)
    frequency = np.bincount(pairs // max(len(corpus), 1), minlength=len(corpus.phrases.names))
    most = max(MAX_PHRASE_PASSAGES, MAX_PHRASE_SHARE * len(corpus))
    return (frequency >= MIN_PHRASE_PASSAGES) & (frequency <= most)


def _entries(sentence: Int32, entity: Int64) -> Int64:
    """(2, m) sentence and entity of the mentions that are of an entity."""
    known = entity >= 0
    return np.stack([sentence[known].astype(np.int64), entity[known]])


def _title_entries(corpus: Corpus, names: _Names) -> Int64:
    """(2, m) every sentence mentions its passage's title."""
    first = np.searchsorted(corpus.sentence_passage, names.title_passage)
    last = np.searchsorted(corpus.sentence_passage, names.title_passage, side="right")
    length = last - first
    start = np.repeat(first - np.cumsum(length) + length, length)
    return np.stack(
        [start + np.arange(len(start), dtype=np.int64), np.repeat(names.title_entity, length)]
    )


def _link(corpus: Corpus, trie: NameTrie, keys: list[str]) -> Int64:
    """(2, m) names that stand in a sentence word for word, tagged or not."""
    blocks = [np.empty((2, 0), np.int64)]
    telling = np.array([len(key) >= MIN_SINGLE_WORD or " " in key for key in keys], bool)
    start = 0
    for texts in corpus.iter_sentence_texts():
        owner, entity = trie.find_all(texts)
        kept = telling[entity]
        blocks.append(
            np.stack([owner[kept].astype(np.int64) + start, entity[kept].astype(np.int64)])
        )
        start += len(texts)
    return np.concatenate(blocks, axis=1)


def _pairs(entries: Int64, size: int) -> Int64:
    """Distinct (row, entity) pairs as one ascending number each."""
    return np.unique(entries[0] * size + entries[1])


def _matrix(pairs: Int64, rows: int, size: int) -> sparse.csr_array:
    where = (pairs // max(size, 1), pairs % max(size, 1))
    return sparse.csr_array((np.ones(len(pairs), np.float32), where), shape=(rows, size))


def _counts(
    corpus: Corpus, names: _Names, tagged: Int64, found_pairs: Int64, size: int
) -> sparse.csr_array:
    """C: tagged mentions, the title once, and one for each sentence in which a name was found."""
    owner = corpus.sentence_passage.astype(np.int64)
    rows = [owner[tagged[0]], names.title_passage, owner[found_pairs // max(size, 1)]]
    columns = [tagged[1], names.title_entity, found_pairs % max(size, 1)]
    where = (np.concatenate(rows), np.concatenate(columns))
    ones = np.ones(len(where[0]), np.float32)
    counts = sparse.csr_array((ones, where), shape=(len(corpus), size))
    counts.sum_duplicates()
    return counts


def _with_joints(corpus: Corpus, counts: sparse.csr_array) -> sparse.csr_array:
    """A further column for each pair of consecutive chunks of one document."""
    if not corpus.chunks.any():
        return counts
    order = sorted(range(len(corpus)), key=lambda i: (corpus.documents[i], corpus.chunks[i]))
    pairs = [
        (a, b)
        for a, b in pairwise(order)
        if corpus.documents[a] == corpus.documents[b] and corpus.chunks[b] == corpus.chunks[a] + 1
    ]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    columns = np.repeat(np.arange(len(rows), dtype=np.int64), 2)
    ones = np.ones(len(columns), np.float32)
    joints = sparse.csr_array((ones, (rows.ravel(), columns)), shape=(len(corpus), len(rows)))
    return sparse.csr_array(sparse.hstack([counts, joints], format="csr"))


def _titled(corpus: Corpus, names: _Names, size: int) -> sparse.csr_array:
    ones = np.ones(len(names.title_entity), bool)
    where = (names.title_entity, names.title_passage)
    titled = sparse.csr_array((ones, where), shape=(size, len(corpus)))
    titled.sum_duplicates()
    titled.sort_indices()
    return titled


def _display(corpus: Corpus, names: _Names) -> list[str]:
    """Each entity as it is most often written; the first in code point order among equals."""
    display = list(names.keys)
    for passage, entity in zip(
        names.title_passage.tolist()[::-1], names.title_entity.tolist()[::-1], strict=True
    ):
        for name in title_names(corpus.titles[passage]):
            if entity_key(name) == names.keys[entity]:
                display[entity] = name
    frequency = np.bincount(corpus.entities.code, minlength=len(corpus.entities.names))
    order = np.lexsort((np.arange(len(frequency)), -frequency))
    seen: set[int] = set()
    for code in order.tolist():
        entity = int(names.surface[code])
        if entity >= 0 and entity not in seen:
            seen.add(entity)
            display[entity] = corpus.entities.names[code].strip()
    return display
