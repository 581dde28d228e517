import math

import pytest

from router.types import Route
from training.traffic.stages import ROUTES, times_of_routes

READING = {"parsing": 0.005, "encoding": 0.004, "features": 0.001, "fetching": 0.001}
ARMS = {"dense": 0.002, "lexical": 0.003, "graph": 0.02, "seeds": 0.004, "fusing": 0.006}


def times(stages: dict[str, float], taken: Route, *, asks_corpus: bool) -> dict[Route, float]:
    found = times_of_routes(stages, taken, asks_corpus=asks_corpus)
    return {route: ms for route, ms in zip(ROUTES, found, strict=True) if not math.isnan(ms)}


def test_fusion_tells_how_long_each_arm_alone_would_have_taken() -> None:
    found = times({**READING, **ARMS}, Route.FUSION, asks_corpus=False)
    assert found == pytest.approx(
        {
            Route.DENSE: 13,
            Route.LEXICAL: 14,
            Route.HYBRID: 22,
            Route.GRAPH: 40,
            Route.FUSION: 46,
        }
    )


def test_what_a_router_asks_the_corpus_is_taken_whatever_it_decides() -> None:
    found = times({**READING, **ARMS}, Route.FUSION, asks_corpus=True)
    assert (found[Route.DENSE], found[Route.LEXICAL]) == pytest.approx((17, 20))
    assert found[Route.GRAPH] == pytest.approx(40)
    graph = {name: ARMS[name] for name in ("dense", "seeds", "graph")}
    found = times({**READING, **graph}, Route.GRAPH, asks_corpus=True)
    assert found == pytest.approx({Route.DENSE: 17, Route.GRAPH: 37})


def test_an_arm_alone_tells_of_itself() -> None:
    found = times({**READING, "dense": 0.002}, Route.DENSE, asks_corpus=False)
    assert found == pytest.approx({Route.DENSE: 13})
    # Where an arm was not run, as for an empty index, the route's own time is known all the same.
    assert times({"parsing": 0.005}, Route.DENSE, asks_corpus=True) == {Route.DENSE: 5}
