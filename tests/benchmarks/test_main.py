"""Every benchmark has options, and says what it misses."""

from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, main, usage


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_tells_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_an_unknown_name_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sprint"]) == 2
    assert usage() in capsys.readouterr().err
    assert main(["../x"]) == 2
    assert main(["--help"]) == 0
    assert "crash --kills" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("load FOLDER", "cannot be read"),
        ("load FOLDER/asked.txt", "name an index with --index"),
        ("quality --against FOLDER/none.json", "has no figures"),
        ("quality FOLDER", "queries.jsonl"),
    ],
)
def test_what_is_missing_is_a_sentence_and_exit_code_2(
    arguments: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.txt").write_text("Who came?\n")
    assert main(arguments.replace("FOLDER", str(tmp_path)).split()) == 2
    assert said in capsys.readouterr().err
