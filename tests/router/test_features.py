import numpy as np
import pytest

from backends.trigraph.seeds import SeedStats
from backends.types import Hit, Mention, Query, Ranking
from featurizer import registry as featurizer
from featurizer.registry import FEATURE_NAMES
from router.query_performance import (
    CHEAP_SIGNALS,
    NAMES,
    SIGNALS_VERSION,
    asks_corpus,
    schema_id,
    signals,
    with_corpus,
    without_corpus,
)
from router.types import ArmResults, Route

PARSERS = {"pipeline": "one", "constituency": "two"}
DENSE = Ranking(Route.DENSE, (Hit("a", 0.9, 1), Hit("b", 0.4, 2)))
KNOWN = ArmResults(
    Query("Who met Ada?", np.ones(2, np.float32), mentions=(Mention("Ada", "entity"),)),
    (SeedStats("Ada", 0.8, "name", 4, 1),),
    {Route.DENSE: DENSE},
)
UNKNOWN = ArmResults(Query("why?", np.ones(2, np.float32)), (), {})


def test_the_questions_columns_come_first_and_the_corpus_adds_its_own() -> None:
    own = np.random.default_rng(0).normal(size=(2, len(FEATURE_NAMES)))
    found = with_corpus(own, [KNOWN, UNKNOWN])
    assert found.shape == (2, len(NAMES))
    assert (found[:, : len(FEATURE_NAMES)] == own).all()
    assert (found[:, len(FEATURE_NAMES) :] == signals([KNOWN, UNKNOWN], CHEAP_SIGNALS)).all()
    assert found[0, NAMES.index("dense_best")] == 0.9
    assert found[0, NAMES.index("seed_count")] > 0 == found[1, NAMES.index("seed_count")]
    assert not without_corpus(own)[:, len(FEATURE_NAMES) :].any()
    assert (without_corpus(own)[:, : len(FEATURE_NAMES)] == own).all()


def test_what_deeper_lists_and_other_arms_say_changes_nothing() -> None:
    """So a replay, which has all of it, gives the columns that the gateway has."""
    more = ArmResults(
        KNOWN.query,
        KNOWN.seeds,
        {
            Route.DENSE: Ranking(
                Route.DENSE, tuple(Hit(f"p{n:02}", 1 / n, n) for n in range(1, 100))
            ),
            Route.GRAPH: DENSE,
            Route.LEXICAL: DENSE,
        },
    )
    cut = ArmResults(
        KNOWN.query,
        KNOWN.seeds,
        {Route.DENSE: Ranking(Route.DENSE, more.rankings[Route.DENSE].hits[:5])},
    )
    own = np.zeros((1, len(FEATURE_NAMES)))
    assert (with_corpus(own, [more]) == with_corpus(own, [cut])).all()


def test_a_router_asks_the_corpus_when_one_of_its_features_does() -> None:
    assert not asks_corpus(FEATURE_NAMES)
    assert not asks_corpus([])
    assert all(asks_corpus([FEATURE_NAMES[0], name]) for name in CHEAP_SIGNALS)
    assert len(set(NAMES)) == len(NAMES)


def test_other_signals_or_models_are_another_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    found = schema_id(PARSERS)
    assert found == schema_id(dict(reversed(PARSERS.items())))
    assert found != featurizer.schema_id(PARSERS)
    assert found != schema_id({**PARSERS, "pipeline": "other"})
    with monkeypatch.context() as patch:
        patch.setattr("router.query_performance.SIGNALS_VERSION", SIGNALS_VERSION + 1)
        assert found != schema_id(PARSERS)
    with monkeypatch.context() as patch:
        patch.setattr("router.query_performance.CHEAP_SIGNALS", CHEAP_SIGNALS[1:])
        assert found != schema_id(PARSERS)
