"""An evaluation as tables and as files."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from training.evaluation.bootstrap import Interval
from training.evaluation.evaluate import PERCENTILES, Evaluation
from training.evaluation.measures import MEASURES, write_json, write_trec

FILE_WIDTH = 120


def wide_console() -> Console:
    """Standard output, with room for the tables where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def show(console: Console, found: Evaluation) -> None:
    """Print means, paired differences and latency."""
    console.print(_means(found))
    if found.differences:
        console.print(_differences(found))
    console.print(_latency(found))
    for result in found.results:
        for reason, times in sorted(result.degraded.items()):
            console.print(f"{result.route}: {times} times {reason}", markup=False)
    if left_out := found.dataset.without_gold:
        console.print(f"Left out, as nothing is relevant to them: {len(left_out)} questions.")


def metrics(found: Evaluation) -> dict[str, object]:
    """Everything that is the same whenever the same questions are asked of the same version."""
    return {
        "dataset": found.dataset.name,
        "split": found.dataset.split,
        "questions": len(found.dataset.questions),
        "without_gold": list(found.dataset.without_gold),
        "index_version": found.version,
        "depth": found.depth,
        "bootstrap": {"seed": found.seed, "resamples": found.resamples},
        "routes": {
            result.route: {
                "measures": {
                    name: _value(interval) for name, interval in found.means[result.route].items()
                },
                "unanswered": list(result.unanswered),
                "degraded": dict(result.degraded),
            }
            for result in found.results
        },
        "differences": {
            f"{route} - {other}": {name: _value(interval) for name, interval in by_measure.items()}
            for (route, other), by_measure in found.differences.items()
        },
        "per_question": {
            result.route: {
                question.id: dict(zip(MEASURES, row.tolist(), strict=True))
                for question, row in zip(found.dataset.questions, result.values, strict=True)
            }
            for result in found.results
        },
    }


def latency(found: Evaluation) -> dict[str, object]:
    """Milliseconds a question by route and stage; different each time."""
    return {
        "batch": found.batch,
        "milliseconds": {
            result.route: {
                stage: {f"p{p}": value for p, value in zip(PERCENTILES, times, strict=True)}
                for stage, times in result.latency.items()
            }
            for result in found.results
        },
    }


def write_run(folder: Path, found: Evaluation) -> None:
    """Write a TREC run for each route, and the numbers."""
    for result in found.results:
        write_trec(folder / f"{result.route}.trec", f"wye-{result.route}", result.answers)
    write_json(folder / "metrics.json", metrics(found))
    write_json(folder / "latency.json", latency(found))


def _means(found: Evaluation) -> Table:
    data = found.dataset
    table = _table(
        f"{data.name}, {data.split}: {len(data.questions)} questions, "
        f"index version {found.version}, 95 % bootstrap intervals"
    )
    table.add_column("measure", no_wrap=True)
    for result in found.results:
        table.add_column(result.route, justify="right")
    for name in MEASURES:
        cells = (found.means[result.route][name] for result in found.results)
        table.add_row(name, *(f"{_bare(c.mean)} [{_bare(c.low)} {_bare(c.high)}]" for c in cells))
    return table


def _differences(found: Evaluation) -> Table:
    table = _table("Paired differences; * where the 95 % interval excludes 0")
    table.add_column("measure", no_wrap=True)
    for route, other in found.differences:
        table.add_column(f"{route}\n- {other}", justify="right")
    for name in MEASURES:
        table.add_row(name, *(_signed(by[name]) for by in found.differences.values()))
    return table


def _latency(found: Evaluation) -> Table:
    table = _table(f"Milliseconds a question, asked in batches of {found.batch}")
    table.add_column("route")
    table.add_column("stage")
    for percentile in PERCENTILES:
        table.add_column(f"p{percentile}", justify="right")
    for result in found.results:
        for stage, times in result.latency.items():
            table.add_row(result.route, stage, *(f"{value:.2f}" for value in times))
        table.add_section()
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _bare(share: float) -> str:
    """A share without the 0 that all of them begin with, so that four routes fit on a line."""
    return f"{share:.3f}".removeprefix("0") if share < 1 else f"{share:.2f}"


def _signed(cell: Interval) -> str:
    sure = "*" if cell.low > 0 or cell.high < 0 else " "
    return f"{cell.mean:+.3f}{sure}"


def _value(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
