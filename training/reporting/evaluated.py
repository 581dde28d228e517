"""The final evaluation summed up over all questions, over each part, and for transfer."""

from collections.abc import Mapping
from dataclasses import dataclass

from training.reporting.contents import RouterReport
from training.reporting.summary import Summary, parts, summarise


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the tables of an evaluation are made of.

    Attributes:
        overall: All questions.
        parts: By replay, and by dataset within it.
        transfer: By dataset, judged by a router that learned from the others.
    """

    overall: Summary
    parts: Mapping[str, Summary]
    transfer: Mapping[str, Summary]


def evaluate(report: RouterReport) -> Evaluated | None:
    """Sum up; None for a run that was not judged."""
    judged = report.judged
    if judged is None:
        return None
    thresholds = report.fitted.policy.thresholds
    return Evaluated(
        overall=summarise(judged),
        parts={name: summarise(judged, rows, thresholds) for name, rows in parts(judged).items()},
        transfer={name: summarise(found) for name, found in report.transfer.items()},
    )
