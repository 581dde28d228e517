"""Measures quality and latency of each route on a dataset, through the serving gateway."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from wye.backends.files import plain
from wye.backends.text import is_blank
from wye.backends.types import Float64, Progress, RankedHit, Silent
from wye.router.types import USUAL, Ask, Reply, Route
from wye.training.data import Dataset, Question
from wye.training.markdown import by_measure, escape, gain, share, spread, table
from wye.training.measures import DEPTH, MEASURES, RESAMPLES, Differences, Means, compare, score

PERCENTILES = (50, 95, 99)
FIRST = 5
ENOUGH = 0.02  # hybrid is enough if auto gains less than this share of relevant passages
FEW = 0.05  # or if the first passages differ on a smaller share of the questions


class Endpoint(Protocol):
    """Answers questions, as the router's gateway does."""

    def search(self, questions: Sequence[str], ask: Ask) -> list[Reply]:
        """One reply to each question, in order."""


@dataclass(frozen=True, slots=True)
class SystemRun:
    """The results of one route: replies to all questions with words, and measures (n, m)."""

    name: str
    replies: Mapping[str, Reply]
    values: Float64

    @property
    def answers(self) -> dict[str, Sequence[RankedHit]]:
        """Question id -> hits; without questions that have none."""
        return {id_: r.ranking.hits for id_, r in self.replies.items() if r.ranking.hits}

    @property
    def degraded(self) -> Counter[str]:
        """Reason -> number of answers that were degraded for it."""
        reasons = (reply.ranking.degraded for reply in self.replies.values())
        return Counter(reason for reason in reasons if reason)

    def latency(self, batch: int) -> dict[str, float]:
        """Stage -> mean milliseconds of a question; "total" is their sum.

        For a batch of 1 also "p50 of total" and so on; the questions of a larger one share its time
        equally.
        """
        times = [reply.seconds for reply in self.replies.values()]
        stages = dict.fromkeys(stage for seconds in times for stage in seconds)
        result = {s: 1000 * sum(each.get(s, 0.0) for each in times) / len(times) for s in stages}
        if times:
            totals = 1000 * np.array([sum(each.values()) for each in times])
            result["total"] = float(totals.mean())
            for p in PERCENTILES if batch == 1 else ():
                result[f"p{p} of total"] = float(np.percentile(totals, p))
        return result


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Several routes on the same questions."""

    dataset: Dataset
    version: int
    batch: int
    runs: tuple[SystemRun, ...]
    means: Means
    differences: Differences

    def unanswered_by(self, *runs: SystemRun) -> list[str]:
        """Ids of questions for which some of these had no hit, in the dataset's order."""
        answered = [run.answers for run in runs]
        ids = (question.id for question in self.dataset.questions)
        return [id_ for id_ in ids if not all(id_ in answers for answers in answered)]


def evaluate(
    endpoint: Endpoint,
    dataset: Dataset,
    routes: Sequence[Route],
    *,
    batch: int = 32,
    progress: Progress | None = None,
) -> Evaluation:
    """Ask every question over every route, and score the answers; an `EvaluationError` for none."""
    progress = progress or Silent()
    runs = []
    for route in routes:
        replies = _ask(endpoint, dataset.questions, Ask(route, DEPTH), batch, progress)
        values = score(dataset.judgements, {id_: r.ranking.ids() for id_, r in replies.items()})
        runs.append(SystemRun(str(route), replies, values))
    version = next((reply.version for run in runs for reply in run.replies.values()), 0)
    by_name = {run.name: run.values for run in runs}
    pairs = [(later, earlier) for earlier, later in combinations(by_name, 2)]
    means, differences = compare(by_name, pairs, MEASURES)
    return Evaluation(dataset, version, batch, tuple(runs), means, differences)


def _ask(
    endpoint: Endpoint, questions: Sequence[Question], ask: Ask, batch: int, progress: Progress
) -> dict[str, Reply]:
    """Question id -> reply; blank questions are skipped, since no route can answer them."""
    answerable = [question for question in questions if not is_blank(question.text)]
    replies: dict[str, Reply] = {}
    progress.start(len(questions), f"asking {ask.route}")
    try:
        # So that the first question's latency has nothing that is built on first use.
        endpoint.search([question.text for question in answerable[:1]], ask)
        for start in range(0, len(answerable), batch):
            window = answerable[start : start + batch]
            answers = endpoint.search([question.text for question in window], ask)
            replies.update(zip((question.id for question in window), answers, strict=True))
            progress.advance(len(window))
    finally:
        progress.close()
    return replies


