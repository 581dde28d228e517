"""Feature matrices: finite, of one width, and the same bytes whoever computes them."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurizer.constituency.parser import SyntaxParser
from featurizer.errors import FeaturizerError
from featurizer.registry import (
    FEATURE_NAMES,
    FEATURES,
    Float64,
    feature_matrix,
    schema_id,
    syntax_matrix,
)
from featurizer.types import Analysis, Parse, Syntax

QUESTIONS = Path(__file__).with_name("questions.txt").read_text(encoding="utf-8").splitlines()
PIECES = "Who what Oslo the of 's and or not built (1926) is ? , \u05d0\u05d1 \U0001f600 \u2014 a"
WORDS = st.sampled_from([*PIECES.split(), "\n", " "])
TEXTS = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=30).map(" ".join))
PARSERS = {"parser": "en 1", "constituency": "sha256:1", "syntax": "1"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.lists(TEXTS, max_size=5))
def test_every_text_has_finite_features_that_are_the_same_twice(
    questions: SyntaxParser, texts: list[str]
) -> None:
    matrix = syntax_matrix(questions.parse(texts))
    assert matrix.shape == (len(texts), len(FEATURE_NAMES))
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()
    alone = [syntax_matrix(questions.parse([text])).tobytes() for text in texts]
    assert [row.tobytes() for row in matrix] == alone


def test_columns_are_in_the_order_of_the_registry(chain: Syntax) -> None:
    (row,) = feature_matrix([_analysis(chain)])
    column = FEATURE_NAMES.index("relation_chain_max")
    assert row[column] == 2
    assert FEATURES[column].name == "relation_chain_max"


def test_no_questions_make_an_empty_matrix() -> None:
    assert feature_matrix([]).shape == (0, len(FEATURE_NAMES))


def test_an_analysis_without_syntax_is_refused(chain: Syntax) -> None:
    with pytest.raises(FeaturizerError, match=r"1 of 2 questions .* syntax=True"):
        feature_matrix([_analysis(chain), _analysis(None)])


def _analysis(syntax: Syntax | None) -> Analysis:
    return Analysis(Parse("", (), (), ()), np.zeros(0, np.float32), (), syntax)


PROGRAM = """
import hashlib, json, sys
from featurizer.analyser import AnalyserSettings
from featurizer.registry import schema_id, syntax_matrix
from featurizer.constituency.parser import open_syntax_parser
parser = open_syntax_parser(AnalyserSettings().pipeline, AnalyserSettings().constituency)
questions = json.loads(sys.stdin.read())
for start in range(0, len(questions), int(sys.argv[1])):
    matrix = syntax_matrix(parser.parse(questions[start : start + int(sys.argv[1])]))
    for row in matrix:
        print(hashlib.sha256(row.tobytes()).hexdigest())
print(schema_id(parser.fingerprint))
"""


def test_other_processes_compute_the_same_bytes(questions: SyntaxParser) -> None:
    matrix: Float64 = syntax_matrix(questions.parse(QUESTIONS))
    expected = [hashlib.sha256(row.tobytes()).hexdigest() for row in matrix]
    expected.append(schema_id(questions.fingerprint))
    for hash_seed, batch in (("1", 1), ("2", 7)):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(batch)],
            input=json.dumps(QUESTIONS),
            capture_output=True,
            encoding="utf-8",
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert done.stdout.split() == expected


def test_the_schema_is_that_of_features_and_parsers() -> None:
    known = schema_id(PARSERS)
    assert len(known) == 16
    assert schema_id(dict(reversed(PARSERS.items()))) == known
    for name in PARSERS:
        assert schema_id({**PARSERS, name: "another"}) != known
    first, *others = FEATURES
    for other in (
        replace(first, name="other"),
        replace(first, group="other"),
        replace(first, version=first.version + 1),
    ):
        assert schema_id(PARSERS, [other, *others]) != known
    assert schema_id(PARSERS, others) != known
    assert schema_id(PARSERS, [*others, first]) != known
    assert schema_id(PARSERS, [replace(first, doc="Said otherwise."), *others]) == known


def test_the_encoder_is_no_part_of_the_schema(questions: SyntaxParser) -> None:
    assert set(questions.fingerprint) == {"parser", "constituency", "syntax"}
