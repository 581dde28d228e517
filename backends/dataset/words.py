"""`words.lance`: how often each name, word and label occurs, looked up by hash.

It stands beside the passages and only holds counts that can be counted again. They are those of
when `wye index --engine dataset` ran, plus what was written since; deletions are not subtracted, so
a count may be too high by what was deleted since.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import lance
import numpy as np
import pyarrow as pa

from wye.backends.dataset.columns import hashed, label, pairs_of, spelling
from wye.backends.files import canonical_json
from wye.backends.store.schema import any_of
from wye.backends.text import is_informative
from wye.backends.trigraph.names import MAX_WORDS
from wye.backends.types import Metadata

WORDS = "words.lance"
_AT_ONCE = 5_000
"""Hashes that are looked up in one query."""
_MOST_FRAGMENTS = 16
NAME, TERM, LABEL, ABOUT = "name", "term", "label", "about"
PHRASE, LINKED = 1, 2
"""Bits: a name is only known as a noun phrase; it is found in questions word for word."""
_SCHEMA = pa.schema(
    [
        pa.field("hash", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("text", pa.string()),
        pa.field("passages", pa.int64()),
        pa.field("titles", pa.int64()),
        pa.field("bits", pa.int32()),
    ]
)


class Word(NamedTuple):
    """A name, a word or a label.

    Attributes:
        text: A name's key, a term, or key and value of a label as JSON.
        passages: How many passages have it.
        titles: Of a name, how many passages have it as their title.
        bits: `PHRASE`, `LINKED`.
    """

    text: str
    passages: int
    titles: int = 0
    bits: int = 0


Entry = tuple[str, str, Word]
"""Kind, the text that is looked up, and what it says."""


@dataclass(frozen=True, slots=True)
class About:
    """What holds for all passages together.

    Attributes:
        passages: Their number.
        terms: Number of their terms, without notations.
        has_phrases: Whether noun phrases are names.
        settings: Digest of the settings that the columns depend on; see `build.pins`.
        lexical: The fields of `LexicalSettings`.
        assembly: The fields of `AssemblySettings`.
    """

    passages: int
    terms: int
    has_phrases: bool
    settings: str
    lexical: Mapping[str, Any]
    assembly: Mapping[str, Any]


def number_of(kind: str, text: str) -> int:
    """The hash, as a signed number, by which a word is looked up."""
    return int(np.uint64(hashed(f"{kind}:{text}")).astype(np.int64))


def write(uri: str, about: About, words: Iterable[Entry]) -> None:
    """Write the table anew.

    Args:
        words: The first of several with one text counts.
    """
    numbers: dict[int, tuple[str, Word]] = {}
    for kind, text, word in words:
        numbers.setdefault(number_of(kind, text), (kind, word))
    numbers[number_of(ABOUT, "")] = ABOUT, Word(json.dumps(asdict(about)), 0)
    dataset = lance.write_dataset(_table(numbers), uri, mode="overwrite")
    dataset.create_scalar_index("hash", "BTREE")


def _table(numbers: Mapping[int, tuple[str, Word]]) -> pa.Table:
    ordered = sorted(numbers)
    kinds = [numbers[number][0] for number in ordered]
    columns = zip(*(numbers[number][1] for number in ordered), strict=True)
    values: list[list[Any]] = [ordered, kinds, *map(list, columns)]
    arrays = [pa.array(v, field.type) for v, field in zip(values, _SCHEMA, strict=True)]
    return pa.table(arrays, schema=_SCHEMA)


class WordTable:
    """One version of the table."""

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self._dataset = dataset
        found = self.find(ABOUT, [""])
        self.about = About(**json.loads(found[""].text))
        self._labels: Sequence[tuple[str, object]] | None = None

    def find(self, kind: str, texts: Iterable[str]) -> dict[str, Word]:
        """Text -> what is known of it, for those that are known."""
        text_of = {number_of(kind, text): text for text in texts}
        numbers, words = [*text_of], {}
        for first in range(0, len(numbers), _AT_ONCE):
            listed = ", ".join(map(str, numbers[first : first + _AT_ONCE]))
            columns = ["hash", "text", "passages", "titles", "bits"]
            rows = self._dataset.to_table(columns, filter=f"hash IN ({listed})").to_pydict()
            for number, *word in zip(*rows.values(), strict=True):
                words[text_of[number]] = Word(*word)
        return words

    @property
    def labels(self) -> Sequence[tuple[str, object]]:
        """Every metadata key with every of its values; read once."""
        if self._labels is None:
            rows = self._dataset.to_table(["text"], filter=any_of("kind", [LABEL]))
            self._labels = [tuple(json.loads(text)) for text in rows["text"].to_pylist()]
        return self._labels

    def added(self, about: About, words: Iterable[Entry]) -> "WordTable":
        """A version in which more passages have some words; equal words are summed up."""
        more: dict[int, tuple[str, Word]] = {}
        texts: dict[str, set[str]] = {}
        for kind, text, word in words:
            number = number_of(kind, text)
            before = more[number][1] if number in more else word._replace(passages=0, titles=0)
            more[number] = kind, _sum(before, word)
            texts.setdefault(kind, set()).add(text)
        for kind, several in texts.items():
            for text, word in self.find(kind, several).items():
                number = number_of(kind, text)
                more[number] = kind, _sum(word, more[number][1])
        more[number_of(ABOUT, "")] = ABOUT, Word(json.dumps(asdict(about)), 0)
        merge = self._dataset.merge_insert("hash")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(_table(more))
        newest = lance.dataset(self._dataset.uri)
        if len(newest.get_fragments()) > _MOST_FRAGMENTS:
            newest.optimize.compact_files()
            newest.optimize.optimize_indices()
            newest = lance.dataset(newest.uri)
        return WordTable(newest)


def _sum(one: Word, other: Word) -> Word:
    bits = one.bits & other.bits & PHRASE | (one.bits | other.bits) & LINKED
    return Word(one.text, one.passages + other.passages, one.titles + other.titles, bits)


def entry_of_name(key: str, passages: int, titles: int, *, is_phrase: bool) -> Entry:
    """A name as it is looked up."""
    spelt = spelling(key)
    is_linked = is_informative(key) and not is_phrase and spelt.count(" ") < MAX_WORDS
    bits = PHRASE * is_phrase | LINKED * is_linked
    return NAME, spelt, Word(key, passages, titles, bits)


def entries_of_labels(metadata: Iterable[Metadata]) -> Iterator[Entry]:
    """The labels of passages as they are looked up."""
    pairs = Counter(
        (label(*pair), canonical_json([*pair])) for m in metadata for pair in pairs_of(m)
    )
    return ((LABEL, word, Word(text, passages)) for (word, text), passages in pairs.items())
