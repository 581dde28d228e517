"""Compares steps with fusion: quality by hops and by kinds of steps, searches, milliseconds.

Hops are the number of passages that answer a question. A star marks a paired difference to fusion
whose 95 % bootstrap interval excludes 0. Milliseconds in a batch are a question's share of 32 with
the same number of hops; alone, they are medians over questions of the fastest of three times, with
both routes in turn. Ratios are of processor time. A question's kinds are those of its plan's steps.
--ablation leaves out or changes parts of the steps, one at a time, and adds rivals: Clue-RAG, and
with --plans-url plans by a language model.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from backends.types import Float64
from benchmarks import harness
from benchmarks.decomposition import LlmPlanner
from benchmarks.harness import Table
from featurizer.analyser import Analyser
from featurizer.plan import Plan, plan_of, walk
from router.gateway import Gateway, Planner
from router.reading import QuestionReading
from router.session import Session
from router.settings import load_settings
from router.steps import StepSettings
from router.types import Reply, Route
from training.data.dataset import Dataset, read_dataset
from training.evaluation.measures import ALL_EVIDENCE, MEASURES, score

BATCH = 32
DEPTH = 10
QUALITY = ("R@5", ALL_EVIDENCE)
ABLATION: Mapping[str, StepSettings] = {
    "steps": StepSettings(),
    "one walk with all names, without single ones": StepSettings(weight=0.0),
    "single names, without one walk with all": StepSettings(joint_weight=0.0),
    "one level": StepSettings(levels=1),
    "three levels": StepSettings(levels=3),
    "dates for all types": StepSettings(typed=False),
    "nearest sentence": StepSettings(sentences=1),
    "first passage": StepSettings(passages=1),
    "nothing for open questions": StepSettings(open_weight=0.0),
    "one name encoded": StepSettings(encoded=1),
    "all names encoded": StepSettings(encoded=8),
    "lists 100 deep": StepSettings(depth=100),
    "4 candidates": StepSettings(candidates=4),
    "at most 12 searches": StepSettings(searches=12),
    "phrases do not count": StepSettings(phrase_weight=0.0),
    "weights .5": StepSettings(weight=0.5, joint_weight=0.5),
    "weights 1.1": StepSettings(weight=1.1, joint_weight=1.1),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for dataset, index, splits, and the ablation."""
    harness.add_data(parser)
    parser.add_argument("--splits", default="dev", help="splits, with commas (default dev)")
    parser.add_argument("--every", type=int, default=1, help="ask only every Nth question")
    parser.add_argument("--ablation", action="store_true", help="show what parts of steps give")
    parser.add_argument("--plans-url", help="an OpenAI-compatible API that makes plans")
    parser.add_argument("--plans-model", default="", help="name of its model")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""
    dataset = read_splits(given)
    with harness.index_of(given) as folder, Session.open(load_settings(), folder) as session:
        harness.print_header(
            "Steps beside fusion",
            seed=given.seed,
            data=f"{dataset.name} ({dataset.split}), {session.count:,} passages, "
            f"{len(dataset.questions)} questions",
        )
        ask(session, dataset, Route.STEPS)  # loads models and builds arms before timing
        fused = ask(session, dataset, Route.FUSION)[0]
        stepped = ask(session, dataset, Route.STEPS)[0]
        baseline = quality(dataset, fused)
        print_hops(dataset, baseline, quality(dataset, stepped), given.seed)
        print()
        print_kinds(session, dataset, baseline, quality(dataset, stepped), given.seed)
        print()
        alone = np.array([time_alone(session, question.text) for question in dataset.questions])
        print_time_by_hops(session, dataset, alone, stepped)
        print()
        print_time_by_levels(alone, stepped)
        if given.ablation:
            print()
            print_ablation(session, dataset, baseline, given)


def read_splits(given: argparse.Namespace) -> Dataset:
    """The questions of all named splits, as one dataset."""
    parts = [read_dataset(given.dataset, split) for split in given.splits.split(",")]
    questions = [question for part in parts for question in part.questions][:: given.every]
    judged = {id_: own for part in parts for id_, own in part.judgements.items()}
    return replace(
        parts[0],
        split=given.splits,
        questions=tuple(questions),
        judgements={question.id: judged[question.id] for question in questions},
    )


def ask(
    session: Session,
    dataset: Dataset,
    route: Route,
    settings: StepSettings | None = None,
    plans: Planner = QuestionReading.plans,
) -> tuple[list[Reply], list[float]]:
    """Replies, and wall and processor milliseconds a question."""
    gateway = Gateway(
        lambda: session.snapshot,
        lambda: session.analyser,
        session.settings.fusion,
        steps=settings,
        plans=plans,
    )
    texts = [question.text for question in dataset.questions]
    replies: list[Reply] = []
    start, cpu = perf_counter(), process_time()
    for first in range(0, len(texts), BATCH):
        replies += gateway.search(texts[first : first + BATCH], route, DEPTH)
    spent = [perf_counter() - start, process_time() - cpu]
    return replies, [1e3 * seconds / len(texts) for seconds in spent]


def quality(dataset: Dataset, replies: Sequence[Reply]) -> Float64:
    """(n, 2) the measures of `QUALITY` for each question."""
    run = {
        question.id: [hit.id for hit in reply.ranking.hits]
        for question, reply in zip(dataset.questions, replies, strict=True)
    }
    return score(dataset.judgements, run)[:, [MEASURES.index(name) for name in QUALITY]]


def searches(replies: Sequence[Reply]) -> float:
    """Mean number of searches beside the one for the whole question."""
    return float(np.mean([reply.searches for reply in replies]))


