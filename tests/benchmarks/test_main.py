"""Every benchmark has options, and those that need no server start on a tiny input."""

from pathlib import Path

import pytest

from benchmarks import features
from benchmarks.__main__ import OTHERS, QUICK, main, usage


@pytest.mark.parametrize("name", [*QUICK, *OTHERS])
def test_each_tells_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_every_module_is_a_benchmark_or_shared() -> None:
    folder = Path(features.__file__).parent
    modules = {path.stem for path in folder.glob("[!_]*.py")}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    shared = {"base_model_server", "decomposition", "harness", "linearrag_driver"}
    assert modules == {*QUICK, *OTHERS, *shared}


def test_an_unknown_name_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sprint"]) == 2
    assert usage() in capsys.readouterr().err
    assert main(["../x"]) == 2
    assert main(["--help"]) == 0
    assert "crash --kills" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (
            "features --questions QUESTIONS --rounds 1 --dtype float32",
            ["spaCy", "tree", "encoder", "features", "all of it", "constituency model"],
        ),
    ],
)
def test_it_starts(
    arguments: str, rows: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("Who came?\n\nWhere is the ferry to Oslo?\n", encoding="utf-8")
    assert main(arguments.replace("QUESTIONS", str(questions)).split()) == 0
    printed = capfd.readouterr().out
    assert all(f"# {name} " in printed for name in ("machine", "software", "commit", "seed"))
    assert all(f"\n{row} " in printed for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("steps --index FOLDER", "There is no index"),
        ("load FOLDER", "holds no questions"),
        ("load FOLDER/asked.txt", "name an index with --index"),
        ("features --questions FOLDER/none.txt", "none.txt"),
        ("features --questions FOLDER/empty.txt", "There is no question"),
        ("fusion FOLDER --fit none", "none"),
    ],
)
def test_what_is_missing_is_a_sentence_and_exit_code_2(
    arguments: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "asked.txt").write_text("Who came?\n")
    assert main(arguments.replace("FOLDER", str(tmp_path)).split()) == 2
    assert said in capsys.readouterr().err


def test_only_whole_batches_are_timed() -> None:
    seen: list[int] = []
    p50, p95, p99, _ = features.time_stage(
        lambda texts: seen.append(len(texts)), ["?"] * 70, 32, rounds=2
    )
    assert seen == [32] * 6
    assert 0 <= p50 <= p95 <= p99
