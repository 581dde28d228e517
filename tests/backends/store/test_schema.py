"""Rows hold what passages and analyses say, and hashes tell apart what differs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.store.schema import (
    content_hash,
    passage_schema,
    to_batch,
    to_passages,
)
from wye.backends.types import Passage
from wye.featurizer.types import PassageAnalysis, SentenceAnalysis

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


@given(st.lists(st.tuples(passages, analyses), max_size=4))
def test_rows_give_back_what_went_in(pairs: list[tuple[Passage, PassageAnalysis]]) -> None:
    batch = to_batch([p for p, _ in pairs], [a for _, a in pairs], SCHEMA)
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert to_passages(batch) == [p for p, _ in pairs]
    assert batch["vector"].to_pylist() == [a.vector.tolist() for _, a in pairs]
    assert batch["sentences"].to_pylist() == [
        [
            {
                "text": s.text,
                "entities": list(s.entities),
                "phrases": list(s.phrases),
                "vector": s.vector.tolist(),
            }
            for s in a.sentences
        ]
        for _, a in pairs
    ]


PARTS: list[dict[str, Any]] = [
    {"title": "T"},
    {"text": "X"},
    {"document": "D"},
    {"chunk": 1},
    {"title": "tx", "text": ""},
]


def test_the_hash_covers_every_part_and_ignores_the_order_of_metadata() -> None:
    base = Passage("a", "t", "x", {"k": 1, "l": 2}, "d", 0)
    others = [
        *(replace(base, **part) for part in PARTS),
        *(replace(base, metadata={"k": k, "l": 2}) for k in (True, 1.0, "1")),
    ]
    assert len({content_hash(p) for p in [base, *others]}) == 1 + len(others)
    assert content_hash(base) == content_hash(Passage("a", "t", "x", {"l": 2, "k": 1}, "d", 0))
    assert len(content_hash(base)) == 32


def test_what_does_not_fit_is_refused() -> None:
    wrong = PassageAnalysis(np.zeros(DIMENSION + 1, np.float32), ())
    with pytest.raises(ValueError, match="this index holds 3 numbers for each"):
        to_batch([Passage("a", "", "x")], [wrong], SCHEMA)
