"""The technical benchmark builds the same way twice and its judgements fit its corpus."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.technical import build as builder
from benchmarks.technical.prose import paragraphs, word_count

pytest.importorskip("sklearn", reason="the technical corpus is built from its docstrings")

DOCSTRING = """Smooth a signal.

    Extended summary with ``code``, :func:`~pkg.mod.other` and *stress* [1]_.

    Parameters
    ----------
    width : int
        Short one.
    mode : str
        What happens at the border of the signal, where the window would reach past the last
        sample and no neighbour is left to average over:

        - 'cut' shortens the window
        - 'pad' repeats the last sample

    Notes
    -----
    A formula follows::

        y = f(x)

    .. math:: y = x^2

    .. warning::
       Wide windows blur edges.

    .. versionadded:: 1.2
       The `mode` keyword.

    ====  ====
    a     b
    ====  ====

    >>> smooth([1, 2])

    Examples
    --------
    Nothing of this is kept.
    """


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out_dir = tmp_path_factory.mktemp("technical")
    builder.build(out_dir)
    return out_dir


@pytest.fixture(scope="module")
def corpus(built: Path) -> dict[str, dict[str, Any]]:
    return {row["_id"]: row for row in read_rows(built / "corpus.jsonl")}


@pytest.fixture
def copied_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path / "data"
    shutil.copytree(builder.DATA / "qrels", data / "qrels")
    shutil.copy(builder.DATA / "queries.jsonl", data)
    monkeypatch.setattr(builder, "DATA", data)
    return data


def test_ids_are_unique_and_start_with_the_title(built: Path) -> None:
    rows = read_rows(built / "corpus.jsonl")
    assert len({row["_id"] for row in rows}) == len(rows)
    assert all(row["_id"].partition("#")[0] == row["title"] for row in rows)


def test_size_is_the_intended_one(corpus: dict[str, dict[str, Any]]) -> None:
    assert 800 <= len(corpus) <= 2000


def test_no_passage_is_empty_or_short(corpus: dict[str, dict[str, Any]]) -> None:
    assert all(word_count(row["text"]) >= builder.MIN_WORDS for row in corpus.values())


def test_no_markup_is_left(corpus: dict[str, dict[str, Any]]) -> None:
    marks = (">>>", "``", ":func:", ":class:", ":ref:", ".. math::", ".. versionadded")
    assert not [key for key, row in corpus.items() if any(mark in row["text"] for mark in marks)]


@pytest.mark.parametrize(("split", "questions"), [("dev", 15), ("test", 30)])
def test_every_judged_passage_exists(
    built: Path, corpus: dict[str, dict[str, Any]], split: str, questions: int
) -> None:
    qrels = builder.read_qrels(built / "qrels" / f"{split}.tsv")
    assert len(qrels) == questions
    assert all(passage in corpus for docs in qrels.values() for passage in docs)
    assert {score for docs in qrels.values() for score in docs.values()} == {1}


def test_questions_carry_what_their_metadata_says(
    built: Path, corpus: dict[str, dict[str, Any]]
) -> None:
    qrels = {
        query: docs
        for split in builder.SPLITS
        for query, docs in builder.read_qrels(built / "qrels" / f"{split}.tsv").items()
    }
    for row in read_rows(built / "queries.jsonl"):
        texts = [corpus[passage]["text"].lower() for passage in qrels[row["_id"]]]
        answers = row["metadata"].get("answers", [])
        assert len(texts) >= row["metadata"]["hops"], row["_id"]
        assert all(any(a.lower() in text for text in texts) for a in answers), row["_id"]


def test_a_second_build_in_another_process_gives_the_same_bytes(
    built: Path, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-m", "benchmarks.technical.build", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=Path(builder.__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    files = sorted(path.relative_to(built) for path in built.rglob("*") if path.is_file())
    assert [str(path) for path in files] == [
        "corpus.jsonl",
        "qrels/dev.tsv",
        "qrels/test.tsv",
        "queries.jsonl",
    ]
    assert all((built / path).read_bytes() == (tmp_path / path).read_bytes() for path in files)


def test_a_judged_passage_that_is_missing_is_named(
    copied_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (copied_data / "qrels" / "test.tsv").open("a", encoding="utf-8") as handle:
        handle.write("technical-test-01\tscipy.optimize.no_such_thing#9\t1\n")
    assert builder.main([str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert "qrels/test.tsv" in message
    assert "scipy.optimize.no_such_thing#9" in message
    assert "Judged against scikit-learn" in message
    assert not (tmp_path / "out").exists()


def test_a_question_without_judgement_is_named(
    copied_data: Path, corpus: dict[str, dict[str, Any]]
) -> None:
    with (copied_data / "queries.jsonl").open("a", encoding="utf-8") as handle:
        handle.write('{"_id": "technical-test-99", "text": "?", "metadata": {}}\n')
    with pytest.raises(builder.BuildError, match="technical-test-99"):
        builder.check_judgements(set(corpus), copied_data)


def test_a_missing_package_is_named() -> None:
    source = builder.Source("no-such-distribution", ("no_such_module",))
    with pytest.raises(builder.BuildError, match="pip install no-such-distribution"):
        builder.build_corpus([source])


def test_paragraphs_keep_the_prose_and_drop_the_rest() -> None:
    assert paragraphs(DOCSTRING) == [
        "Smooth a signal.",
        "Extended summary with code, other and stress.",
        "A formula follows:",
        "Wide windows blur edges.",
        "mode: What happens at the border of the signal, where the window would reach past the "
        "last sample and no neighbour is left to average over: 'cut' shortens the window. "
        "'pad' repeats the last sample",
    ]
