"""The rows of an index: their Arrow schema, and what is read of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from wye.backends.files import canonical_json
from wye.backends.types import Float32, Passage, Statement

SCHEMA_VERSION = "1"
VERSION_KEY = b"wye.schema"
FINGERPRINT_KEY = b"wye.fingerprint"

PASSAGE_COLUMNS = ("id", "document", "chunk", "title", "text", "metadata")
ANALYSIS_COLUMNS = ("vector", "sentences")  # the columns that `to_analyses` needs
# An index that was made before there were these columns stays without them.
LENGTH_COLUMN = "document_chunks"  # chunks of the row's document; null if not known
STATEMENTS = "statements"  # what was extracted from the text, as a JSON list; null if nothing was
NAMES = "names"  # the row's names with vectors; null unless that was asked for

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


def columns_of(schema: pa.Schema) -> list[str]:
    """The columns of a dataset that `to_passages` needs."""
    return [*PASSAGE_COLUMNS, *({STATEMENTS} & {*schema.names})]


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
    of_rows = [[*islice(sentences, length)] for length in lists.value_lengths().to_pylist()]
    return [*map(StoredAnalysis, vectors, of_rows)]


def _vectors(column: pa.FixedSizeListArray) -> Float32:
    """(n, d) vectors of a column."""
    flat: Float32 = column.flatten().to_numpy().astype(np.float32)
    return flat.reshape(len(column), column.type.list_size)
