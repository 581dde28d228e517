from pathlib import Path

import numpy as np
import pytest

from benchmarks import features


def test_every_stage_is_timed_and_gates_stand_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("Who came?\n\nWhere is the ferry to Oslo?\n", encoding="utf-8")
    assert features.main(["--questions", str(file), "--rounds", "1", "--dtype", "float32"]) == 0
    out = capsys.readouterr().out
    for stage in ("spaCy", "tree", "encoder", "features", features.ALL, "constituency model"):
        assert out.count(f"\n{stage} ") >= (1 if stage == "constituency model" else 2)
    assert "2 questions" in out
    assert "p50 <=18" in out
    assert "encoder float32" in out


def test_a_missing_file_or_model_is_a_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert features.main(["--questions", str(tmp_path / "none.txt")]) == 2
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    assert features.main(["--questions", str(empty)]) == 2
    monkeypatch.setenv("WYE_ANALYSER__CONSTITUENCY__MODEL", str(tmp_path))
    assert features.main([]) == 2
    err = capsys.readouterr().err
    assert "none.txt" in err
    assert "no question in" in err
    assert "lacks the file" in err


def test_only_whole_batches_are_timed() -> None:
    seen: list[int] = []
    p50, p95, p99, _ = features.time_stage(
        lambda texts: seen.append(len(texts)), ["?"] * 70, 32, rounds=2
    )
    assert seen == [32] * 6
    assert 0 <= p50 <= p95 <= p99


@pytest.mark.parametrize(
    ("name", "p50", "p99", "batch", "said"),
    [
        ("tree", 2.0, 9.0, 1, "p50 <=3 ok"),
        (features.ALL, 18.5, 39.0, 1, "p50 <=18 MISSED, p99 <=40 ok"),
        (features.ALL, 4.0, 99.0, 32, "<=5 ok"),
        ("tree", 2.0, 9.0, 32, "-"),
        ("spaCy", 2.0, np.nan, 1, "-"),
    ],
)
def test_gates(name: str, p50: float, p99: float, batch: int, said: str) -> None:
    assert features.verdict(name, p50, p99, batch) == said
