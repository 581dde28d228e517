"""Shows a replayed log and the effect of thresholds on it, as Markdown on a terminal."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.console import Console

from router.policy import Policy, routes
from training.data.dataset import Dataset
from training.log_replay.feedback import scores_that_differ
from training.log_replay.reading import ROUTES
from training.log_replay.replay import Effect, LogReplay, changes, times_of
from training.markdown import escape, show, table
from training.thresholds.tuning import Retuned, Tuning, show_retuned

_BINS = 20
SERVED, NOW, PROPOSED = "as served", "now", "proposed"


def show_replay(console: Console, replay: LogReplay, tried: Sequence[str] = ()) -> None:
    """Print a summary of the log, and the effect of thresholds on it, without judgements.

    Args:
        tried: Thresholds to try, in the form of `LogReplay.candidate`.

    Raises:
        LogError: One of them is in another form.
    """
    policies = {text: replay.candidate(text) for text in tried}
    effects = {SERVED: replay.served, NOW: replay.present}
    effects |= {name: replay.effect(policy) for name, policy in policies.items()}
    parts = [
        *_log(replay),
        *_effects(effects, [(SERVED, NOW), *((NOW, name) for name in policies)]),
        "ms: the work on a request, its share of its batch; waited: with the wait in the queue. "
        "Fusion runs every arm, so its stages tell how long another route would have taken; where "
        "a request's do not, the new route is assumed to take as long as in requests that tell.",
        *_unknown(effects),
    ]
    show("\n\n".join(parts), console)


def show_proposed(console: Console, replay: LogReplay, policy: Policy) -> None:
    """Print the effect of a proposed policy beside that of the policy in use."""
    effects = {NOW: replay.present, PROPOSED: replay.effect(policy)}
    show("\n\n".join([*_effects(effects, [(NOW, PROPOSED)]), *_unknown(effects)]), console)


def show_feedback_replay(
    console: Console,
    replay: LogReplay,
    tuning: Tuning,
    dataset: Dataset,
    solved: Retuned,
    *,
    most: int,
) -> None:
    """Print old and new thresholds, and how far the feedback can be trusted."""
    show_retuned(console, tuning, solved, most=most)
    feedback = replay.log.feedback
    shown, named = feedback.shown
    by_route = ", ".join(f"{route} {count:,}" for route, count in feedback.routes.items())
    parts = [
        f"These judgements are biased: {shown:,} of {named:,} marked passages were shown by the "
        f"route taken then (requests by route: {by_route}), and passages that only another route "
        "would have found count as not relevant, which favours the routes taken then."
    ]
    if dataset.without_gold:
        parts.append(
            f"{len(dataset.without_gold)} questions are left out: the index no longer has a "
            "passage that was marked for them."
        )
    changed, known = scores_that_differ(replay.log, tuning)
    if changed:
        parts.append(
            f"{changed} of {known} questions get another score than when they were asked: the "
            "index or the models of the features have changed since."
        )
    if solved.gain.high < 0:
        parts.append(
            "The proposed thresholds are worse than the present ones on these questions, in "
            f"{tuning.measure}; use them only if you need their bounds."
        )
    elif solved.gain.low <= 0:
        parts.append(
            f"Whether the proposed thresholds are better is not certain: the interval of the "
            f"change in {tuning.measure} includes 0."
        )
    show("\n\n".join(parts), console)
    show_proposed(console, replay, tuning.policy(solved.solution.thresholds))


def _log(replay: LogReplay) -> Iterator[str]:
    """The log's extent, the routes' times, the distribution of scores, and the feedback."""
    log, feedback = replay.log, replay.log.feedback
    files = "1 file" if log.files == 1 else f"{log.files} files"
    versions = " to ".join(str(version) for version in dict.fromkeys(log.versions))
    yield escape(
        f"{len(log.requests):,} decisions by {log.model} for collection '{log.collection}', "
        f"{log.questions:,} different questions, from {log.first:%Y-%m-%d %H:%M} to "
        f"{log.last:%Y-%m-%d %H:%M %Z}, index version {versions} ({log.lines:,} lines, {files})."
    )
    held = [f"{low:.3f} and {high:.3f} ({n:,})" for (low, high), n in log.thresholds.items()]
    yield f"Compared with the thresholds {'; '.join(held[:5])}{'; ...' * (len(held) > 5)}."
    yield from _reasons("Left out:", log.left_out)
    yield from ("**Routes**", _times(replay), "**Scores**", _scores(replay))
    if feedback.requests:
        yield (
            f"Requests with feedback: {feedback.requests:,}; different questions with passages "
            f"marked as answers: {len(feedback.questions):,}."
        )
        yield from _reasons("Feedback that does not count:", feedback.left_out)


def _reasons(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield title
        yield "\n".join(f"- {count:,} {escape(why)}" for why, count in counts.items())


def _times(replay: LogReplay) -> str:
    wanted = {*routes(replay.now.simple), *replay.served.shares}
    rows = []
    for route, found in times_of(replay.log.requests).items():
        if route in wanted:
            own = (found.mean_ms, found.p50_ms, found.p95_ms)
            waits = (found.waited_p50_ms, found.waited_p95_ms)
            told = ("" if math.isnan(ms) else f"{ms:.1f}" for ms in (*own, *waits))
            rows.append((str(route), f"{found.count:,}", f"{found.known:,}", *told))
    times = ("mean ms", "p50", "p95", "p50 waited", "p95 waited")
    return table(("route", "requests", "known of", *times), rows)


def _scores(replay: LogReplay) -> str:
    """Histogram of scores, with the thresholds in use."""
    requests, pair = replay.log.requests, replay.now.thresholds
    counts, edges = np.histogram(requests.scores, bins=np.arange(_BINS + 1) / _BINS)
    rows = []
    for count, low, high in zip(counts.tolist(), edges, edges[1:], strict=False):
        marks = (
            f"{name} {value:.3f}"
            for name, value in (("low", pair.low), ("high", pair.high))
            if low <= value < high or (value == high == 1)
        )
        share = f"{count / len(requests):.1%}"
        bar = "█" * math.ceil(_BINS * count / max(counts.max(), 1))
        rows.append((f"{low:.2f}", bar, f"{count:,}", share, ", ".join(marks)))
    return table(("from", "", "requests", "share", "thresholds"), rows, words=2)


def _effects(effects: Mapping[str, Effect], pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Tables of the policies' effects, and of requests that change route between them."""
    found = list(effects.values())
    n = len(found[0].routes)
    rows = []
    for name in ("low", "high"):
        held = (one.policy and getattr(one.policy.thresholds, name) for one in found)
        rows.append((name, *("" if value is None else f"{value:.3f}" for value in held)))
    taken = {route for one in found for route in one.shares}
    for route in (route for route in ROUTES if route in taken):
        rows.append((f"share of {route}", *(f"{one.shares.get(route, 0):.1%}" for one in found)))
    for name, label in (("mean_ms", "mean ms"), ("p50_ms", "p50 ms"), ("p95_ms", "p95 ms")):
        values = [getattr(one, name) for one in found]
        rows.append((label, *("unknown" if math.isnan(v) else f"{v:.1f}" for v in values)))
    yield f"**What becomes of {n:,} requests**"
    yield table(("", *map(escape, effects)), rows)

    moved = {f"{old} -> {new}": changes(effects[old], effects[new]) for old, new in pairs}
    if not any(moved.values()):
        yield escape(f"No request changes its route ({', '.join(moved)}).")
        return
    rows = []
    for name, counts in moved.items():
        for (old, new), count in counts.items():
            rows.append((name, str(old), str(new), f"{count:,}", f"{count / n:.1%}"))
        if not counts:
            rows.append((name, "", "", "0", ""))
    yield "**Requests that change route**"
    yield table(("", "from", "to", "requests", "share"), rows, words=3)


def _unknown(effects: Mapping[str, Effect]) -> Iterator[str]:
    unknown = sorted({route for one in effects.values() for route in one.unknown})
    if unknown:
        yield f"How long {', '.join(unknown)} would take is unknown: no request of this log has it."
