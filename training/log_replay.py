"""`wye tune --from-log`: what thresholds make of logged requests, and better ones.

A log has, for each request, the router's score, the route that was taken and its time. So it tells
which routes other thresholds would take, and how long these would last. Whether an answer was good
only feedback tells, which is incomplete and biased to what people were shown.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError
from rich.console import Console

from wye.backends.types import Float64, Progress
from wye.router.model_files import RouterInfo, read_info, read_policy, save_policy
from wye.router.policy import bands, routes
from wye.router.request_log import FEEDBACK, read_texts
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.types import Route, Thresholds
from wye.training.data import Dataset, Question
from wye.training.errors import LogError
from wye.training.markdown import escape, show, wide_console
from wye.training.replay import TrainingReplay, replay_dataset
from wye.training.thresholds import (
    CUTS,
    RouteOutcomes,
    ThresholdObjective,
    keeps,
    outcome,
    solve,
)
from wye.training.tuning import Tuning, compared, retune, show_retuned

NEEDED = 100
"""Least number of judged questions to solve thresholds on.

Measured on the dev questions of five public sets (`min_feedback` in `benchmarks/README.md`),
judged as feedback would judge them: solved on 50, thresholds were worse than the present ones by
more than 0.005 nDCG@10 in 33 % of the draws, on 75 in 22 %, on 100 in 5 %, and on 150 in none.
"""
_BESIDE = ("queue", "total", "explaining")
"""Times that are not part of a route."""
_EDGE = float(np.finfo(np.float64).eps)
"""Scores keep this distance from 0 and 1, to which a log may round them."""
RequestKey = tuple[str, str]
"""The API key that asked, and the request's id, which a client may choose as others do."""


class _Line(BaseModel, strict=True):
    request_id: str
    key: str = ""
    time: AwareDatetime

    @property
    def request(self) -> RequestKey:
        return self.key, self.request_id


class _Decision(BaseModel, strict=True):
    score: Annotated[float, Field(ge=0, le=1)] | None
    model: str


class Retrieval(_Line):
    """The logged fields of an answered question that are used here."""

    kind: Literal["retrieval"]
    question: str
    filter: Any
    collection: str
    asked: str
    route: Route
    max_latency_ms: float | None
    decision: _Decision | None
    seconds: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]

    @property
    def question_id(self) -> str:
        """An id of the question with its collection and filter."""
        content = json.dumps([self.collection, self.question, self.filter], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def exclusion(self, router: str, collection: str) -> str:
        """Why thresholds alone did not choose the request's route; "" if they did."""
        decision = self.decision or _Decision(score=None, model="")
        reasons = {
            "asked of another collection": self.collection != collection,
            "route named by the caller": self.asked != Route.AUTO,
            "no decision: the router failed, was late, or had no passages": decision.score is None,
            f"decided by another router: {decision.model}": decision.model != router,
            "went in steps, which have a threshold of their own": self.route == Route.STEPS,
            "max_latency_ms may overrule thresholds": self.max_latency_ms is not None,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def times_ms(self, order: Sequence[Route]) -> list[float]:
        """Milliseconds of work by each of some routes; NaN where the request says nothing.

        Fusion does all that the graph's route does, so it says how long that would have taken.
        """
        stages = {stage: time for stage, time in self.seconds.items() if stage not in _BESIDE}
        times = {self.route: sum(stages.values())}
        if self.route == Route.FUSION:
            times[Route.GRAPH] = times[self.route] - stages.get("fusing", 0.0)
        return [1000 * times.get(route, np.nan) for route in order]


class Feedback(_Line):
    """Passages that a client marked as answers."""

    kind: Literal["feedback"]
    passages: list[str]


LINE: TypeAdapter[Retrieval | Feedback] = TypeAdapter(
    Annotated[Retrieval | Feedback, Field(discriminator="kind")]
)


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """One collection's n requests whose route a router chose by its score alone, as columns.

    Attributes:
        scores: (n,) the scores, above 0 and below 1.
        times_ms: (n, 3) milliseconds by the simple route, fusion and the graph; NaN where unknown.
        marked: Id of a question -> a request that asked it, and passages that feedback marks as
            its answers, whichever router decided its route.
        exclusions: Reason that a line or feedback does not count -> how many there are.
    """

    router: RouterInfo
    collection: str
    scores: Float64
    times_ms: Float64
    marked: Mapping[str, tuple[Retrieval, set[str]]]
    exclusions: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.scores)

    def outcomes(self, unknown_ms: float = 0.0) -> RouteOutcomes:
        """Each route's outcome for each request; quality 1 for the route that it takes now.

        So the quality of thresholds is the share of requests that keep their route. If the log has
        no time of a request by a route, the mean of the others stands for it.

        Args:
            unknown_ms: Stands for routes whose time the log never has.
        """
        known = ~np.isnan(self.times_ms)
        sums = np.where(known, self.times_ms, 0.0).sum(axis=0)
        usual = np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), unknown_ms)
        stays = bands(self.scores, self.router.policy.thresholds)[:, None] == np.arange(3)
        times = np.where(known, self.times_ms, usual)
        return RouteOutcomes(self.scores, stays.astype(np.float64), times)


