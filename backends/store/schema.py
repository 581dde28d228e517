"""The rows of an index: their Arrow schema, and conversion of passages to rows and back."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from wye.backends.errors import IndexMismatchError, IndexNotFoundError
from wye.backends.files import canonical_json
from wye.backends.text import title_names
from wye.backends.types import (
    AnalysedPassage,
    Float16,
    Float32,
    Passage,
    PassageAnalyser,
    Statement,
)

_LONE = re.compile(r"[\ud800-\udfff]")

SCHEMA_VERSION = "1"
VERSION_KEY = b"wye.schema"
FINGERPRINT_KEY = b"wye.fingerprint"

PASSAGE_COLUMNS = ("id", "document", "chunk", "title", "text", "metadata")
ANALYSIS_COLUMNS = ("vector", "sentences")
"""The columns that `to_analyses` needs."""
# An index that was made before there were these columns stays without them.
LENGTH_COLUMN = "document_chunks"
"""The number of chunks of the row's document; null if the writer did not know."""
STATEMENTS = "statements"
"""What was extracted from the text, as a JSON list; null if nothing was."""
NAMES = "names"
"""Each name that the title or a sentence has, with its vector; null unless that was asked for."""

TOKENS, KEYS, LABELS, GRAPH = SEARCHED = "tokens", "keys", "labels", "graph"
"""What the dataset engine searches by; an index without these columns is searched in memory."""


def passage_schema(dimension: int, fingerprint: Mapping[str, str]) -> pa.Schema:
    """The schema of `passages.lance`: vectors of length `dimension`, pinned to one analyser.

    Vectors are half floats, which do not change rankings of unit vectors, and take half the space.
    """
    vector, strings = pa.list_(pa.float16(), dimension), pa.list_(pa.string())
    mentions = ("entities", strings), ("phrases", strings)
    types = {
        **dict.fromkeys(PASSAGE_COLUMNS, pa.string()),
        "chunk": pa.int32(),
        "content_hash": pa.string(),
        "vector": vector,
        "sentences": pa.list_(pa.struct([("text", pa.string()), ("vector", vector), *mentions])),
        LENGTH_COLUMN: pa.int32(),
        STATEMENTS: pa.string(),
        NAMES: pa.list_(pa.struct([("name", pa.string()), ("vector", vector)])),
    }
    pins = canonical_json(dict(fingerprint)).encode()
    return pa.schema(types, {VERSION_KEY: SCHEMA_VERSION.encode(), FINGERPRINT_KEY: pins})


def has_columns(schema: pa.Schema) -> bool:
    """Whether a dataset has the engine's columns."""
    return {*SEARCHED} <= {*schema.names}


def columns_of(schema: pa.Schema) -> list[str]:
    """The columns of a dataset that `to_passages` needs."""
    return [*PASSAGE_COLUMNS, *({STATEMENTS} & {*schema.names})]


def dimension_of(schema: pa.Schema) -> int:
    """Length d of a dataset's vectors."""
    return int(schema.field("vector").type.list_size)


def require_ours(folder: Path, schema: pa.Schema) -> None:
    """Check that a dataset is an index of this schema version.

    Raises:
        IndexNotFoundError: Wye did not write it.
        IndexMismatchError: It has another schema version.
    """
    version = (schema.metadata or {}).get(VERSION_KEY, b"").decode()
    if not version:
        raise IndexNotFoundError(
            f"{folder} holds a Lance dataset, but not one that Wye wrote. Check the path."
        )
    if version != SCHEMA_VERSION:
        raise IndexMismatchError(
            f"Index {folder} has schema version {version}; this Wye reads {SCHEMA_VERSION}. "
            "Index the corpus again into a new folder, or run the Wye that wrote it."
        )


def content_hash(passage: Passage) -> str:
    """128-bit hash in hex of everything that a row is computed from; equal hashes need no work."""
    fields = [
        passage.document,
        passage.chunk,
        passage.title,
        passage.text,
        canonical_json(dict(passage.metadata)),
        *passage.statements,
    ]
    return hashlib.blake2b(canonical_json(fields).encode(), digest_size=16).hexdigest()


