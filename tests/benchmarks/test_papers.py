from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import main
from benchmarks.papers import (
    CLUES,
    TABLES,
    ZOOMS,
    coupled,
    coupled_walk,
    gain_at,
    linear_variants,
    with_list,
)
from tests.backends.conftest import corpus_of, many_passages
from tests.backends.papers.test_clue import graph_of
from tests.backends.trigraph.test_retriever import questions
from wye.backends.papers.zoom import ZoomRetriever, ZoomSettings, decoupled_walk
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.types import RankedHit, Ranking

__all__ = ["corpus_of"]


@pytest.fixture
def arm(corpus_of: Callable[..., Corpus]) -> ZoomRetriever:
    return ZoomRetriever(graph_of(corpus_of, many_passages(20)), ZoomSettings(deviations=1.0))


def test_walks_of_one_question_do_not_meet_and_those_of_several_do(arm: ZoomRetriever) -> None:
    asked = questions(4)
    filtered = FilteredGraph(arm.graph.graph)
    shared = arm.shared(filtered)
    edges = arm.edges(asked, filtered, shared)[0]
    apart = decoupled_walk(shared, edges, 0.8, 5)
    for row in range(len(asked)):
        alone = coupled_walk(shared, edges[row : row + 1], 0.8, 5)[0]
        assert alone == pytest.approx(apart[row], abs=1e-12)
    assert not np.allclose(coupled_walk(shared, edges, 0.8, 5), apart)


def test_coupled_walks_are_ranked_as_others_are(arm: ZoomRetriever) -> None:
    (query,) = questions(3)[2:]
    (alone,), (found,) = arm.search([query], 10), coupled(arm, [query])
    assert [hit.id for hit in found.hits] == [hit.id for hit in alone.hits]


def test_one_more_list_lifts_what_stands_out_in_it() -> None:
    base = Ranking("fusion", (RankedHit("a", 0.5, 1), RankedHit("b", 0.4, 2)))
    extra = Ranking("clue", (RankedHit("b", 0.8, 1), RankedHit("c", 0.1, 2)))
    assert [hit.id for hit in with_list(base, extra, 0).hits] == ["a", "b"]
    assert [hit.id for hit in with_list(base, extra, 1).hits] == ["b", "a", "c"]
    nothing = replace(extra, degraded="nothing is known")
    assert [hit.id for hit in with_list(base, nothing, 1).hits] == ["a", "b"]


def test_every_table_begins_with_what_it_is_compared_to() -> None:
    assert next(iter(CLUES)) == "Clue-RAG-0.0"
    assert next(iter(ZOOMS)) == "Doc-Zoom"
    names = [name for name, _ in linear_variants()]
    assert names[:2] == ["default", "equation 5 as printed"]
    assert len(names) == len(set(names))


def test_a_table_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "x", "--indexes", "x", "--tables", "recall,prices"]) == 2
    assert f"No table 'prices'; there is {', '.join(TABLES)}." in capsys.readouterr().err


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 9)), min_size=1, max_size=8), st.data())
def test_the_gain_of_a_share_is_that_of_its_first_questions_and_the_mean_of_equal_ones(
    rows: list[tuple[float, int]], data: st.DataObject
) -> None:
    taken = data.draw(st.integers(0, len(rows)))
    # Questions with equal scores are as good as their mean.
    means = {s: np.mean([gain for gain, own in rows if own == s]) for _, s in rows}
    first = sorted((score for _, score in rows), reverse=True)[:taken]
    gains, scores = np.array(rows, float).T
    slow = sum(means[score] for score in first) / len(rows)
    assert gain_at(gains, scores, taken / len(rows)) == pytest.approx(slow, abs=1e-9)
