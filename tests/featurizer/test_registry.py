import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.registry import (
    FEATURE_NAMES,
    FEATURES,
    TREE_FEATURES,
    Float64,
    schema_id,
    syntax_matrix,
)
from wye.featurizer.types import Syntax


def test_at_least_a_hundred_names_are_unique_and_in_the_groups_of_the_design() -> None:
    assert len(FEATURES) >= 100
    groups = ["constituency", "tree", "dependency", "lexical", "semantic"]
    groups += ["relation", "interaction"]
    assert list(dict.fromkeys(feature.group for feature in FEATURES)) == groups
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)
    assert [name for name in FEATURE_NAMES if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


def test_every_feature_says_what_it_is_in_one_sentence_and_without_a_divisor() -> None:
    for feature in FEATURES:
        assert re.fullmatch(r"[A-Z].*[^.]\.", feature.doc), feature.name
        assert ". " not in feature.doc, feature.name
    ratios = [f for f in FEATURES if "_per_" in f.name or f.name.endswith(("_share", "_mean"))]
    assert len(ratios) > 30
    assert [f.name for f in ratios if "; 0 without" not in f.doc] == []


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


def test_only_what_is_wanted_is_computed(chain: Syntax, choice: Syntax) -> None:
    wanted = ["relation_chain_max", "words"]
    whole, part = syntax_matrix([chain, choice]), syntax_matrix([chain, choice], wanted)
    columns = [FEATURE_NAMES.index(name) for name in wanted]
    assert np.array_equal(part[:, columns], whole[:, columns])
    assert np.isnan(np.delete(part, columns, axis=1)).all()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_features_not_of_trees_need_none(questions: SyntaxParser, texts: list[str]) -> None:
    whole = [*questions.parse(texts), *questions.parse(["Who built the bridge that fell?"])]
    without = [replace(syntax, trees=()) for syntax in whole]
    same = (syntax_matrix(whole) == syntax_matrix(without)).all(axis=0)
    others = {name for name, is_same in zip(FEATURE_NAMES, same, strict=True) if not is_same}
    assert others <= TREE_FEATURES


PROGRAM = """
import hashlib, json, sys
from wye.featurizer.analyser import AnalyserSettings
from wye.featurizer.registry import schema_id, syntax_matrix
from wye.featurizer.analyser import open_syntax_parser
parser = open_syntax_parser(AnalyserSettings())
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
