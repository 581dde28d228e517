"""Makes an index searchable by Lance: fills the engine's columns and builds Lance's indices.

The columns come from graphs of some rows, in which the names of all passages are known: of each
fragment when the columns are made, and of what is written later. What was written earlier does not
mention a new name before the columns are made again.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import lance
import numpy as np
import pyarrow as pa
from pyarrow.feather import read_table, write_feather

from wye.backends.arrays import Strings
from wye.backends.dataset.columns import (
    Name,
    NewRow,
    Row,
    engine_fields,
    hashed,
    spelling,
    spellings,
    to_columns,
    tokens_of,
    vectors_of,
)
from wye.backends.dataset.counts import Counts, SpilledCounts
from wye.backends.dataset.words import LINKED, NAME, PHRASE, WORDS, About, WordTable, write
from wye.backends.files import canonical_json
from wye.backends.lexical import LexicalSettings, searched_text
from wye.backends.store.corpus import COLUMNS, Corpus, corpus_of
from wye.backends.store.index import PassageStore, Writer, any_of, has_columns
from wye.backends.store.schema import ANALYSIS_COLUMNS, GRAPH, KEYS, LABELS, SEARCHED, TOKENS
from wye.backends.text import entity_key, tokenise
from wye.backends.trigraph.graph import TriGraph, assemble
from wye.backends.trigraph.names import NameTrie
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Progress, Silent

_FORMAT = 5
"""Changes with what the columns hold, so that those of an earlier release are made again."""
LEAST_TRAINED = 256  # fewer vectors are scanned by Lance, without an index
_ROWS_PER_LIST = 512
_MOST_LISTS = 4_096
"""Training takes time by the square of their number, as k-means on a sample for each does."""
_WORDS: Mapping[str, Any] = {
    "language": "English",
    "base_tokenizer": "whitespace",
    "max_token_length": None,
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "with_position": False,
}
SCALAR_INDICES: Sequence[tuple[str, Any, Mapping[str, Any]]] = (
    (TOKENS, "INVERTED", _WORDS),
    (KEYS, "INVERTED", _WORDS),
    ("id", "BTREE", {}),
    ("document", "BTREE", {}),
    (LABELS, "LABEL_LIST", {}),
)
"""Column, kind of its index, and options of Lance's."""
VECTOR_INDEX = "IVF_RQ"
"""Measured on 6,119 passages of 2WikiMultiHopQA, best 100 of 200 fetched, one thread: IVF_RQ is
built in 0.7 s and finds 99.3 % in 4.1 ms, all with refinement in 8.6 ms; IVF_PQ 13 s, 100 % in 9.1
ms; IVF_HNSW_SQ 2.8 s, 100 % in 6.8 ms."""

Over = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""As `map`; another one has other processes work."""


def pins(lexical: LexicalSettings, assembly: AssemblySettings) -> str:
    """Digest of the settings that the columns depend on."""
    text = canonical_json([_FORMAT, asdict(lexical), asdict(assembly)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def make_searchable(
    index: PassageStore,
    lexical: LexicalSettings,
    assembly: AssemblySettings,
    *,
    over: Over = map,
    build: Callable[[lance.LanceDataset], object] | None = None,
    progress: Progress | None = None,
) -> int:
    """Fill the columns of all rows, count all words, and build the indices.

    Rows stay where they are: Lance adds files beside theirs. The index can be searched in memory
    all the while, and afterwards too. Memory holds the rows of a fragment, a part of the words and
    their hashes; names and counts of rows are meanwhile in a temporary folder.

    Args:
        over: Maps a function over the fragments.
        build: Builds Lance's indices; default `build_indices`.

    Returns:
        The new version.

    Raises:
        IndexLockedError: Another process is writing.
    """
    progress = progress or Silent()
    with index.writer() as writer:
        if has_columns(writer.dataset.schema):
            writer.dataset.drop_columns([*SEARCHED])
            writer.adopt()
        work = _Fragments(index.newest(), lexical, assembly)
        numbers = [each.fragment_id for each in writer.dataset.get_fragments()]
        progress.start(3 * len(numbers), "parts of the columns")

        def each(task: Callable[[Any], Any], items: Iterable[object]) -> Iterator[Any]:
            for result in over(task, items):
                yield result
                progress.advance(1)

        def store(counts: SpilledCounts) -> None:
            settings = pins(lexical, assembly), asdict(lexical), asdict(assembly)
            about = About(counts.total.passages, counts.total.terms, has_phrases, *settings)
            write(index.uri(WORDS), about, (part.words() for part in counts))

        try:
            with TemporaryDirectory() as scratch:
                names = SpilledCounts(Path(scratch) / "names")
                for counts in each(work.names, numbers):
                    names.add(counts)
                has_phrases = names.keep_phrases(assembly)
                store(names)
            with TemporaryDirectory() as scratch:
                words = SpilledCounts(Path(scratch) / "words")
                linked = [Path(scratch) / f"{number}.arrow" for number in numbers]
                for path, (counts, columns) in zip(linked, each(work.link, numbers), strict=True):
                    words.add(counts)
                    write_feather(columns, path, compression="zstd")
                store(words)
                parts = ((n, read_table(path)) for n, path in zip(numbers, linked, strict=True))
                filled = [*each(work.fill, parts)]
        finally:
            progress.close()
        if filled:
            fragments = [fragment for fragment, _ in filled]
            writer.commit(lance.LanceOperation.Merge(fragments, filled[0][1]), fragments)
            (build or build_indices)(writer.dataset)
        else:
            writer.dataset.add_columns(pa.schema(engine_fields()))
        writer.adopt()
        return writer.version


def build_indices(dataset: lance.LanceDataset) -> None:
    """Build Lance's indices over the columns, in place of those that are there."""
    for column, kind, options in SCALAR_INDICES:
        dataset.create_scalar_index(column, kind, **options)
    if lists := vector_lists(dataset):
        dataset.create_index(
            "vector", VECTOR_INDEX, metric="dot", num_partitions=lists, replace=True
        )


