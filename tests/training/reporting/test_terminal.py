import io

from rich.console import Console

from training.evaluation.held_out import COLUMNS
from training.reporting.formats import spread
from training.reporting.terminal import show
from training.run import HeldOutEvaluation


def test_every_contender_and_interval_is_printed(verdict: HeldOutEvaluation) -> None:
    written = io.StringIO()
    show(Console(file=written, width=120, highlight=False), verdict.judged)
    text = written.getvalue()
    assert max(map(len, text.splitlines())) <= 120
    for name in verdict.judged.contenders:
        assert f"  {name} " in text
    for measure in COLUMNS:
        assert spread(verdict.judged.mean("auto", measure)) in text
    assert "the oracle" in text
