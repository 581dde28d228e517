"""`words.lance`: how often each name, word and label occurs, looked up by hash.

It stands beside the passages and only holds counts that can be counted again. Each write adds what
it writes and subtracts what it replaces or deletes. The table has versions of its own, each of
which says what version of the passages it counts: one whose commit failed is passed over.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple

import lance
import numpy as np
import pyarrow as pa

from wye.backends.arrays import located
from wye.backends.dataset.columns import hashed, spelling
from wye.backends.store.index import KEEP_VERSIONS, PassageStore, any_of
from wye.backends.store.versions import MOST_SCANNED, ROWS_PER_FRAGMENT, take_in
from wye.backends.text import is_informative
from wye.backends.trigraph.names import MAX_WORDS
from wye.backends.types import Int64

WORDS = "words.lance"
_AT_ONCE = 5_000  # hashes that are looked up in one query
NAME, TERM, LABEL, ABOUT = "name", "term", "label", "about"
PHRASE, LINKED = 1, 2
"""Bits: a name is only known as a noun phrase; it is found in questions word for word."""
_SCHEMA = pa.schema(
    [pa.field("hash", pa.int64()), pa.field("kind", pa.string()), pa.field("word", pa.string())]
)

Pair = tuple[str, str]  # kind, and the text that is looked up
_ABOUT = (ABOUT, "")
PARTS = 256  # in so many parts a table is written; memory holds one


class Word(NamedTuple):
    """A name, a word or a label."""

    text: str  # a name's key, a term, or key and value of a label as JSON
    passages: int  # how many passages have it
    titles: int = 0  # of a name, how many passages have it as their title
    bits: int = 0  # `PHRASE`, `LINKED`
    shown: str = ""  # of a name, its most frequent spelling; "" if only its key is known


@dataclass(frozen=True, slots=True)
class About:
    """What holds for all passages together."""

    passages: int  # their number
    terms: int  # number of their terms, without notations
    has_phrases: bool  # whether noun phrases are names
    settings: str  # digest of the settings that the columns depend on; see `build.pins`
    lexical: Mapping[str, Any]  # the fields of `LexicalSettings`
    assembly: Mapping[str, Any]  # the fields of `AssemblySettings`
    version: int = 0  # the first version of the passages that has these counts


def entry_of_name(
    key: str, passages: int, titles: int, *, is_phrase: bool, shown: str
) -> tuple[Pair, Word]:
    """A name as it is looked up."""
    spelt = spelling(key)
    is_linked = is_informative(key) and not is_phrase and spelt.count(" ") < MAX_WORDS
    bits = PHRASE * is_phrase | LINKED * is_linked
    return (NAME, spelt), Word(key, passages, titles, bits, shown)


def write(uri: str, about: About, parts: Iterable[Iterable[tuple[Pair, Word]]]) -> None:
    """Write the table anew, from all words by `part_of`."""
    tables = (
        _table(_summed(words), about if part == part_of(_ABOUT) else None)
        for part, words in enumerate(parts)
    )
    batches = chain.from_iterable(table.to_batches() for table in tables)
    dataset = lance.write_dataset(batches, uri, _SCHEMA, mode="overwrite")
    dataset.create_scalar_index("hash", "BTREE")


def _table(words: Mapping[Pair, Word], about: About | None) -> pa.Table:
    every = {**words, _ABOUT: Word(json.dumps(asdict(about)), 1)} if about else words
    rows = sorted((_number(pair), pair[0], json.dumps(word)) for pair, word in every.items())
    columns = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return pa.table([*columns], schema=_SCHEMA)


def _number(pair: Pair) -> int:
    """The hash, as a signed number, by which a word is looked up."""
    number = hashed(":".join(pair))
    return number - (number >> 63 << 64)


def part_of(pair: Pair) -> int:
    """In which of `PARTS` parts of the table, in the order of the hashes, a word is."""
    return (_number(pair) + (1 << 63)) * PARTS >> 64


class WordTable:
    """One version of the table."""

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self._dataset = dataset
        self.about = About(**json.loads(self.find([_ABOUT])[_ABOUT].text))

    @classmethod
    def of(cls, index: PassageStore, version: int | None = None) -> "WordTable":
        """The table of a version of the passages, by default of the one that an index has in view.

        Later ones are of commits that are under way, or have failed.
        """
        table = cls(index.beside(WORDS))
        while table.about.version > (version or index.version):
            table = cls(table._dataset.checkout_version(table._dataset.version - 1))
        return table

    def find(self, pairs: Iterable[Pair]) -> dict[Pair, Word]:
        """What is known of some words, for those that some passage has."""
        pair_of = {_number(pair): pair for pair in pairs}
        numbers = [*pair_of]
        if len(numbers) > _AT_ONCE:
            several = np.sort(np.array(numbers, np.int64))
            numbers = several[located(several, self._numbers)[1]].tolist()
        words = {}
        for first in range(0, len(numbers), _AT_ONCE):
            listed = ", ".join(map(str, numbers[first : first + _AT_ONCE]))
            rows = self._dataset.to_table(["hash", "word"], filter=f"hash IN ({listed})")
            for number, word in zip(*rows.to_pydict().values(), strict=True):
                words[pair_of[number]] = Word(*json.loads(word))
        return {pair: word for pair, word in words.items() if word.passages > 0}

    @cached_property
    def _numbers(self) -> Int64:
        """The hashes of all words, so that of many only those are looked up that exist."""
        numbers: Int64 = self._dataset.to_table(["hash"])["hash"].to_numpy()
        return np.sort(numbers, kind="stable")  # is quick, since they mostly are in order

    @cached_property
    def labels(self) -> Mapping[str, Sequence[Any]]:
        """Every metadata key with its values."""
        rows = self._dataset.to_table(["word"], filter=any_of("kind", [LABEL]))
        words = (Word(*json.loads(word)) for word in rows["word"].to_pylist())
        values: dict[str, list[Any]] = {}
        for key, value in (json.loads(word.text) for word in words if word.passages > 0):
            values.setdefault(key, []).append(value)
        return values

    def changed(self, about: About, several: Iterable[tuple[Pair, Word]]) -> None:
        """Write a version with other counts.

        Args:
            about: What holds for all passages from now on.
            several: Words with how many more passages have them; fewer, if it is negative.
        """
        more = _summed(several)
        known = self.find(more)
        more.update((pair, _sum(word, more[pair])) for pair, word in known.items())
        base = self._dataset.version
        if self._dataset.latest_version != base:
            self._dataset.restore()  # type: ignore[no-untyped-call]
        merge = self._dataset.merge_insert("hash")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(_table(more, about))
        newest = lance.dataset(self._dataset.uri, session=self._dataset.session())
        small = [e for e in newest.get_fragments() if e.metadata.num_rows < ROWS_PER_FRAGMENT]
        if len(small) >= MOST_SCANNED:
            newest.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FRAGMENT)
            take_in(newest)
            before = datetime.now() - KEEP_VERSIONS  # in local time, as Lance's are
            ends = pairwise((each["version"], each["timestamp"]) for each in newest.versions())
            old = [number for (number, _), (_, end) in ends if number < base and end < before]  # type: ignore[operator]
            if old:
                newest.cleanup_old_versions(versions=old)


def _summed(several: Iterable[tuple[Pair, Word]]) -> dict[Pair, Word]:
    words: dict[Pair, Word] = {}
    for pair, word in several:
        words[pair] = _sum(words[pair], word) if pair in words else word
    return words


def _sum(one: Word, other: Word) -> Word:
    """Both counts together; of names with different keys and one spelling only the first counts."""
    if one.text != other.text:
        return one
    bits = one.bits & other.bits & PHRASE | (one.bits | other.bits) & LINKED
    shown = one.shown or other.shown
    return Word(one.text, one.passages + other.passages, one.titles + other.titles, bits, shown)
