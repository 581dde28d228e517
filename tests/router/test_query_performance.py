"""Signals against what they are said to be, on evidence made by hand."""

import math

import numpy as np
import pytest

from backends.trigraph.seeds import SeedStats
from backends.types import Mention, Query, RankedHit, Ranking
from featurizer import registry as featurizer
from featurizer.registry import FEATURE_NAMES
from router.query_performance import (
    CHEAP_SIGNALS,
    NAMES,
    SIGNAL_NAMES,
    SIGNALS_VERSION,
    asks_corpus,
    schema_id,
    signals,
    with_corpus,
    without_corpus,
)
from router.types import ArmResults, Route


def ranking(arm: Route, *pairs: tuple[str, float]) -> Ranking:
    hits = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, 100)


def of(evidence: ArmResults) -> dict[str, float]:
    return dict(zip(SIGNAL_NAMES, signals([evidence])[0].tolist(), strict=True))


QUERY = Query(
    "Who filmed the red Reef of Ada Lind?",
    np.ones(2, np.float32),
    mentions=(Mention("Ada Lind", "entity"), Mention("Bo", "entity"), Mention("reef", "phrase")),
)
SEEDS = (
    SeedStats("Ada Lind", 1.0, "name", 8, 2),
    SeedStats("reef", 0.3, "vocabulary", 1, 0),
)
FULL = ArmResults(
    QUERY,
    SEEDS,
    {
        Route.DENSE: ranking(Route.DENSE, ("a", 0.9), ("b", 0.8), ("c", 0.5)),
        Route.LEXICAL: ranking(Route.LEXICAL, ("b", 8.0), ("a", 6.0)),
        Route.GRAPH: ranking(
            Route.GRAPH, *zip("cdabef", (0.4, 0.2, 0.1, 0.1, 0.05, 0.01), strict=True)
        ),
    },
)


def test_of_seeds() -> None:
    found = of(FULL)
    assert found["seed_count"] == pytest.approx(math.log(3))
    assert found["seed_hit_rate"] == 0.5
    # filmed, red, reef, ada, lind: three of five content words
    assert found["seed_coverage"] == pytest.approx(3 / 5)
    assert found["seed_value_best"] == 1.0
    assert found["seed_value_sum"] == pytest.approx(1.3)
    assert found["seed_lower_case"] == 0.5
    assert found["seed_degree"] == pytest.approx(math.log(2))
    assert found["seed_specificity"] == pytest.approx(0.3)
    assert found["seed_title_value"] == 1.0
    assert found["seed_title_uniqueness"] == 0.5


def test_of_lists() -> None:
    found = of(FULL)
    assert found["dense_best"] == pytest.approx(0.9)
    assert found["dense_margin_2"] == pytest.approx(0.1)
    assert found["dense_margin_5"] == pytest.approx(0.4)  # of three, the last
    assert found["lexical_margin_2"] == pytest.approx(0.25)
    assert found["graph_margin_2"] == pytest.approx(math.log(2))
    assert found["graph_margin_5"] == pytest.approx(math.log(8))


def test_of_agreement() -> None:
    found = of(FULL)
    assert found["agreement_dense_graph"] == pytest.approx(3 / 5)
    assert found["agreement_dense_lexical"] == pytest.approx(2 / 3)
    assert found["agreement_lexical_graph"] == pytest.approx(2 / 5)
    assert found["same_best_dense_graph"] == 0.0
    assert found["graph_best_in_dense"] == pytest.approx(1 - math.log(3) / math.log(4))
    assert found["graph_best_in_lexical"] == 0.0
    assert found["dense_best_in_graph"] == pytest.approx(1 - math.log(3) / math.log(7))


def test_nothing_found_is_zero_everywhere() -> None:
    empty = ArmResults(Query("", np.zeros(0, np.float32)))
    assert not signals([empty]).any()
    nothing = {arm: ranking(arm) for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH)}
    assert not signals([ArmResults(QUERY, (), nothing)]).any()


def test_the_cheap_ones_need_no_walk() -> None:
    early = ArmResults(QUERY, SEEDS, {Route.DENSE: FULL.rankings[Route.DENSE]})
    assert np.array_equal(signals([early], CHEAP_SIGNALS), signals([FULL], CHEAP_SIGNALS))
    assert SIGNAL_NAMES[: len(CHEAP_SIGNALS)] == CHEAP_SIGNALS


def test_the_scale_of_an_arm_does_not_matter() -> None:
    rankings = dict(FULL.rankings)
    for arm in (Route.LEXICAL, Route.GRAPH):
        hits = rankings[arm].hits
        rankings[arm] = ranking(arm, *((hit.id, hit.score * 1e-3) for hit in hits))
    assert signals([ArmResults(QUERY, SEEDS, rankings)]) == pytest.approx(signals([FULL]))


def test_names_are_unique_and_chosen_in_any_order() -> None:
    assert len(set(SIGNAL_NAMES)) == len(SIGNAL_NAMES)
    chosen = ("dense_best", "seed_count")
    assert signals([FULL, FULL], chosen).tolist() == [[of(FULL)[name] for name in chosen]] * 2
    assert signals([], chosen).shape == (0, 2)
    with pytest.raises(KeyError):
        signals([FULL], ("dense_best", "no such signal"))


PARSERS = {"pipeline": "one", "constituency": "two"}
DENSE = Ranking(Route.DENSE, (RankedHit("a", 0.9, 1), RankedHit("b", 0.4, 2)))
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
                Route.DENSE, tuple(RankedHit(f"p{n:02}", 1 / n, n) for n in range(1, 100))
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
