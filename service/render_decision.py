"""A router's decision, for people."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from router.decision import Contribution, Decision
from router.types import Route, Thresholds

GAUGE = 40
SHOWN_FEATURES = 10
STYLES = {Route.GRAPH: "magenta", Route.FUSION: "yellow"}
SIMPLE_STYLE = "cyan"


def show_decision(console: Console, decision: Decision, *, features: int = SHOWN_FEATURES) -> None:
    """Print where the score lies among the thresholds and, where it was asked for, why.

    Args:
        console: Where to.
        decision: The router's.
        features: Most contributions to show.
    """
    console.print(_headline(decision))
    if decision.score is not None and decision.thresholds is not None:
        console.print(_gauge(decision.score, decision.thresholds))
    if decision.nearest_change is not None:
        console.print(Text(change_of(decision), style="dim"))
    if decision.contributions:
        console.print(_contributions(decision.contributions, features))


def change_of(decision: Decision) -> str:
    """What would change the route that the score asks for, in words; empty when nothing would."""
    change = decision.nearest_change
    if change is None:
        return ""
    direction = "higher" if change.score > 0 else "lower"
    return (
        f"A score {abs(change.score):.3f} {direction}, at {change.threshold:.3f}, "
        f"would make it {change.route}."
    )


def _headline(decision: Decision) -> Text:
    line = Text("route ", style="dim")
    line.append(str(decision.route), style=f"bold {STYLES.get(decision.route, SIMPLE_STYLE)}")
    if decision.score is not None:
        line.append(f"  score {decision.score:.3f}")
    line.append(f"  {decision.reason}", style="" if decision.reason == "score" else "yellow")
    if decision.model:
        line.append(f"  {decision.model}", style="dim")
    return line


def _gauge(score: float, thresholds: Thresholds) -> Text:
    """The scale from 0 to 1: the simple route, fusion, graph, and where the score lies."""
    low, high = thresholds.low, thresholds.high
    line = Text("  0 ", style="dim")
    for cell in range(GAUGE):
        middle = (cell + 0.5) / GAUGE
        style = SIMPLE_STYLE if middle <= low else "magenta" if middle >= high else "yellow"
        here = cell == min(int(score * GAUGE), GAUGE - 1)
        line.append("●" if here else "━", style=f"bold {style}" if here else style)
    line.append(f" 1  thresholds {low:.3f} and {high:.3f}", style="dim")
    return line


def _contributions(contributions: tuple[Contribution, ...], most: int) -> Table:
    baseline, *features = contributions
    rest = features[most:]
    table = Table(
        title="Why: what each feature adds to the score's logit",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("feature")
    for heading in ("value", "logit"):
        table.add_column(heading, justify="right")
    table.add_row(Text(baseline.name, style="dim"), "", f"{baseline.logit:+.3f}")
    for part in features[:most]:
        value = "" if part.value is None else f"{part.value:.4g}"
        table.add_row(part.name, value, f"{part.logit:+.3f}")
    if rest:
        total = sum(part.logit for part in rest)
        table.add_row(Text(f"({len(rest)} more)", style="dim"), "", f"{total:+.3f}")
    total = sum(part.logit for part in contributions)
    table.add_row(Text("sum", style="bold"), "", f"{total:+.3f}", style="bold")
    return table
