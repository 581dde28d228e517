"""Makes an index searchable by Lance: fills the engine's columns and builds Lance's indices.

The columns come from a graph of the passages: of all of them, when the indices are built, or of
those that are written later. In these, names that the corpus knew are found, and new names become
known; what was written earlier does not mention a new name before the columns are made again.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import lance
import numpy as np
import pyarrow as pa

from wye.backends.dataset.columns import (
    LENGTHS,
    Name,
    NewRow,
    Row,
    hashed,
    label,
    pairs_of,
    spelling,
    spellings,
    to_columns,
    tokens_of,
)
from wye.backends.dataset.words import (
    LABEL,
    LINKED,
    NAME,
    PHRASE,
    TERM,
    WORDS,
    About,
    Pair,
    Word,
    WordTable,
    entry_of_name,
    write,
)
from wye.backends.errors import IndexLockedError
from wye.backends.files import canonical_json
from wye.backends.lexical import LexicalSettings
from wye.backends.store.corpus import Corpus, corpus_of
from wye.backends.store.index import PassageStore, Writer
from wye.backends.store.schema import (
    GRAPH,
    KEYS,
    LABELS,
    SEARCHED,
    TOKENS,
    any_of,
    engine_fields,
    has_columns,
)
from wye.backends.store.versions import PASSAGES, reading
from wye.backends.strings import Strings
from wye.backends.text import entity_key, tokenise
from wye.backends.trigraph.graph import TriGraph, assemble
from wye.backends.trigraph.names import NameTrie
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Metadata, Progress, Silent

_FORMAT = 2
"""Changes with what the columns hold, so that those of an earlier release are made again."""
_BLOCK = 1024
LEAST_TRAINED = 256
"""Fewer vectors are scanned by Lance, without an index."""
_ROWS_PER_LIST = 128
_MOST_LISTS = 4_096
_WHITESPACE: Mapping[str, Any] = {
    "base_tokenizer": "whitespace",
    "max_token_length": None,
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "with_position": False,
}
VECTOR_INDEX = "IVF_RQ"
"""Measured on 6,119 passages of 2WikiMultiHopQA, best 100 of 200 fetched, one thread: IVF_RQ is
built in 0.7 s and finds 99.3 % in 4.1 ms, all with refinement in 8.6 ms; IVF_PQ 13 s, 100 % in 9.1
ms; IVF_HNSW_SQ 2.8 s, 100 % in 6.8 ms."""


def pins(lexical: LexicalSettings, assembly: AssemblySettings) -> str:
    """Digest of the settings that the columns depend on."""
    text = canonical_json([_FORMAT, asdict(lexical), asdict(assembly)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def make_searchable(
    index: PassageStore,
    corpus: Corpus,
    graph: TriGraph,
    lexical: LexicalSettings,
    assembly: AssemblySettings,
    *,
    progress: Progress | None = None,
) -> int:
    """Fill the columns of all rows from what was derived of a version, and build the indices.

    Rows stay where they are: Lance adds files beside theirs. The index can be searched in memory
    all the while, and afterwards too.

    Returns:
        The new version.

    Raises:
        IndexLockedError: Another process is writing, or has written since the version was read.
    """
    progress, counts = progress or Silent(), Counts()
    with index.writer() as writer:
        if writer.version != corpus.version:
            raise IndexLockedError(
                f"Index {index.path} was written while its indices were being built. Run the "
                "command again when nobody writes."
            )
        dataset = writer.dataset
        if has_columns(dataset.schema):
            dataset.drop_columns([*SEARCHED])
        progress.start(len(corpus), "columns")

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in _rows(corpus, graph, lexical, {}):
                counts.add_new(rows)
                yield to_columns(rows)
                progress.advance(len(rows))

        try:
            schema = pa.schema(engine_fields())
            dataset.add_columns(pa.RecordBatchReader.from_batches(schema, batches()))
        finally:
            progress.close()
        settings = pins(lexical, assembly), asdict(lexical), asdict(assembly)
        about = About(counts.passages, counts.terms, graph.has_phrases, *settings)
        write(str(index.path / WORDS), about, counts.words())
        writer.adopt(lance.dataset(index.path / PASSAGES))
        build_indices(writer.dataset)
        writer.adopt(lance.dataset(index.path / PASSAGES))
        return writer.version


def build_indices(dataset: lance.LanceDataset) -> None:
    """Build Lance's indices over the columns, in place of those that are there."""
    rows = dataset.count_rows()
    for column in (TOKENS, KEYS):
        dataset.create_scalar_index(column, "INVERTED", language="English", **_WHITESPACE)
    for column in ("id", "document"):
        dataset.create_scalar_index(column, "BTREE")
    dataset.create_scalar_index(LABELS, "LABEL_LIST")
    if rows >= LEAST_TRAINED:
        lists = min(max(rows // _ROWS_PER_LIST, 1), _MOST_LISTS)
        dataset.create_index(
            "vector", VECTOR_INDEX, metric="dot", num_partitions=lists, replace=True
        )


def optimise(folder: Path) -> int:
    """Take rows that were written since into the indices; returns the version."""
    with PassageStore.open(folder).writer() as writer:
        writer.dataset.optimize.optimize_indices()
        writer.adopt(lance.dataset(folder / PASSAGES))
        return writer.version


def fill(writer: Writer, rows: pa.RecordBatch, gone: Sequence[str]) -> pa.RecordBatch:
    """Rows to be written, with the engine's columns; the table of words is brought up to date.

    Args:
        rows: Rows with empty columns; none where passages are only deleted.
        gone: Ids of the passages that the same commit replaces or deletes.
    """
    table, before, after = WordTable.of(writer.index), _counts_of(writer, gone), Counts()
    if not rows.num_rows:
        _count(table, after, before)
        return rows
    corpus = corpus_of(writer.index, rows)
    lexical = LexicalSettings(**table.about.lexical)
    graph = _late_graph(table, corpus)
    words = table.find((NAME, spelling(key)) for key in graph.keys).values()
    known = {
        word.text: word._replace(
            passages=word.passages - before.names[word.text],
            titles=word.titles - before.titles[word.text],
        )
        for word in words
    }
    new = [*chain.from_iterable(_rows(corpus, graph, lexical, known))]
    after.add_new(new)
    _count(table, after, before)
    columns = to_columns(new)
    arrays = [(columns if name in SEARCHED else rows).column(name) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def count_without(writer: Writer, ids: Sequence[str]) -> None:
    """Bring the table of words up to date before passages are deleted."""
    _count(WordTable.of(writer.index), Counts(), _counts_of(writer, ids))


def _count(table: WordTable, more: "Counts", fewer: "Counts") -> None:
    about = replace(
        table.about,
        passages=table.about.passages + more.passages - fewer.passages,
        terms=table.about.terms + more.terms - fewer.terms,
    )
    table.changed(about, chain(more.words(), fewer.words(sign=-1)))


@dataclass(slots=True)
class Counts:
    """How often names, words and labels occur in some rows."""

    passages: int = 0
    terms: int = 0
    names: Counter[str] = field(default_factory=Counter)
    titles: Counter[str] = field(default_factory=Counter)
    proper: set[str] = field(default_factory=set)
    tokens: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)

    def add(self, row: NewRow | Row, metadata: Metadata) -> None:
        """Count a row."""
        tokens = row.tokens
        self.passages += 1
        self.terms += len(tokens.partition(LENGTHS)[0].split())
        names = row.names
        self.names.update(name.key for name in names)
        self.titles.update({names[position].key for position in row.titles})
        self.proper.update(name.key for name in names if not name.is_phrase)
        self.tokens.update({*tokens.split()})
        self.labels.update({canonical_json([*pair]) for pair in pairs_of(metadata)})

    def add_new(self, rows: Sequence[NewRow]) -> None:
        """Count rows that are to be stored."""
        for row in rows:
            self.add(row, row.metadata)

    def words(self, sign: int = 1) -> Iterator[tuple[Pair, Word]]:
        """The entries of the table of words; of equally spelt names the one to be found is first.

        Args:
            sign: -1 to have them subtracted.
        """
        names = [
            entry_of_name(
                key, sign * count, sign * self.titles[key], is_phrase=key not in self.proper
            )
            for key, count in sorted(self.names.items())
        ]
        yield from sorted(names, key=lambda entry: -(entry[1].bits & LINKED))
        yield from (((TERM, term), Word(term, sign * n)) for term, n in self.tokens.items())
        for text, count in self.labels.items():
            yield (LABEL, label(*json.loads(text))), Word(text, sign * count)


def _counts_of(writer: Writer, ids: Sequence[str]) -> Counts:
    """The counts of stored rows."""
    counts = Counts()
    if ids:
        with reading(writer.folder):
            table = writer.dataset.to_table([GRAPH, "metadata"], filter=any_of("id", ids))
        for packed, metadata in zip(*table.to_pydict().values(), strict=True):
            counts.add(Row(-1, packed, writer.index.dimension), json.loads(metadata))
    return counts


@dataclass(frozen=True, slots=True)
class _Known:
    """The names of the whole corpus that may occur in some passages; see `graph.Vocabulary`."""

    keys: Strings
    names: NameTrie


def _late_graph(table: WordTable, corpus: Corpus) -> TriGraph:
    """The graph of passages that are written later, whose sentences mention what is known."""
    settings = AssemblySettings(**table.about.assembly)
    phrases: Literal["on", "off"] = "on" if table.about.has_phrases else "off"
    texts = chain.from_iterable(corpus.iter_sentence_texts()) if settings.link_text else ()
    spelt = {each for text in texts for each in spellings(tokenise(text), named=True)}
    if table.about.has_phrases:
        spelt |= {spelling(entity_key(name)) for name in corpus.phrases.names}
    words = sorted(table.find((NAME, text) for text in spelt).values())
    keys = Strings([word.text for word in words])
    linked = [(word.text, number) for number, word in enumerate(words) if word.bits & LINKED]
    base = _Known(keys, NameTrie.of(linked))
    return assemble(corpus, replace(settings, noun_phrases=phrases), base=base)


def _rows(
    corpus: Corpus, graph: TriGraph, settings: LexicalSettings, known: Mapping[str, Word]
) -> Iterator[list[NewRow]]:
    """Rows to be stored, in the order of their addresses.

    Args:
        known: Key -> the name in other passages of the index, which the graph lacks.
    """
    owners, _ = graph.titled.pairs(np.arange(len(graph), dtype=np.int64))
    titles: list[int] = np.bincount(owners, minlength=len(graph)).tolist()
    order = np.argsort(corpus.addresses, kind="stable").tolist()
    for first in range(0, len(order), _BLOCK):
        rows = order[first : first + _BLOCK]
        passages = corpus.passages([corpus.ids[row] for row in rows])
        yield [
            NewRow(
                passage.id,
                passage.document,
                passage.chunk,
                passage.title,
                passage.metadata,
                tokens_of(f"{passage.title}\n{passage.text}", settings),
                *_names_of(corpus, graph, row, titles, known),
            )
            for row, passage in zip(rows, passages, strict=True)
        ]


def _names_of(
    corpus: Corpus, graph: TriGraph, row: int, titles: Sequence[int], known: Mapping[str, Word]
) -> tuple[Any, ...]:
    """The last fields of `NewRow`, of one passage of a graph."""
    first, last = np.searchsorted(corpus.sentence_passage, [row, row + 1]).tolist()
    sentences = np.arange(first, last, dtype=np.int64)
    owners, entities = graph.mentions.entities.pairs(sentences)
    of_title: list[int] = graph.titles.one(row).tolist()
    keys = {entity: graph.keys[entity] for entity in {*entities.tolist(), *of_title}}
    by_hash = sorted(keys, key=lambda entity: hashed(keys[entity]))
    position = {entity: number for number, entity in enumerate(by_hash)}
    names = []
    for entity in by_hash:
        key = keys[entity]
        before = known.get(key, Word(key, 0, 0, PHRASE))
        names.append(
            Name(
                key,
                graph.display_names.of(entity),
                before.passages + int(graph.degrees[entity]),
                before.titles + titles[entity],
                bool(graph.is_phrase[entity] and before.bits & PHRASE),
            )
        )
    pairs = zip(owners.tolist(), entities.tolist(), strict=True)
    mentions = sorted({(sentence, position[entity]) for sentence, entity in pairs})
    tagged = [corpus.entities.of(sentence) for sentence in range(first, last)]
    own = corpus.vectors[row : row + 1], corpus.sentence_vectors[first:last]
    vectors = np.concatenate([np.asarray(each, np.float16) for each in own])
    return names, mentions, [position[entity] for entity in of_title], tagged, vectors