def read_log(paths: Sequence[Path], router: RouterInfo, collection: str = "") -> DecisionLog:
    """Read request logs, such as a log and the files it was rotated to.

    Files are read twice and line by line, since feedback may stand in another file than its
    question; only columns and questions with feedback are kept in memory.

    Args:
        paths: Files as `wye.router.request_log` writes them.
        collection: The collection to read; "" if the log has only one.

    Raises:
        RequestLogError: A file cannot be read.
        LogError: There is nothing to read, or several collections and none is named.
    """
    paths = [*dict.fromkeys(path.resolve() for path in paths)]
    marks: dict[RequestKey, Feedback] = {}
    for line in _lines(paths, Counter(), f'"{FEEDBACK}"'):
        if isinstance(line, Feedback):  # of several, the newest counts
            marks[line.request] = max(marks.get(line.request, line), line, key=lambda it: it.time)
    rated: dict[RequestKey, Retrieval | None] = {}
    exclusions, collections = Counter[str](), Counter[str]()
    scores, times_ms, order = [], [], routes(router.policy.simple)
    for line in _lines(paths, exclusions):
        if isinstance(line, Feedback):
            continue
        collections[line.collection] += 1
        if line.request in marks:
            same = rated.setdefault(line.request, line)
            if same is None or same.question_id != line.question_id:
                rated[line.request] = None  # one id for several questions: which was meant?
        if why := line.exclusion(router.name, collection or line.collection):
            exclusions[why] += 1
        elif line.decision is not None and line.decision.score is not None:
            scores.append(line.decision.score)
            times_ms.append(line.times_ms(order))
    if not collections:
        raise LogError(
            f"No question was answered in the log ({_listed(exclusions) or 'it is empty'}); give "
            "the file of WYE_SERVE__REQUEST_LOG, after questions were asked."
        )
    if collection not in collections and (collection or len(collections) > 1):
        raise LogError(
            f"The log has questions to the collections {_listed(collections)}; name one with "
            "--collection."
        )
    collection = collection or next(iter(collections))
    if not scores:
        raise LogError(
            f"None of the {collections[collection]} questions asked of '{collection}' was decided "
            f"by router {router.name} ({_listed(exclusions)}); name the router that decided with "
            "--router, or ask without naming a route."
        )
    pairs = [(line, marks[request].passages) for request, line in rated.items()]
    marked = _marked(pairs, collection, exclusions)
    if unknown := len(marks) - len(rated):
        exclusions["feedback on an unknown request, or on that of another key"] += unknown
    columns = np.clip(scores, _EDGE, 1 - _EDGE), np.array(times_ms)
    return DecisionLog(router, collection, *columns, marked, exclusions)


def _marked(
    pairs: Sequence[tuple[Retrieval | None, list[str]]], collection: str, exclusions: Counter[str]
) -> dict[str, tuple[Retrieval, set[str]]]:
    """Id of a question -> a request that asked it, and its passages in all pairs."""
    marked: dict[str, tuple[Retrieval, set[str]]] = {}
    for line, passages in pairs:
        if line and passages and line.collection == collection and line.asked == Route.AUTO:
            marked.setdefault(line.question_id, (line, set()))[1].update(passages)
        else:
            exclusions["feedback that names no passage, or not of one question that counts"] += 1
    return marked