def vector_lists(dataset: lance.LanceDataset) -> int:
    """Lists of the vector index; 0 for too few rows to train it."""
    rows = dataset.count_rows()
    return min(rows // _ROWS_PER_LIST, _MOST_LISTS) if rows >= LEAST_TRAINED else 0


def optimise(index: PassageStore) -> int:
    """Take rows that were written since into the indices; returns the version."""
    with index.writer() as writer:
        writer.take_in()
        return writer.version


@dataclass(frozen=True, slots=True)
class _Fragments:
    """What is computed of each fragment of an index, by number; other processes may do it."""

    index: PassageStore
    lexical: LexicalSettings
    assembly: AssemblySettings

    def names(self, number: int) -> Counts:
        """The names that are tagged or titles, and how many passages have each noun phrase."""
        corpus = self._corpus(number)
        graph = assemble(corpus, replace(self.assembly, noun_phrases="off", link_text=False))
        keys = [*graph.keys]
        counts = Counts(len(corpus), names=Counter(keys), proper=Counter(keys))
        if self.assembly.noun_phrases != "off":
            counts.tagged, counts.untagged = len(corpus.entities.code), len(corpus.phrases.code)
            passages = corpus.sentence_passage[corpus.phrases.sentence].tolist()
            distinct = {*zip(corpus.phrases.code.tolist(), passages, strict=True)}
            counts.phrases = Counter(corpus.phrases.names[code] for code, _ in distinct)
        return counts

    def link(self, number: int) -> tuple[Counts, pa.Table]:
        """Counts of names, words and labels; the columns, which lack vectors and counts of all."""
        rows = _rows(WordTable.of(self.index), self._corpus(number))
        none = np.zeros((1, self.index.dimension), np.float16)
        columns = to_columns([replace(row, vectors=none) for row in rows])
        return Counts.of(rows), pa.Table.from_batches([columns])

    def fill(self, part: tuple[int, pa.Table]) -> tuple[lance.FragmentMetadata, Any]:
        """Write the columns beside the fragment's, without a commit; also returns the schema.

        Args:
            part: The fragment's number, and its columns by `link`.
        """
        fragment, columns = self._fragment(part[0]), part[1]
        stored = fragment.to_table([*ANALYSIS_COLUMNS]).combine_chunks()
        packed = columns[GRAPH].to_pylist()
        linked = (Row(-1, each, self.index.dimension) for each in packed)
        pairs = zip(linked, vectors_of(stored), strict=True)
        rows = [row.with_vectors(vectors) for row, vectors in pairs]
        whole = [row.packed() for row in _completed(rows, WordTable.of(self.index))]
        at = columns.schema.get_field_index(GRAPH)
        field = columns.schema.field(at)
        columns = columns.set_column(at, field, pa.array(whole, field.type))
        merged: tuple[lance.FragmentMetadata, Any] = fragment.merge_columns(columns.to_reader())
        return merged

    def _corpus(self, number: int) -> Corpus:
        table = self._fragment(number).to_table([*COLUMNS]).combine_chunks()
        rows = table.to_struct_array().chunk(0)
        return corpus_of(self.index, pa.RecordBatch.from_struct_array(rows))

    def _fragment(self, number: int) -> lance.LanceFragment:
        return lance.LanceFragment(self.index.snapshot(), number)


def fill(writer: Writer, rows: pa.RecordBatch, gone: Sequence[str]) -> pa.RecordBatch:
    """Rows to be written, with the engine's columns; the table of words is brought up to date.

    Args:
        rows: Rows with empty columns; none where passages are only deleted.
        gone: Ids of the passages that the same commit replaces or deletes.
    """
    filled, counts = with_columns(writer.index, rows, writer.version)
    count(writer, gone, counts)
    return filled


def with_columns(
    index: PassageStore, rows: pa.RecordBatch, version: int | None = None
) -> tuple[pa.RecordBatch, Counts]:
    """Rows with the engine's columns, and what `count` has to add once they are written."""
    if not rows.num_rows:
        return rows, Counts()
    table = WordTable.of(index, version)
    new = _rows(table, corpus_of(index, rows))
    counts = Counts.of(new)
    columns = to_columns(_completed(new, table, counts))
    arrays = [(columns if name in SEARCHED else rows).column(name) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema), counts


def count(writer: Writer, gone: Sequence[str], more: Counts | None = None) -> None:
    """Bring the table of words up to date before passages are written and deleted.

    Args:
        gone: Ids of those that are deleted.
        more: Of those that are written.
    """
    writer.check_newest()  # since the table is written before the passages
    table = WordTable.of(writer.index, writer.version)
    more, fewer, about = more or Counts(), _counts_of(writer, gone), table.about
    about = replace(
        about,
        passages=about.passages + more.passages - fewer.passages,
        terms=about.terms + more.terms - fewer.terms,
        version=writer.version + 1,
    )
    with writer.guard():
        table.changed(about, chain(more.words(), fewer.words(sign=-1)))


def _counts_of(writer: Writer, ids: Sequence[str]) -> Counts:
    """The counts of stored rows."""
    counts = Counts()
    if ids:
        with writer.index.reading():
            table = writer.dataset.to_table([GRAPH], filter=any_of("id", ids))
        for packed in table[GRAPH].to_pylist():
            counts.add(Row(-1, packed, writer.index.dimension))
    return counts


@dataclass(frozen=True, slots=True)
class _Known:
    """The names of the whole corpus that may occur in some passages; see `graph.Vocabulary`."""

    keys: Strings
    names: NameTrie


def _graph(table: WordTable, corpus: Corpus) -> TriGraph:
    """The graph of some passages, whose sentences mention all names that are known."""
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


def _completed(
    rows: Sequence[NewRow], table: WordTable, more: Counts | None = None
) -> list[NewRow]:
    """Rows whose names have the counts of the whole index.

    Args:
        more: What the table lacks.
    """
    keys = {name.key for row in rows for name in row.names}
    words = table.find((NAME, spelling(key)) for key in keys).values()
    more = more or Counts()

    def completed(name: Name) -> Name:
        if (word := known.get(name.key)) is None:
            return name
        return name._replace(
            shown=word.shown or name.shown,
            passages=word.passages + more.names[name.key],
            titles=word.titles + more.titles[name.key],
            is_phrase=name.is_phrase and bool(word.bits & PHRASE),
        )

    known = {word.text: word for word in words}
    return [replace(row, names=[*map(completed, row.names)]) for row in rows]


def _rows(table: WordTable, corpus: Corpus) -> list[NewRow]:
    """Rows to be stored, in the order of their addresses, with counts of these rows alone."""
    graph, settings = _graph(table, corpus), LexicalSettings(**table.about.lexical)
    owners, _ = graph.titled.pairs(np.arange(len(graph), dtype=np.int64))
    titles: list[int] = np.bincount(owners, minlength=len(graph)).tolist()
    order = np.argsort(corpus.addresses, kind="stable").tolist()
    passages = corpus.passages([corpus.ids[row] for row in order])
    rows = []
    for row, passage in zip(order, passages, strict=True):
        place = passage.id, passage.document, passage.chunk
        content = passage.title, passage.text, passage.metadata
        tokens = tokens_of(searched_text(passage.id, passage.title, passage.text), settings)
        rows.append(NewRow(*place, *content, tokens, *_names_of(corpus, graph, row, titles)))
    return rows


def _names_of(corpus: Corpus, graph: TriGraph, row: int, titles: Sequence[int]) -> tuple[Any, ...]:
    """The last fields of `NewRow`, of one passage of a graph."""
    first, last = np.searchsorted(corpus.sentence_passage, [row, row + 1]).tolist()
    sentences = np.arange(first, last, dtype=np.int64)
    owners, entities = graph.mentions.pairs(sentences)
    of_title: list[int] = graph.titles.one(row).tolist()
    keys = {entity: graph.keys[entity] for entity in {*entities.tolist(), *of_title}}
    by_hash = sorted(keys, key=lambda entity: hashed(keys[entity]))
    position = {entity: number for number, entity in enumerate(by_hash)}
    names = []
    for entity in by_hash:
        counts = int(graph.degrees[entity]), titles[entity], bool(graph.is_phrase[entity])
        names.append(Name(keys[entity], graph.display_names.of(entity), *counts))
    pairs = zip(owners.tolist(), entities.tolist(), strict=True)
    mentions = sorted({(sentence, position[entity]) for sentence, entity in pairs})
    tagged = [corpus.entities.of(sentence) for sentence in range(first, last)]
    stored = corpus.vectors[np.array([row])], corpus.sentence_vectors[sentences]
    vectors = np.concatenate([np.asarray(each, np.float16) for each in stored])
    return names, mentions, [position[entity] for entity in of_title], tagged, vectors
