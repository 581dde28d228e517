"""The rows of an index: their Arrow schema, and conversion of passages to rows and back."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from wye.backends.errors import IndexMismatchError, IndexNotFoundError
from wye.backends.files import canonical_json
from wye.backends.text import title_names
from wye.backends.types import (
    AnalysedPassage,
    AnalysedSentence,
    Float32,
    Metadata,
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


def engine_fields() -> list[pa.Field]:
    """The columns of the dataset engine, null in a row that was written without it."""
    types = pa.string(), pa.string(), pa.list_(pa.string()), pa.large_binary()
    return [pa.field(name, type_) for name, type_ in zip(SEARCHED, types, strict=True)]


def passage_schema(dimension: int, fingerprint: Mapping[str, str]) -> pa.Schema:
    """The schema of `passages.lance`: vectors of length `dimension`, pinned to one analyser.

    Vectors are half floats, which do not change rankings of unit vectors, and take half the space.
    """
    vector, strings = pa.list_(pa.float16(), dimension), pa.list_(pa.string())
    mentions = ("entities", strings), ("phrases", strings)
    sentence = pa.struct([("text", pa.string()), ("vector", vector), *mentions])
    name = pa.struct([("name", pa.string()), ("vector", vector)])
    fields = [
        pa.field("id", pa.string()),
        pa.field("document", pa.string()),
        pa.field("chunk", pa.int32()),
        pa.field("title", pa.string()),
        pa.field("text", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("content_hash", pa.string()),
        pa.field("vector", vector),
        pa.field("sentences", pa.list_(sentence)),
        pa.field(LENGTH_COLUMN, pa.int32()),
        pa.field(STATEMENTS, pa.string()),
        pa.field(NAMES, pa.list_(name)),
    ]
    pins = canonical_json(dict(fingerprint)).encode()
    return pa.schema(fields, {VERSION_KEY: SCHEMA_VERSION.encode(), FINGERPRINT_KEY: pins})


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


def fingerprint_of(schema: pa.Schema) -> dict[str, str]:
    """The analyser that a dataset of ours is pinned to."""
    fingerprint: dict[str, str] = json.loads(schema.metadata[FINGERPRINT_KEY])
    return fingerprint


def metadata_json(metadata: Metadata) -> str:
    """Metadata as canonical JSON: equal metadata give equal text.

    Raises:
        ValueError: It has NaN or an infinity, which JSON cannot represent.
    """
    return canonical_json(dict(metadata))


def content_hash(passage: Passage) -> str:
    """128-bit hash in hex of everything that a row is computed from; equal hashes need no work."""
    fields = [
        passage.document,
        passage.chunk,
        passage.title,
        passage.text,
        metadata_json(passage.metadata),
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
    """Rows for n passages and their n analyses, in order.

    Args:
        lengths: Document -> its number of chunks, as far as that is known.
        encoder: Also stores a vector of each name, if given.

    Raises:
        ValueError: A vector has another length than the index's, or the lists differ in length.
    """
    dimension = dimension_of(schema)
    columns = {
        **{
            name: pa.array([getattr(p, name) for p in passages], schema.field(name).type)
            for name in ("id", "document", "chunk", "title", "text")
        },
        "metadata": pa.array([metadata_json(p.metadata) for p in passages], pa.string()),
        "content_hash": pa.array([content_hash(p) for p in passages], pa.string()),
        "vector": vector_array([a.vector for a in analysed], dimension),
        "sentences": _sentence_lists([a.sentences for a in analysed], schema),
        LENGTH_COLUMN: pa.array([(lengths or {}).get(p.document) for p in passages], pa.int32()),
        STATEMENTS: pa.array(
            [json.dumps(p.statements) if p.statements else None for p in passages], pa.string()
        ),
    }
    if encoder is not None and NAMES in schema.names:
        names = [_names_of(*pair) for pair in zip(passages, analysed, strict=True)]
        flat = [*chain.from_iterable(names)]
        distinct = [*dict.fromkeys(flat)]
        vectors = dict(zip(distinct, encoder.encode_surfaces(distinct), strict=True))
        values = vector_array([vectors[name] for name in flat], dimension)
        columns[NAMES] = _structs(names, [pa.array(flat, pa.string()), values], schema.field(NAMES))
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(len(passages), field.type)
        for field in schema  # `backends.dataset` fills the columns of the engine
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _names_of(passage: Passage, analysis: AnalysedPassage) -> list[str]:
    """The distinct names that a passage mentions or has as title, in order."""
    mentioned = (sentence.entities for sentence in analysis.sentences)
    return [*dict.fromkeys(chain(title_names(passage.title), *mentioned))]


def vector_array(vectors: Sequence[Float32] | Float32, dimension: int) -> pa.FixedSizeListArray:
    """Vectors of one length as an Arrow column of half floats.

    Raises:
        ValueError: A vector has another length.
    """
    rows = np.asarray(vectors, dtype=np.float16) if len(vectors) else np.empty((0, dimension), "f2")
    if rows.shape != (len(vectors), dimension):
        raise ValueError(
            f"The analyser returned vectors of shape {rows.shape}; this index holds {dimension} "
            "numbers for each. An analyser's `dimension` and its vectors must agree."
        )
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float16()), dimension)


def to_passages(rows: pa.Table | pa.RecordBatch) -> list[Passage]:
    """The passages of rows with the columns of `columns_of`, in order."""
    columns = [rows.column(name).to_pylist() for name in PASSAGE_COLUMNS]
    has_statements = STATEMENTS in rows.schema.names
    columns.append(rows.column(STATEMENTS).to_pylist() if has_statements else [None] * len(rows))
    return [
        Passage(
            id_, title, text, json.loads(metadata), document, chunk, _read_statements(statements)
        )
        for id_, document, chunk, title, text, metadata, statements in zip(*columns, strict=True)
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
    names = ("text", "entities", "phrases")
    columns = (flat.field(name).to_pylist() for name in names)
    sentences = [
        StoredSentence(text, tuple(entities), tuple(phrases), vector)
        for text, entities, phrases, vector in zip(
            *columns, _vectors(flat.field("vector")), strict=True
        )
    ]
    ends = np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False)).tolist()
    vectors = _vectors(rows.column("vector").combine_chunks())
    return [
        StoredAnalysis(vector, sentences[start:end])
        for vector, start, end in zip(vectors, [0, *ends], ends, strict=False)
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


def _sentence_lists(
    sentences: Sequence[Sequence[AnalysedSentence]], schema: pa.Schema
) -> pa.ListArray:
    """The `sentences` column: one list of structs for each passage."""
    flat = [*chain.from_iterable(sentences)]
    values = [
        pa.array([s.text for s in flat], pa.string()),
        vector_array([s.vector for s in flat], dimension_of(schema)),
        pa.array([s.entities for s in flat], pa.list_(pa.string())),
        pa.array([s.phrases for s in flat], pa.list_(pa.string())),
    ]
    return _structs(sentences, values, schema.field("sentences"))


def _structs(
    lists: Sequence[Sequence[object]], values: Sequence[pa.Array], field: pa.Field
) -> pa.ListArray:
    """Lists of these lengths of the structs with some values, which are end to end."""
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int32)
    structs = pa.StructArray.from_arrays(values, fields=list(field.type.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), structs)
