"""An evaluation as tables and as files."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from training.bootstrap import Interval
from training.evaluation import PERCENTILES, Evaluation
from training.measures import MEASURES
from training.runs import write_json, write_trec


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
    table = Table(
        title=f"{data.name}, {data.split}: {len(data.questions)} questions, "
        f"index version {found.version}, 95 % bootstrap intervals",
        title_justify="left",
    )
    table.add_column("measure")
    for result in found.results:
        table.add_column(result.route, justify="right")
    for name in MEASURES:
        cells = (found.means[result.route][name] for result in found.results)
        table.add_row(name, *(f"{c.mean:.3f} [{c.low:.3f}, {c.high:.3f}]" for c in cells))
    return table


def _differences(found: Evaluation) -> Table:
    table = Table(
        title="Paired differences; * where the 95 % interval excludes 0", title_justify="left"
    )
    table.add_column("measure")
    for route, other in found.differences:
        table.add_column(f"{route} - {other}", justify="right")
    for name in MEASURES:
        table.add_row(name, *(_signed(by[name]) for by in found.differences.values()))
    return table


def _latency(found: Evaluation) -> Table:
    table = Table(
        title=f"Milliseconds a question, asked in batches of {found.batch}", title_justify="left"
    )
    table.add_column("route")
    table.add_column("stage")
    for percentile in PERCENTILES:
        table.add_column(f"p{percentile}", justify="right")
    for result in found.results:
        for stage, times in result.latency.items():
            table.add_row(result.route, stage, *(f"{value:.2f}" for value in times))
        table.add_section()
    return table


def _signed(cell: Interval) -> str:
    sure = "*" if cell.low > 0 or cell.high < 0 else " "
    return f"{cell.mean:+.3f}{sure}"


def _value(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}