def print_hops(dataset: Dataset, fused: Float64, stepped: Float64, seed: int) -> None:
    """Print the quality of both routes by hops."""
    _print_groups("hops", by_hops(dataset), fused, stepped, seed)


def by_hops(dataset: Dataset) -> dict[str, NDArray[np.bool_]]:
    """Number of hops -> (n,) mask of its questions; and a mask of all."""
    hops = np.array(
        [
            sum(value > 0 for value in dataset.judgements[question.id].values())
            for question in dataset.questions
        ]
    )
    return {str(n): hops == n for n in np.unique(hops)} | {"all": hops > 0}


def print_kinds(
    session: Session, dataset: Dataset, fused: Float64, stepped: Float64, seed: int
) -> None:
    """Print the quality of both routes by the kinds of steps in the plans."""
    reading = QuestionReading([one.text for one in dataset.questions], lambda: session.analyser)
    plans = reading.plans(range(len(dataset.questions)))
    kinds = [{step.kind for step in walk(plan.steps)} or {_unplanned(plan)} for plan in plans]
    names = sorted(set().union(*kinds))
    groups = {name: np.array([name in own for own in kinds]) for name in names}
    _print_groups("kind", groups, fused, stepped, seed)


def _unplanned(plan: Plan) -> str:
    return "open" if plan.open else "no plan"


def _print_groups(
    what: str,
    groups: Mapping[str, NDArray[np.bool_]],
    fused: Float64,
    stepped: Float64,
    seed: int,
) -> None:
    columns = [f"{name}, {way}".rjust(22) for name in QUALITY for way in ("fusion", "steps")]
    table = Table([what, "questions", *columns], width=12)
    for name, own in groups.items():
        before = harness.intervals(fused[own], fused[own], seed=seed)
        after = harness.intervals(stepped[own], fused[own], seed=seed)
        cells = [cell for pair in zip(before, after, strict=True) for cell in pair]
        table.row(name, str(own.sum()), *cells)


def time_alone(session: Session, question: str) -> list[float]:
    """Wall and processor milliseconds by fusion, then by steps; the fastest of three."""
    times: dict[Route, list[tuple[float, float]]] = {Route.FUSION: [], Route.STEPS: []}
    for _ in range(3):
        for route, own in times.items():
            start, cpu = perf_counter(), process_time()
            session.gateway.search([question], route, DEPTH)
            own.append((1e3 * (perf_counter() - start), 1e3 * (process_time() - cpu)))
    return [min(column) for own in times.values() for column in zip(*own, strict=True)]


def print_time_by_hops(
    session: Session, dataset: Dataset, alone: Float64, stepped: Sequence[Reply]
) -> None:
    """Print searches and milliseconds by hops, alone and in batches."""
    columns = [f"{what} {way}" for way in ("fusion", "steps") for what in ("ms", "CPU ms")]
    names = [f"{how}: {name}" for how in ("alone", "batch") for name in (*columns, "CPU ratio")]
    table = Table(["hops", "questions", "taken apart", "searches", *names], width=6)
    for name, own in by_hops(dataset).items():
        places = np.flatnonzero(own).tolist()
        part = replace(dataset, questions=tuple(dataset.questions[place] for place in places))
        replies = [stepped[place] for place in places]
        apart = float(np.mean([reply.searches > 0 for reply in replies]))
        cells = [apart, searches(replies)]
        batched = [ask(session, part, route)[1] for route in (Route.FUSION, Route.STEPS)]
        for times in (np.median(alone[own], axis=0).tolist(), [*batched[0], *batched[1]]):
            cells += [*times, times[3] / times[1]]
        table.row(name, str(len(places)), *cells)


def print_time_by_levels(alone: Float64, stepped: Sequence[Reply]) -> None:
    """Print milliseconds of questions asked one by one, by the levels of their plans."""
    levels = np.array([max((s.level for s in reply.chain), default=0) for reply in stepped])
    columns = [f"{what} {way}" for way in ("fusion", "steps") for what in ("ms", "CPU ms")]
    table = Table(["levels", "questions", "searches", *columns, "ratio", "CPU ratio"], width=6)
    for level in np.unique(levels):
        places = np.flatnonzero(levels == level).tolist()
        times = np.median(alone[places], axis=0).tolist()
        cells = (searches([stepped[place] for place in places]), *times)
        ratios = times[2] / times[0], times[3] / times[1]
        table.row(f"{level}", str(len(places)), *cells, *ratios)


def print_ablation(
    session: Session, dataset: Dataset, fused: Float64, given: argparse.Namespace
) -> None:
    """Print quality and searches of ablations of steps, and of rivals."""
    table = Table(["variant", *(name.rjust(22) for name in QUALITY), "searches"], width=44)

    def row(name: str, replies: Sequence[Reply]) -> None:
        values = quality(dataset, replies)
        table.row(name, *harness.intervals(values, fused, seed=given.seed), searches(replies))

    for name, settings in ABLATION.items():
        row(name, ask(session, dataset, Route.STEPS, settings)[0])
    trees = by_constituency(session.analyser)
    row("constituency trees", ask(session, dataset, Route.STEPS, plans=trees)[0])
    if given.plans_url:
        planner = LlmPlanner(given.plans_url, given.plans_model)
        row("plans by the model", ask(session, dataset, Route.STEPS, plans=planner)[0])
    row("Clue-RAG, the route clue", ask(session, dataset, Route.CLUE)[0])


def by_constituency(analyser: Analyser) -> Planner:
    """A planner that uses constituency trees."""

    def plans(reading: QuestionReading, places: Sequence[int]) -> list[Plan]:
        texts = [reading.questions[place] for place in places]
        parses = analyser.parse_questions(texts, tokens=True)
        return [plan_of(syntax) for syntax in analyser.syntax_of(parses)]

    return plans
