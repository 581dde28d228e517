"""The benchmark of quality over the demo, with few questions."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.quality import ALL, RECORDED, SYSTEMS


@pytest.mark.slow
def test_figures_are_recorded_and_a_difference_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    command = f"quality --limit 4 --indexes {tmp_path}"
    assert main(f"{command} --write {file}".split()) == 0
    figures = json.loads(file.read_text("utf-8"))
    assert [*figures["demo"]] == [*SYSTEMS]
    assert figures["demo"] == figures[ALL]
    hybrid, steps = (figures["demo"][route] for route in ("hybrid", "steps"))
    assert (hybrid["without graph"], hybrid["in steps"]) == (1, 0)
    assert (steps["without graph"], steps["ms"] > 1) == (0, True)
    assert main(f"{command} --against {file}".split()) == 0
    figures["demo"]["fusion"]["nDCG@10"] -= 0.003
    file.write_text(json.dumps(figures), "utf-8")
    assert main(f"{command} --against {file}".split()) == 1
    assert "1 figures differ by more than 0.002." in capsys.readouterr().out


def test_every_route_is_recorded() -> None:
    for dataset, means in json.loads(RECORDED.read_text("utf-8")).items():
        assert [*means] == [*SYSTEMS], dataset