def to_batch(
    passages: Sequence[Passage],
    analysed: Sequence[AnalysedPassage],
    schema: pa.Schema,
    lengths: Mapping[str, int] | None = None,
    encoder: PassageAnalyser | None = None,
) -> pa.RecordBatch:
    """Rows for n passages and their n analyses, in order; columns of no value are null.

    Args:
        lengths: Document -> its number of chunks, as far as that is known.
        encoder: Also stores a vector of each name, if given.

    Raises:
        ValueError: A vector has another length than the index's, or the lists differ in length.
    """
    dimension, pairs = dimension_of(schema), [*zip(passages, analysed, strict=True)]
    rows: list[dict[str, object]] = [
        {
            "id": passage.id,
            "document": passage.document,
            "chunk": passage.chunk,
            "title": passage.title,
            "text": passage.text,
            "metadata": canonical_json(dict(passage.metadata)),
            "content_hash": content_hash(passage),
            "vector": _halves(analysis.vector, dimension),
            "sentences": [
                {
                    "text": sentence.text,
                    "vector": _halves(sentence.vector, dimension),
                    "entities": sentence.entities,
                    "phrases": sentence.phrases,
                }
                for sentence in analysis.sentences
            ],
            LENGTH_COLUMN: (lengths or {}).get(passage.document),
            STATEMENTS: json.dumps(passage.statements) if passage.statements else None,
        }
        for passage, analysis in pairs
    ]
    if encoder is not None and NAMES in schema.names:
        names = [_names_of(passage, analysis) for passage, analysis in pairs]
        distinct = [*dict.fromkeys(chain.from_iterable(names))]
        vectors = dict(zip(distinct, encoder.encode_surfaces(distinct), strict=True))
        for row, of_row in zip(rows, names, strict=True):
            row[NAMES] = [{"name": x, "vector": _halves(vectors[x], dimension)} for x in of_row]
    return pa.RecordBatch.from_pylist(rows, schema)


def _names_of(passage: Passage, analysis: AnalysedPassage) -> list[str]:
    """The distinct names that a passage mentions or has as title, in order."""
    mentioned = (sentence.entities for sentence in analysis.sentences)
    return [*dict.fromkeys(chain(title_names(passage.title), *mentioned))]


def _halves(vector: Float32, dimension: int) -> Float16:
    halves: Float16 = np.asarray(vector, np.float16)
    if halves.shape != (dimension,):
        raise ValueError(
            f"The analyser returned a vector of shape {halves.shape}; this index holds {dimension} "
            "numbers for each. An analyser's `dimension` and its vectors must agree."
        )
    return halves


def to_passages(rows: pa.Table | pa.RecordBatch) -> list[Passage]:
    """The passages of rows with the columns of `columns_of`, in order."""
    return [
        Passage(
            **{name: row[name] for name in PASSAGE_COLUMNS if name != "metadata"},
            metadata=json.loads(row["metadata"]),
            statements=_read_statements(row.get(STATEMENTS)),
        )
        for row in rows.select(columns_of(rows.schema)).to_pylist()
    ]


def _read_statements(text: str | None) -> tuple[Statement, ...]:
    items = json.loads(text) if text else ()
    return tuple(item if isinstance(item, str) else tuple(item) for item in items)


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """A sentence as stored in a row."""

    text: str
    entities: tuple[str, ...]
    phrases: tuple[str, ...]
    vector: Float32


@dataclass(frozen=True, slots=True)
class StoredAnalysis:
    """The analysis of a passage as stored in its row."""

    vector: Float32
    sentences: Sequence[StoredSentence]


def to_analyses(rows: pa.Table) -> list[StoredAnalysis]:
    """The analyses of rows with `ANALYSIS_COLUMNS`, in order."""
    lists = rows.column("sentences").combine_chunks()
    flat = lists.flatten()
    texts, *mentions = (flat.field(name).to_pylist() for name in ("text", "entities", "phrases"))
    entities, phrases = (map(tuple, names) for names in mentions)
    sentences = map(StoredSentence, texts, entities, phrases, _vectors(flat.field("vector")))
    vectors = _vectors(rows.column("vector").combine_chunks())
    lengths = lists.value_lengths().to_pylist()
    return [
        StoredAnalysis(vector, [*islice(sentences, length)])
        for vector, length in zip(vectors, lengths, strict=True)
    ]


def _vectors(column: pa.FixedSizeListArray) -> Float32:
    """(n, d) vectors of a column."""
    flat: Float32 = column.flatten().to_numpy().astype(np.float32)
    return flat.reshape(len(column), column.type.list_size)


def any_of(column: str, values: Collection[str]) -> str:
    """SQL for "column is one of values"; DataFusion's strings need only quotes escaped.

    No row has a value with a lone surrogate, and the query could not be encoded with it.
    """
    quoted = ["'" + value.replace("'", "''") + "'" for value in values if not _LONE.search(value)]
    if not quoted:
        return "FALSE"
    return f"{column} IN ({', '.join(quoted)})"
