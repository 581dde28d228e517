import pytest

from benchmarks import dense


def test_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    dense.main(["--passages", "600", "--dimension", "16", "--questions", "40"])
    rows = capsys.readouterr().out.splitlines()[-4:]
    assert [row.split()[0] for row in rows] == ["FAISS", '{"kind":', '{"kind":', '{"kind":']
    assert [row.split()[2:4] for row in rows[:2]] == [["600", "1.000"]] * 2