def metrics(result: Evaluation) -> dict[str, Any]:
    """All reproducible numbers: equal for equal questions on the same version."""
    questions = result.dataset.questions
    numbers: dict[str, Any] = plain(
        {
            "dataset": result.dataset.name,
            "split": result.dataset.split,
            "questions": len(questions),
            "without_gold": result.dataset.without_gold,
            "index_version": result.version,
            "depth": DEPTH,
            "bootstrap": {"seed": 0, "resamples": RESAMPLES},
            "routes": {
                run.name: {
                    "measures": result.means[run.name],
                    "unanswered": result.unanswered_by(run),
                    "degraded": run.degraded,
                }
                for run in result.runs
            },
            "differences": _named(result.differences),
            "per_question": {
                run.name: {
                    question.id: dict(zip(MEASURES, row, strict=True))
                    for question, row in zip(questions, run.values.tolist(), strict=True)
                }
                for run in result.runs
            },
        }
    )
    return numbers


def _named(differences: Differences) -> Means:
    return {f"{system} - {other}": cells for (system, other), cells in differences.items()}


def latency(result: Evaluation) -> dict[str, object]:
    """Milliseconds a question by route and stage, which vary from run to run."""
    return {
        "batch": result.batch,
        "milliseconds": {run.name: run.latency(result.batch) for run in result.runs},
    }


def _times(result: Evaluation) -> str:
    """A table with a row for each stage, the totals last, and a column for each system."""
    columns = [run.latency(result.batch) for run in result.runs]
    stages = dict.fromkeys(stage for times in columns for stage in times)
    rows = [
        (stage, *(f"{times[stage]:.2f}" if stage in times else "" for times in columns))
        for stage in sorted(stages, key=lambda stage: stage.endswith("total"))
    ]
    return table(("stage", *(run.name for run in result.runs)), rows)


def as_markdown(result: Evaluation) -> str:
    """Tables of means, paired differences and latency."""
    data = result.dataset
    texts = [
        f"## {escape(data.name)}, {escape(data.split)}: {len(data.questions)} questions, "
        f"index version {result.version}, 95 % bootstrap intervals",
        by_measure("system", result.means, spread, width=3),
    ]
    if result.differences:
        texts += [
            "Paired differences; * where the 95 % interval excludes 0",
            by_measure("difference", _named(result.differences), gain, width=4),
        ]
    texts += [
        f"Milliseconds per question, asked in batches of {result.batch}: means"
        + ("" if result.batch == 1 else "; --batch 1 gives percentiles"),
        _times(result),
    ]
    for run in result.runs:
        for reason, count in sorted(run.degraded.items()):
            texts.append(f"{run.name}: {count} times {escape(reason)}")
    if count := len(data.without_gold):
        texts.append(f"Left out, since no passage is relevant to them: {count} questions.")
    return "\n\n".join(texts)


def advise(endpoint: Endpoint, questions: Sequence[Question], progress: Progress) -> str:
    """Compare the routes on questions without judgements: how often they differ, at what cost.

    How many of the first passages are relevant is expected from their probabilities of relevance.
    Returns a table as Markdown, and whether hybrid is enough for such questions.
    """
    replies, firsts, expected, times = {}, {}, {}, {}
    for route in USUAL:
        replies_by_id = _ask(endpoint, questions, Ask(route, FIRST), 1, progress)
        replies[route] = [*replies_by_id.values()]
        firsts[route] = [{*reply.ranking.ids()} for reply in replies[route]]
        expected[route] = float(np.mean([sum(r.relevance or [np.nan]) for r in replies[route]]))
        times[route] = SystemRun(str(route), replies_by_id, np.zeros(0)).latency(1)["total"]
    pairs = {route: zip(firsts[Route.AUTO], firsts[route], strict=True) for route in USUAL}
    differing = {route: np.mean([a != b for a, b in each]) for route, each in pairs.items()}
    rows = [(str(r), f"{times[r]:.1f}", f"{differing[r]:.0%}", share(expected[r])) for r in USUAL]
    header = ("route", "ms a question", "other first five than auto", "relevant ones expected")
    gain_of_auto = expected[Route.AUTO] - expected[Route.HYBRID]
    is_enough = differing[Route.HYBRID] < FEW or gain_of_auto < ENOUGH * expected[Route.AUTO]
    costs = f"{times[Route.AUTO]:.1f} ms where hybrid takes {times[Route.HYBRID]:.1f}"
    advice = (
        f"Hybrid is enough here: ask with route=hybrid. Auto takes {costs}, and little comes of it."
        if is_enough
        else f"Auto finds more here, and takes {costs}. To be sure, judge fifty of these questions "
        "and run `wye eval DATASET`."
    )
    takes = Counter(reply.route for reply in replies[Route.AUTO]).most_common()
    counts = ", ".join(f"{route} for {count}" for route, count in takes)
    title = f"## {len(questions)} questions, each asked alone"
    return "\n\n".join([title, table(header, rows), f"Auto takes {counts}.", advice])
