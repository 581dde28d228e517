"""Makes an index searchable by Lance: fills the engine's columns and builds Lance's indices."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from wye.backends.dataset.columns import (
    EngineRow,
    Name,
    PassageNames,
    to_columns,
)
from wye.backends.dataset.words import (
    LINKED,
    TERM,
    WORDS,
    About,
    Entry,
    Word,
    entries_of_labels,
    entry_of_name,
    write,
)
from wye.backends.errors import IndexLockedError
from wye.backends.files import canonical_json
from wye.backends.lexical import LexicalRetriever, LexicalSettings
from wye.backends.store.corpus import Corpus
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import (
    KEYS,
    LABELS,
    SEARCHED,
    TOKENS,
    engine_fields,
    has_columns,
)
from wye.backends.store.versions import PASSAGES
from wye.backends.trigraph.graph import TriGraph
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Progress, Silent

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
    text = canonical_json([asdict(lexical), asdict(assembly)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def make_searchable(
    index: PassageStore,
    corpus: Corpus,
    graph: TriGraph,
    lexical: LexicalRetriever,
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
    progress = progress or Silent()
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
        try:
            batches = _columns(corpus, graph, lexical.settings, progress)
            schema = pa.schema(engine_fields())
            dataset.add_columns(pa.RecordBatchReader.from_batches(schema, batches))
        finally:
            progress.close()
        settings = pins(lexical.settings, assembly)
        terms = round(lexical.mean_length * len(corpus))
        about = About(
            len(corpus),
            terms,
            graph.has_phrases,
            settings,
            asdict(lexical.settings),
            asdict(assembly),
        )
        words_uri = str(index.path / WORDS)
        write(words_uri, about, _words(corpus, graph, lexical))
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


def _columns(
    corpus: Corpus, graph: TriGraph, settings: LexicalSettings, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """The columns of all passages, in the order of the dataset's rows."""
    titles = _title_counts(graph)
    order = np.argsort(corpus.addresses, kind="stable").tolist()
    for first in range(0, len(order), _BLOCK):
        rows = order[first : first + _BLOCK]
        texts = corpus.texts(rows)
        passages = corpus.passages([corpus.ids[row] for row in rows])
        yield to_columns(
            [
                EngineRow.of(
                    corpus.titles[row],
                    text,
                    passage.metadata,
                    names_of(corpus, graph, row, titles),
                    settings,
                )
                for row, text, passage in zip(rows, texts, passages, strict=True)
            ]
        )
        progress.advance(len(rows))


def _title_counts(graph: TriGraph) -> Sequence[int]:
    owners, _ = graph.titled.pairs(np.arange(len(graph), dtype=np.int64))
    counts: list[int] = np.bincount(owners, minlength=len(graph)).tolist()
    return counts


def names_of(corpus: Corpus, graph: TriGraph, row: int, titles: Sequence[int]) -> PassageNames:
    """The names of one passage of a graph."""
    first, last = np.searchsorted(corpus.sentence_passage, [row, row + 1]).tolist()
    sentences = np.arange(first, last, dtype=np.int64)
    owners, entities = graph.mentions.entities.pairs(sentences)
    of_title = graph.titles.one(row)
    every, position = np.unique(np.concatenate([entities, of_title]), return_inverse=True)
    names = [
        Name(
            graph.keys[entity],
            graph.display_names.of(entity),
            int(graph.degrees[entity]),
            titles[entity],
            bool(graph.is_phrase[entity]),
        )
        for entity in every.tolist()
    ]
    mentions = sorted(zip(owners.tolist(), position[: len(owners)].tolist(), strict=True))
    return PassageNames(
        names,
        mentions,
        position[len(owners) :].tolist(),
        [corpus.entities.of(sentence) for sentence in range(first, last)],
        np.asarray(corpus.sentence_vectors[first:last], np.float16),
    )


def _words(corpus: Corpus, graph: TriGraph, lexical: LexicalRetriever) -> Iterator[Entry]:
    """Every name, term and label; names that are found word for word are before equal phrases."""
    titles, phrases = _title_counts(graph), []
    for entity, key in enumerate(graph.keys):
        passages, is_phrase = int(graph.degrees[entity]), bool(graph.is_phrase[entity])
        entry = entry_of_name(key, passages, titles[entity], is_phrase=is_phrase)
        if entry[2].bits & LINKED:
            yield entry
        else:
            phrases.append(entry)
    yield from phrases
    yield from ((TERM, term, Word(term, n)) for term, n in lexical.document_frequencies())
    yield from entries_of_labels(map(json.loads, corpus.metadata))
