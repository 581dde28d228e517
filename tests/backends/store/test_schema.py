"""Rows hold what passages and analyses say, and hashes tell apart what differs."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.store.schema import (
    content_hash,
    dimension_of,
    fingerprint_of,
    metadata_json,
    passage_schema,
    to_batch,
    to_passages,
    version_of,
)
from backends.types import Metadata, Passage
from featurizer.types import PassageAnalysis, SentenceAnalysis

DIMENSION = 3
SCHEMA = passage_schema(DIMENSION, {"encoder": "e", "parser": "p"})

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalar = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | text
metadata = st.dictionaries(text, scalar | st.lists(scalar, max_size=3), max_size=3)
passages = st.builds(Passage, text, text, text, metadata, text, st.integers(0, 2**31 - 1))
vectors = st.lists(st.floats(-1, 1, width=16), min_size=DIMENSION, max_size=DIMENSION).map(
    lambda numbers: np.array(numbers, np.float32)
)
names = st.lists(text, max_size=3).map(tuple)
sentences = st.builds(SentenceAnalysis, text, names, names, vectors)
analyses = st.builds(PassageAnalysis, vectors, st.lists(sentences, max_size=3).map(tuple))


def to_analysed(rows: pa.RecordBatch) -> list[PassageAnalysis]:
    return [
        PassageAnalysis(
            vector=np.array(vector, np.float32),
            sentences=tuple(
                SentenceAnalysis(
                    text=sentence["text"],
                    entities=tuple(sentence["entities"]),
                    phrases=tuple(sentence["phrases"]),
                    vector=np.array(sentence["vector"], np.float32),
                )
                for sentence in sentences
            ),
        )
        for vector, sentences in zip(
            rows.column("vector").to_pylist(), rows.column("sentences").to_pylist(), strict=True
        )
    ]


@given(st.lists(st.tuples(passages, analyses), max_size=4))
def test_rows_give_back_what_went_in(pairs: list[tuple[Passage, PassageAnalysis]]) -> None:
    batch = to_batch([p for p, _ in pairs], [a for _, a in pairs], SCHEMA)
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert to_passages(batch) == [p for p, _ in pairs]
    for stored, (_, given_) in zip(to_analysed(batch), pairs, strict=True):
        assert stored.vector.tolist() == given_.vector.tolist()
        assert [(s.text, s.entities, s.phrases) for s in stored.sentences] == [
            (s.text, s.entities, s.phrases) for s in given_.sentences
        ]
        for ours, theirs in zip(stored.sentences, given_.sentences, strict=True):
            assert ours.vector.tolist() == theirs.vector.tolist()


def test_a_schema_states_what_it_is_pinned_to() -> None:
    assert version_of(SCHEMA) == "1"
    assert version_of(SCHEMA.remove_metadata()) is None
    assert fingerprint_of(SCHEMA) == {"encoder": "e", "parser": "p"}
    assert dimension_of(SCHEMA) == DIMENSION


def test_the_hash_covers_every_part_and_ignores_the_order_of_metadata() -> None:
    base = Passage("a", "t", "x", {"k": 1, "l": 2}, "d", 0)
    others = [
        Passage("a", "T", "x", {"k": 1, "l": 2}, "d", 0),
        Passage("a", "t", "X", {"k": 1, "l": 2}, "d", 0),
        Passage("a", "t", "x", {"k": True, "l": 2}, "d", 0),
        Passage("a", "t", "x", {"k": 1.0, "l": 2}, "d", 0),
        Passage("a", "t", "x", {"k": "1", "l": 2}, "d", 0),
        Passage("a", "t", "x", {"k": 1, "l": 2}, "D", 0),
        Passage("a", "t", "x", {"k": 1, "l": 2}, "d", 1),
        Passage("a", "tx", "", {"k": 1, "l": 2}, "d", 0),
    ]
    assert len({content_hash(p) for p in [base, *others]}) == 1 + len(others)
    assert content_hash(base) == content_hash(Passage("a", "t", "x", {"l": 2, "k": 1}, "d", 0))
    assert len(content_hash(base)) == 32


@given(metadata)
def test_metadata_json_is_json_with_sorted_keys(value: Metadata) -> None:
    parsed = json.loads(metadata_json(value))
    assert parsed == value
    assert list(parsed) == sorted(parsed)


def test_metadata_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        metadata_json({"score": float("nan")})


def test_a_vector_of_another_length_is_refused() -> None:
    wrong = PassageAnalysis(np.zeros(DIMENSION + 1, np.float32), ())
    with pytest.raises(ValueError, match="this index holds 3 numbers for each"):
        to_batch([Passage("a", "", "x")], [wrong], SCHEMA)


def test_passages_and_analyses_must_pair_up() -> None:
    with pytest.raises(ValueError, match="1 passages came with 0 analyses"):
        to_batch([Passage("a", "", "x")], [], SCHEMA)
