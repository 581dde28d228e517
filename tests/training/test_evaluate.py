from collections.abc import Sequence
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from wye.backends.types import RankedHit, Ranking, Silent
from wye.router.types import Ask, Reply, Route
from wye.training.data import Dataset, Question
from wye.training.evaluate import advise, as_markdown, evaluate
from wye.training.markdown import show
from wye.training.measures import MEASURES

ANSWERS = {("dense", "one"): ["a", "b"], ("dense", "two"): ["x"]}
ANSWERS |= {("graph", "one"): ["b", "a"], ("graph", "two"): ["c", "d"]}
JUDGED = {"q1": {"a": 1}, "q2": {"c": 1, "d": 1}}
DATASET = Dataset("tiny", "test", (Question("q1", "one"), Question("q2", "two")), JUDGED)


class Canned:
    def __init__(self) -> None:
        self.batches: list[int] = []

    def search(self, questions: Sequence[str], ask: Ask) -> list[Reply]:
        self.batches.append(len(questions))
        return [self._reply(question, ask.route, ask.k) for question in questions]

    def _reply(self, question: str, route: Route, k: int) -> Reply:
        ids = ANSWERS.get((route, question), [])[:k]
        hits = tuple(RankedHit(id_, 1 / rank, rank) for rank, id_ in enumerate(ids, start=1))
        degraded = "no seed" if (route, question) == (Route.GRAPH, "one") else ""
        seconds = {"encoding": 0.002, str(route): 0.001 if question == "one" else 0.003}
        return Reply(question, route, Ranking(route, hits, 4, degraded), {}, seconds, version=7)


def test_each_route_is_measured_apart_and_compared() -> None:
    found = evaluate(Canned(), DATASET, [Route.DENSE, Route.GRAPH])
    assert found.means["dense"]["Success@1"].mean == 0.5
    assert found.means["graph"]["all-evidence@5"].mean == 1
    assert found.differences["graph", "dense"]["all-evidence@5"].mean == 0.5
    assert found.version == 7
    assert found.unanswered_by(*found.runs) == []
    dense, graph = found.runs
    column = MEASURES.index("R@1")
    assert np.array_equal(dense.values[:, column], [1, 0])
    assert np.array_equal(graph.values[:, column], [0, 0.5])
    assert (graph.degraded, dense.degraded) == ({"no seed": 1}, {})


def test_latency_is_per_stage_in_milliseconds_and_percentiles_need_single_questions() -> None:
    together, apart = (evaluate(Canned(), DATASET, [Route.DENSE], batch=batch) for batch in (2, 1))
    means = {"encoding": 2, "dense": 2, "total": 4}
    assert together.runs[0].latency(2) == pytest.approx(means)
    percentiles = {"p50 of total": 4, "p95 of total": 4.9, "p99 of total": 4.98}
    assert apart.runs[0].latency(1) == pytest.approx(means | percentiles)
    assert ("p95" in as_markdown(together), "p95" in as_markdown(apart)) == (False, True)


def test_tables_fit_eighty_columns() -> None:
    found = evaluate(Canned(), DATASET, [*Route], batch=1)
    console = Console(width=80, record=True, file=StringIO())
    show(as_markdown(found), console)
    said = console.export_text()
    assert "…" not in said
    # The first cell of a table is never empty, unless a row has become two lines.
    assert [line for line in said.splitlines() if line.startswith("   ") and line.strip()] == []


def test_a_question_without_hits_is_unanswered() -> None:
    dataset = Dataset(
        "tiny",
        "test",
        (*DATASET.questions, Question("q3", "three"), Question("q4", "  ")),
        {**DATASET.judgements, "q3": {"a": 1}, "q4": {"a": 1}},
    )
    found = evaluate(Canned(), dataset, [Route.DENSE])
    assert found.unanswered_by(*found.runs) == ["q3", "q4"]
    assert found.means["dense"]["Success@5"].mean == 0.25


def test_questions_go_in_batches_after_one_to_warm_up() -> None:
    endpoint = Canned()
    evaluate(endpoint, DATASET, [Route.DENSE], batch=1)
    assert endpoint.batches == [1, 1, 1]
    endpoint.batches.clear()
    evaluate(endpoint, DATASET, [Route.DENSE])
    assert endpoint.batches == [1, 2]


@pytest.mark.parametrize(
    ("relevance", "taken", "says"),
    [
        ({"auto": 0.9, "hybrid": 0.5}, "a", "Auto finds more here, and takes 9.0 ms where hybrid"),
        ({"auto": 0.505, "hybrid": 0.5}, "a", "Hybrid is enough here"),
        ({"auto": 0.9, "hybrid": 0.5}, "b", "Hybrid is enough here"),
        ({}, "a", "Auto finds more here"),
    ],
)
def test_advice_without_judgements(relevance: dict[str, float], taken: str, says: str) -> None:
    class Endpoint:
        def search(self, questions: Sequence[str], ask: Ask) -> list[Reply]:
            route = ask.route
            (question,) = questions
            hit = RankedHit(taken if route == Route.AUTO else "b", 1.0, 1)
            own = (relevance.get(str(route), 0.1),) if relevance else ()
            seconds = {"total": 0.009 if route == Route.AUTO else 0.002}
            path = Route.FUSION if route == Route.AUTO else route
            ranking = Ranking(path, (hit,), 4, "")
            return [Reply(question, path, ranking, {}, seconds, version=7, relevance=own)]

    text = advise(Endpoint(), DATASET.questions, Silent())
    assert says in text
    assert "Auto takes fusion for 2." in text
    others = {"a": "100%", "b": "0%"}[taken]
    assert f"| hybrid | 2.0 | {others} | " in text
    assert ("| - |" in text) == (not relevance)
