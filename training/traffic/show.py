"""Traffic, and what thresholds make of it, as tables for a terminal."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.policy import Policy, routes
from router.types import Route
from training.traffic.redecide import Effect, flips, times_of
from training.traffic.stages import ROUTES
from training.traffic.traffic import Traffic

_BINS = 20
_WIDTH = 40
SERVED, NOW, PROPOSED = "as served", "now", "proposed"


def show_log(console: Console, traffic: Traffic) -> None:
    """Print what was read, how long each route took, and how the scores lie."""
    log = traffic.log
    files = "1 file" if log.files == 1 else f"{log.files} files"
    versions = " to ".join(str(version) for version in dict.fromkeys(log.versions))
    console.print(
        f"{len(log.requests):,} decisions by {log.model} for collection '{log.collection}', "
        f"{log.questions:,} different questions, from {log.first:%Y-%m-%d %H:%M} to "
        f"{log.last:%Y-%m-%d %H:%M %Z}, index version {versions} ({log.lines:,} lines, {files}).",
        markup=False,
    )
    held = [f"{low:.3f} and {high:.3f} ({n:,})" for (low, high), n in log.thresholds.items()]
    console.print(f"Held against {'; '.join(held[:5])}{'; ...' * (len(held) > 5)}.", markup=False)
    if log.left_out:
        console.print("Left out:", *_reasons(log.left_out), sep="\n  ", markup=False)
    console.print(_times(traffic), _scores(traffic))


def show_feedback(console: Console, traffic: Traffic) -> None:
    """Print what feedback there is, and what of it marks no passage."""
    marked = traffic.log.marked
    if not marked.requests:
        return
    console.print(
        f"Feedback is on {marked.requests:,} requests; {len(marked.questions):,} different "
        "questions have passages that were said to answer them.",
        markup=False,
    )
    if marked.left_out:
        reasons = _reasons(marked.left_out)
        console.print("Feedback that marks nothing here:", *reasons, sep="\n  ", markup=False)


def show_tried(console: Console, traffic: Traffic, others: Mapping[str, Policy]) -> None:
    """Print what thresholds make of the requests, beside what was served and what serves now.

    Args:
        console: Where to.
        traffic: The requests.
        others: Policies to try, by name.
    """
    effects = {SERVED: traffic.served, NOW: traffic.present}
    effects |= {name: traffic.effect(policy) for name, policy in others.items()}
    console.print(_effects(traffic, effects))
    _show_flips(console, traffic, [(SERVED, NOW), *((NOW, name) for name in others)], effects)
    console.print(
        "ms: the work on a request, its share of its batch, without the wait in the queue. Fusion "
        "runs every arm, so its stages tell how long another route would have taken; where a "
        "request's do not, the new route takes as long as for those of which it is known."
    )
    _show_unknown(console, effects)


def show_proposed(console: Console, traffic: Traffic, policy: Policy) -> None:
    """Print what proposed thresholds make of the requests, beside what serves now."""
    effects = {NOW: traffic.present, PROPOSED: traffic.effect(policy)}
    console.print(_effects(traffic, effects))
    _show_flips(console, traffic, [(NOW, PROPOSED)], effects)
    _show_unknown(console, effects)


def _show_flips(
    console: Console,
    traffic: Traffic,
    pairs: Sequence[tuple[str, str]],
    effects: Mapping[str, Effect],
) -> None:
    changes = {
        f"{old} -> {new}": flips(effects[old].routes, effects[new].routes) for old, new in pairs
    }
    if any(changes.values()):
        console.print(_flips(changes, len(traffic.log.requests)))
    else:
        console.print(f"No request changes its route ({', '.join(changes)}).", markup=False)


def _show_unknown(console: Console, effects: Mapping[str, Effect]) -> None:
    unknown = sorted({route for one in effects.values() for route in one.unknown})
    if unknown:
        console.print(
            f"How long {', '.join(unknown)} would take is unknown: no request of this log tells."
        )


def _reasons(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:>9,} {why}" for why, count in counts.items()]


def _times(traffic: Traffic) -> Table:
    table = _table("Routes", "route", "requests", "share", "known of", "mean ms", "p50", "p95")
    table.add_column("with the wait: p50", justify="right")
    table.add_column("p95", justify="right")
    wanted = {*routes(traffic.now.simple), *traffic.served.shares}
    for route, found in times_of(traffic.log.requests).items():
        if route not in wanted:
            continue
        times = (found.mean_ms, found.p50_ms, found.p95_ms)
        waits = (found.waited_p50_ms, found.waited_p95_ms)
        table.add_row(
            str(route),
            f"{found.count:,}",
            f"{found.count / len(traffic.log.requests):.1%}",
            f"{found.known:,}",
            *("" if math.isnan(ms) else f"{ms:.1f}" for ms in (*times, *waits)),
        )
    return table


def _scores(traffic: Traffic) -> Table:
    """Requests by score, with the present thresholds where they lie."""
    counts, edges = np.histogram(traffic.log.requests.scores, bins=np.arange(_BINS + 1) / _BINS)
    pair = traffic.now.thresholds
    table = _table("Scores", "from", "requests", "share")
    table.add_column("")
    for count, low, high in zip(counts.tolist(), edges, edges[1:], strict=False):
        marks = [
            f"{name} {value:.3f}"
            for name, value in (("low", pair.low), ("high", pair.high))
            if low <= value < high or (value == high == 1)
        ]
        bar = "█" * math.ceil(_WIDTH * count / max(counts.max(), 1))
        said = f"  <- {', '.join(marks)}" if marks else ""
        share = count / len(traffic.log.requests)
        table.add_row(f"{low:.2f}", f"{count:,}", f"{share:.1%}", bar + said)
    return table


def _effects(traffic: Traffic, effects: Mapping[str, Effect]) -> Table:
    names = map(escape, effects)
    table = _table(f"What becomes of {len(traffic.log.requests):,} requests", "", *names)
    found = list(effects.values())
    for name in ("low", "high"):
        table.add_row(
            name,
            *(
                "" if one.policy is None else f"{getattr(one.policy.thresholds, name):.3f}"
                for one in found
            ),
        )
    taken = {route for one in found for route in one.shares}
    for route in [route for route in ROUTES if route in taken]:
        table.add_row(f"share of {route}", *(f"{one.shares.get(route, 0):.1%}" for one in found))
    for name, label in (("mean_ms", "mean ms"), ("p50_ms", "p50 ms"), ("p95_ms", "p95 ms")):
        values = [getattr(one, name) for one in found]
        table.add_row(label, *("unknown" if math.isnan(v) else f"{v:.1f}" for v in values))
    return table


def _flips(changes: Mapping[str, Mapping[tuple[Route, Route], int]], n: int) -> Table:
    table = _table("Requests that change route", "", "from", "to", "requests", "share")
    for name, found in changes.items():
        for (old, new), count in found.items():
            table.add_row(escape(name), str(old), str(new), f"{count:,}", f"{count / n:.1%}")
        if not found:
            table.add_row(escape(name), "", "", "0", "")
        table.add_section()
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
