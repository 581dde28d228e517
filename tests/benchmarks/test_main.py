"""Every benchmark has options, and those that need no server start on a tiny input."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends.trigraph.retriever import TriGraphSettings
from benchmarks import features, retrieval, scale
from benchmarks.__main__ import OTHERS, QUICK, main, usage
from benchmarks.harness import DEMO


@pytest.mark.parametrize("name", [*QUICK, *OTHERS])
def test_each_tells_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_every_module_is_a_benchmark_or_shared() -> None:
    folder = Path(scale.__file__).parent
    modules = {path.stem for path in folder.glob("[!_]*.py")}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    shared = {"base_model_server", "decomposition", "harness", "hashing", "linearrag_driver"}
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
        ("scale --vectors 600 --graphs 200", ["exact", "compressed", "200"]),
        (
            "router --questions 80 --features 12 --members 1",
            ["linear", "attention-mlp", "solve, all pairs", "bootstrap, 200 resamples"],
        ),
        (
            "log_replay --lines 300 --max-latency-ms 20",
            ["writing the log", "wye tune --from-log, peak memory"],
        ),
        (
            "features --questions QUESTIONS --rounds 1 --dtype float32",
            ["spaCy", "tree", "encoder", "features", "all of it", "constituency model"],
        ),
        pytest.param(
            "indexing CORPUS --modes default",
            ["default: wall", "default: processor"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_it_starts(
    arguments: str, rows: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.txt"
    questions.write_text("Who came?\n\nWhere is the ferry to Oslo?\n", encoding="utf-8")
    passages = [{"_id": f"p{i}", "title": "Oslo", "text": "A ferry."} for i in range(3)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)), encoding="utf-8")
    given = arguments.replace("QUESTIONS", str(questions)).replace("CORPUS", str(tmp_path))
    assert main(given.split()) == 0
    printed = capfd.readouterr().out
    assert all(f"# {name} " in printed for name in ("machine", "software", "commit", "seed"))
    assert all(f"\n{row} " in printed for row in rows)


@pytest.mark.usefixtures("fake_models")
def test_retrieval(
    tmp_path: Path, wye: Callable[..., tuple[int, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert wye("index", DEMO, "--index", tmp_path)[0] == 0
    assert (
        main(["retrieval", str(DEMO), "--index", str(tmp_path), "--rounds", "1", "--ablation"]) == 0
    )
    printed = capsys.readouterr().out
    for arm in ("dense", "dense, compressed", "lexical", "graph", "graph, local walks"):
        assert f"\n{arm} " in printed
    assert "\nfirst answer, graph " in printed
    assert "published: not measured. This index holds no" in printed
    lines = printed.splitlines()
    default = next(line for line in lines if line.startswith("default"))
    last = next(line for line in lines if line.startswith("+ noun phrases  "))
    assert default.split()[1::3] == last.split()[3::3]


def test_the_ablation_ends_at_the_defaults() -> None:
    *_, (_, last) = retrieval.added()
    assert last == TriGraphSettings()
    for variants in (retrieval.without(), retrieval.added()):
        settings = [settings for _, settings in variants]
        assert len(set(settings)) == len(settings)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("retrieval --index FOLDER", "There is no index"),
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


def test_made_up_entities_follow_the_power_law() -> None:
    drawn = scale.power_law(200_000, 1000, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=1000)
    assert counts.sum() == 200_000
    ratio = counts[0] / counts[15:17].mean()
    assert ratio == pytest.approx(16.5**scale.EXPONENT, rel=0.25)
