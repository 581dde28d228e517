"""A replayed log, and what thresholds make of it, as tables for a terminal."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.policy import Policy, routes
from training.data.dataset import Dataset
from training.log_replay.feedback import scores_that_differ
from training.log_replay.reading import ROUTES
from training.log_replay.replay import Effect, LogReplay, changes, times_of
from training.thresholds.tuning import Retuned, Tuning, show_retuned

_BINS = 20
_WIDTH = 20
SERVED, NOW, PROPOSED = "as served", "now", "proposed"


def show_replay(console: Console, replay: LogReplay, tried: Sequence[str] = ()) -> None:
    """Print what was asked, and what thresholds make of it; nothing is judged for that.

    Args:
        tried: Thresholds to try, as `LogReplay.candidate` takes them.

    Raises:
        LogError: Some of them are no thresholds.
    """
    policies = {text: replay.candidate(text) for text in tried}
    _show_log(console, replay)
    _show_feedback(console, replay)
    effects = {SERVED: replay.served, NOW: replay.present}
    effects |= {name: replay.effect(policy) for name, policy in policies.items()}
    _show_effects(console, effects, [(SERVED, NOW), *((NOW, name) for name in policies)])
    console.print(
        "ms: the work on a request, its share of its batch; waited: with the wait in the queue. "
        "Fusion runs every arm, so its stages tell how long another route would have taken; where "
        "a request's do not, the new route takes as long as for those of which it is known."
    )
    _show_unknown(console, effects)


def show_proposed(console: Console, replay: LogReplay, policy: Policy) -> None:
    """Print what proposed thresholds make of the requests, beside what serves now."""
    effects = {NOW: replay.present, PROPOSED: replay.effect(policy)}
    _show_effects(console, effects, [(NOW, PROPOSED)])
    _show_unknown(console, effects)


def show_feedback_replay(
    console: Console,
    replay: LogReplay,
    tuning: Tuning,
    dataset: Dataset,
    solved: Retuned,
    *,
    most: int,
) -> None:
    """Print old and new thresholds side by side, and how far the feedback can be trusted.

    Args:
        dataset: What they were made of.
        most: Moved questions to list.
    """
    show_retuned(console, tuning, solved, most=most)
    feedback = replay.log.feedback
    shown, named = feedback.shown
    by_route = ", ".join(f"{route} {count:,}" for route, count in feedback.routes.items())
    console.print(
        f"These judgements are biased: {shown:,} of {named:,} marked passages had been shown by "
        f"the route then taken (requests by route: {by_route}), and what only another route would "
        "have found counts as not relevant, which speaks for the routes then taken.",
        markup=False,
    )
    if dataset.without_gold:
        console.print(
            f"{len(dataset.without_gold)} questions are left out: the index no longer has a "
            "passage that was marked for them."
        )
    changed, known = scores_that_differ(replay.log, tuning)
    if changed:
        console.print(
            f"{changed} of {known} questions are scored otherwise than when they were asked: the "
            "index, or what features are made by, has changed since."
        )
    gain = solved.gain
    if gain.high < 0:
        console.print(
            f"The proposed thresholds are worse than the present ones on these questions, in "
            f"{tuning.measure}; take them for their bounds alone, if for anything."
        )
    elif gain.low <= 0:
        console.print(
            f"Whether the proposed thresholds are better is not certain: the interval of the "
            f"change in {tuning.measure} includes 0."
        )
    show_proposed(console, replay, tuning.policy(solved.solution.thresholds))


def _show_log(console: Console, replay: LogReplay) -> None:
    """What was read, how long each route took, and how the scores lie."""
    log = replay.log
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
    _show_reasons(console, "Left out:", log.left_out)
    console.print(_times(replay), _scores(replay))


def _show_feedback(console: Console, replay: LogReplay) -> None:
    """What feedback there is, and what of it names no passage."""
    feedback = replay.log.feedback
    if not feedback.requests:
        return
    console.print(
        f"Feedback is on {feedback.requests:,} requests; {len(feedback.questions):,} different "
        "questions have passages that were said to answer them.",
        markup=False,
    )
    _show_reasons(console, "Feedback that marks nothing here:", feedback.left_out)


def _show_reasons(console: Console, title: str, counts: Mapping[str, int]) -> None:
    if counts:
        reasons = (f"{count:>9,} {why}" for why, count in counts.items())
        console.print(title, *reasons, sep="\n  ", markup=False)


def _times(replay: LogReplay) -> Table:
    times = ("mean ms", "p50", "p95", "p50\nwaited", "p95\nwaited")
    table = _table("Routes", "route", "requests", "known of", *times)
    wanted = {*routes(replay.now.simple), *replay.served.shares}
    requests = replay.log.requests
    for route, found in times_of(requests).items():
        if route in wanted:
            own = (found.mean_ms, found.p50_ms, found.p95_ms)
            waits = (found.waited_p50_ms, found.waited_p95_ms)
            table.add_row(
                str(route),
                f"{found.count:,}",
                f"{found.known:,}",
                *("" if math.isnan(ms) else f"{ms:.1f}" for ms in (*own, *waits)),
            )
    return table


def _scores(replay: LogReplay) -> Table:
    """Requests by score, with the present thresholds where they lie."""
    requests = replay.log.requests
    counts, edges = np.histogram(requests.scores, bins=np.arange(_BINS + 1) / _BINS)
    pair = replay.now.thresholds
    table = _table("Scores", "from", "requests", "share")
    table.add_column("")
    for count, low, high in zip(counts.tolist(), edges, edges[1:], strict=False):
        marks = [
            f"{name} {value:.3f}"
            for name, value in (("low", pair.low), ("high", pair.high))
            if low <= value < high or (value == high == 1)
        ]
        bar = "█" * math.ceil(_WIDTH * count / max(counts.max(), 1))
        mark = f"  <- {', '.join(marks)}" if marks else ""
        table.add_row(f"{low:.2f}", f"{count:,}", f"{count / len(requests):.1%}", bar + mark)
    return table


def _show_effects(
    console: Console, effects: Mapping[str, Effect], pairs: Sequence[tuple[str, str]]
) -> None:
    """Policies side by side, and the requests that change route from one to another."""
    found = list(effects.values())
    n = len(found[0].routes)
    table = _table(f"What becomes of {n:,} requests", "", *map(escape, effects))
    for name in ("low", "high"):
        held = (one.policy and getattr(one.policy.thresholds, name) for one in found)
        table.add_row(name, *("" if value is None else f"{value:.3f}" for value in held))
    taken = {route for one in found for route in one.shares}
    for route in (route for route in ROUTES if route in taken):
        table.add_row(f"share of {route}", *(f"{one.shares.get(route, 0):.1%}" for one in found))
    for name, label in (("mean_ms", "mean ms"), ("p50_ms", "p50 ms"), ("p95_ms", "p95 ms")):
        values = [getattr(one, name) for one in found]
        table.add_row(label, *("unknown" if math.isnan(v) else f"{v:.1f}" for v in values))
    console.print(table)

    moved = {f"{old} -> {new}": changes(effects[old], effects[new]) for old, new in pairs}
    if not any(moved.values()):
        console.print(f"No request changes its route ({', '.join(moved)}).", markup=False)
        return
    table = _table("Requests that change route", "", "from", "to", "requests", "share")
    for name, counts in moved.items():
        for (old, new), count in counts.items():
            table.add_row(escape(name), str(old), str(new), f"{count:,}", f"{count / n:.1%}")
        if not counts:
            table.add_row(escape(name), "", "", "0", "")
        table.add_section()
    console.print(table)


def _show_unknown(console: Console, effects: Mapping[str, Effect]) -> None:
    unknown = sorted({route for one in effects.values() for route in one.unknown})
    if unknown:
        console.print(
            f"How long {', '.join(unknown)} would take is unknown: no request of this log tells."
        )


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