def _lines(
    paths: Sequence[Path], exclusions: Counter[str], containing: str = ""
) -> Iterator[Retrieval | Feedback]:
    """Yield the lines with a text; counts those that the service does not write as left out."""
    for path in paths:
        for text in read_texts(path):
            if containing not in text or text == "\n":  # an empty one follows a torn line
                continue
            try:
                line = LINE.validate_json(text)
            except ValidationError:
                exclusions[f"no whole line of a request log, in {path}"] += 1
            else:
                yield line


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in [*counts.items()][:5])


def within_bounds(log: DecisionLog, goal: ThresholdObjective) -> Thresholds:
    """The thresholds that keep the bounds with the fewest changes of route.

    Without judgements one cannot tell which change would help, so the best change is the smallest.
    Of equally small ones, the one that leaves most to fusion is taken, as the cautious `solve`
    does. If latency is bounded, no request gets a route whose time the log never has.

    Returns:
        Those in use, if they keep the bounds.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    now = log.router.policy.thresholds
    too_slow = 0.0 if goal.max_mean_ms is None else (goal.max_mean_ms + 1) * (len(log) + 1)
    replay = log.outcomes(too_slow)
    if keeps(outcome(replay, now), goal):
        return now
    new = solve(replay, goal, errors=0, most=CUTS, cautious=True).thresholds
    # Only some scores have a cut between them, so a threshold that need not move stays as it is.
    pairs = (now.low, new.high), (new.low, now.high), (new.low, new.high)
    candidates = [Thresholds(low, high, now.steps) for low, high in pairs if low <= high]
    allowed = [pair for pair in candidates if keeps(outcome(replay, pair), goal)]
    return max(allowed, key=lambda pair: outcome(replay, pair).quality)


def show_replay(console: Console, log: DecisionLog, proposed: Thresholds | None = None) -> None:
    """Print what was read, and what the thresholds in use and proposed ones make of it."""
    policy = log.router.policy
    pairs = {"now": policy.thresholds} | ({"proposed": proposed} if proposed else {})
    unknown = np.flatnonzero(np.isnan(log.times_ms).all(axis=0)).tolist()
    untimed = [routes(policy.simple)[code] for code in unknown]
    texts = [
        escape(
            f"{len(log):,} decisions by {log.router.name} for collection '{log.collection}'; "
            f"{len(log.marked):,} different questions with passages marked as answers."
        ),
        "\n".join(f"- left out: {n:,} {escape(why)}" for why, n in log.exclusions.items()),
        compared(log.outcomes(), policy.simple, pairs, "same route as now"),
        "ms: the work on a request, its share of its batch. Where a request does not tell how long "
        "another route would have taken, it is assumed to take as long as others by that route.",
        *(f"No request tells the time of {route}, which counts as 0 here." for route in untimed),
    ]
    show("\n\n".join(texts), console)


def feedback_dataset(log: DecisionLog, ids: Set[str]) -> Dataset:
    """A dataset of questions whose feedback names passages, which count as relevant.

    Args:
        ids: Ids in the index. Other passages are dropped, since no route can find them; a question
            without any left is in `without_gold`.
    """
    gold = {
        question: dict.fromkeys(sorted(passages & ids), 1)
        for question, (_, passages) in log.marked.items()
    }
    usable = {question: log.marked[question][0] for question, hits in gold.items() if hits}
    return Dataset(
        name=f"log-{log.collection}",
        split="dev",  # to choose thresholds on
        questions=tuple(Question(id_, row.question) for id_, row in usable.items()),
        judgements={id_: gold[id_] for id_ in usable},
        without_gold=tuple(id_ for id_, hits in gold.items() if not hits),
        filters={id_: row.filter for id_, row in usable.items() if row.filter is not None},
    )


def replay_feedback(
    log: DecisionLog,
    index: Path,
    settings: Settings,
    *,
    cache: Path,
    measure: str,
    progress: Progress,
) -> tuple[Tuning, int]:
    """Replay the questions with feedback, to tune thresholds on them; and count those left out.

    Args:
        cache: Folder for the replay, which only its owner can read, as with the log.

    Raises:
        LogError: Too few questions have feedback that names passages.
        TrainingError: The replay or the features cannot be made.
    """
    with Session.open(settings, index) as session:
        dataset = feedback_dataset(log, set(session.snapshot.corpus.ids))
        if (count := len(dataset.questions)) < NEEDED:
            raise LogError(
                f"Thresholds need {NEEDED} questions with feedback that names passages of the "
                f"index, and the log has {count}: solved on fewer, they are often worse than the "
                "present ones. Collect more feedback, or leave --index out and bound "
                "--max-latency-ms or --max-graph-share."
            )
        folder = cache / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replay = replay_dataset(session, dataset, folder, progress=progress)
    replays = [TrainingReplay.of(replay)]
    tuning = Tuning.load(replays, cache=cache / "features", settings=settings, measure=measure)
    tuning = replace(tuning, model=tuning.model.with_policy(log.router.policy))
    return tuning, len(dataset.without_gold)


def tune_on_log(
    paths: Sequence[Path],
    goal: ThresholdObjective,
    *,
    router: str,
    collection: str,
    index: Path | None,
    measure: str,
    elsewhere: bool,
    out: Path | None,
    cache: Path,
    seed: int,
    progress: Progress,
) -> Path | None:
    """Show what thresholds make of a log, and write those that keep the bounds or are solved.

    Args:
        router: "name/version", or a version's folder; "" for the environment's, whose thresholds
            file holds for no other.
        index: Replay questions with feedback on it, and solve on them; None to keep bounds alone.

    Returns:
        The file that was written; None if none was.

    Raises:
        RequestLogError: A log cannot be read.
        ModelFileError: The router or its thresholds cannot be read.
        LogError: There is nothing to write, or as `read_log` and `replay_feedback` raise it.
        FitError: No thresholds keep the bounds.
    """
    bounded = goal != ThresholdObjective()
    if out is not None and index is None and not bounded:
        raise LogError(
            "There is nothing to write: set --max-latency-ms or --max-graph-share, or replay "
            "questions with feedback with --index."
        )
    console, settings = wide_console(), load_settings()
    if router:
        options = replace(settings.router, model=router, thresholds="")
        settings = settings.model_copy(update={"router": options})
    info = read_info(settings.router.folder())
    if settings.router.thresholds:
        info = replace(info, policy=read_policy(Path(settings.router.thresholds)))
    log, policy = read_log(paths, info, collection), info.policy
    read = {
        "collection": log.collection,
        "router": log.router.name,
        "requests": len(log),
        "questions with marked passages": len(log.marked),
    }
    notes: dict[str, Any] = {"log": read, "instead_of": asdict(policy.thresholds)}
    if index is not None:
        tuning, lost = replay_feedback(
            log, index, settings, cache=cache, measure=measure, progress=progress
        )
        solved = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
        thresholds = solved.solution.thresholds
        show_replay(console, log, thresholds)
        show_retuned(console, tuning, solved)
        console.print(
            "These judgements are biased: people mark what they were shown, and passages that only "
            "another route would have found count as not relevant, which favours the routes taken "
            f"then. {lost} questions are left out: the index has no passage marked for them."
        )
        if out is not None:
            notes["from"] = "feedback in a request log: partial, and of passages that were shown"
            tuning.save(out, thresholds, {**solved.notes(), **notes})
    else:
        thresholds = within_bounds(log, goal)
        if thresholds == policy.thresholds:
            show_replay(console, log)
            if bounded:
                console.print("The present thresholds keep the bounds; nothing is proposed.")
            return None
        show_replay(console, log, thresholds)
        console.print(
            "The proposed thresholds keep the bounds with the fewest changes of route. No answer "
            "was judged, so their quality is unknown."
        )
        if out is not None:
            notes |= {
                "from": "a request log; no answer was judged",
                "expected mean_ms": outcome(log.outcomes(), thresholds).mean_ms,
                "max_mean_ms": goal.max_mean_ms,
                "max_graph_share": goal.max_graph_share,
            }
            save_policy(out, replace(policy, router=log.router.name, thresholds=thresholds), notes)
    if out is None:
        console.print("Nothing is written; --out FILE writes the proposed thresholds.")
    return out
