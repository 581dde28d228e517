"""Thresholds that were solved on feedback, and how far to trust them, for a terminal."""

from rich.console import Console

from training.thresholds.retuning import Retuned, show_retuned
from training.thresholds.tuning import Tuning
from training.traffic.judged import FeedbackEvaluation, scores_that_differ
from training.traffic.log import Log


def show_judged(
    console: Console,
    log: Log,
    tuning: Tuning,
    found: FeedbackEvaluation,
    solved: Retuned,
    *,
    most: int,
) -> None:
    """Print old and new thresholds side by side, and how far the judgements can be trusted.

    Args:
        console: Where to.
        log: That the judgements come from.
        tuning: The judged questions.
        found: What they were made of.
        solved: New thresholds.
        most: Moved questions to list.
    """
    show_retuned(console, tuning, solved, most=most)
    shown, marked = log.marked.shown
    by_route = ", ".join(f"{route} {count:,}" for route, count in log.marked.routes.items())
    console.print(
        f"These judgements are biased: {shown:,} of {marked:,} marked passages had been shown by "
        f"the route then taken (requests by route: {by_route}), and what only another route would "
        "have found counts as not relevant, which speaks for the routes then taken.",
        markup=False,
    )
    if found.vanished:
        console.print(
            f"{found.vanished} questions are left out: the index no longer has a passage that was "
            "marked for them."
        )
    changed, known = scores_that_differ(log, tuning)
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
