"""Signals against what they are said to be, on evidence made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Mention, Query, RankedHit, Ranking
from wye.featurizer import registry as featurizer
from wye.featurizer.registry import FEATURE_NAMES
from wye.router.query_performance import (
    CHEAP_SIGNALS,
    GRAPH_SIGNALS,
    NAMED,
    NAMES,
    SIDES,
    SIGNALS_VERSION,
    asks_corpus,
    at_hand,
    schema_id,
    signals,
    with_corpus,
    without_corpus,
)
from wye.router.text_evidence import TEXT_SIGNALS
from wye.router.types import ArmResults, Route


def ranking(arm: Route, *pairs: tuple[str, float]) -> Ranking:
    hits = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, 100)


ALL = CHEAP_SIGNALS + GRAPH_SIGNALS
OTHERS = tuple(name for name in ALL if name not in TEXT_SIGNALS)


def of(evidence: ArmResults) -> dict[str, float]:
    return dict(zip(OTHERS, signals([evidence], OTHERS)[0].tolist(), strict=True))


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


def test_each_by_hand() -> None:
    assert of(FULL) == pytest.approx(
        {
            "seed_count": math.log(3),
            "seed_hit_rate": 0.5,
            # filmed, red, reef, ada, lind: three of five content words
            "seed_coverage": 3 / 5,
            "seed_value_best": 1.0,
            "seed_value_sum": 1.3,
            "seed_lower_case": 0.5,
            "seed_degree": math.log(2),
            "seed_specificity": 0.3,
            "seed_title_value": 1.0,
            "seed_title_uniqueness": 0.5,
            "dense_best": 0.9,
            "dense_margin_2": 0.1,
            "dense_margin_5": 0.4,  # of three, the last
            "graph_margin_5": math.log(8),
            "graph_lexical_share": 0.0,  # the lexical list lacks c
        }
    )


@pytest.mark.parametrize(("best", "share"), [("a", 0.75), ("b", 1.0), ("e", 0.0)])
def test_how_well_the_words_of_a_question_fit_what_the_graph_found(best: str, share: float) -> None:
    lists = {**FULL.rankings, Route.GRAPH: ranking(Route.GRAPH, (best, 0.4), ("f", 0.2))}
    assert of(replace(FULL, rankings=lists))["graph_lexical_share"] == share


def test_nothing_found_is_zero_everywhere() -> None:
    empty = ArmResults(Query("", np.zeros(0, np.float32)))
    assert not signals([empty], OTHERS).any()
    nothing = {arm: ranking(arm) for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH)}
    assert not signals([ArmResults(QUERY, (), nothing)], OTHERS).any()


def test_the_cheap_ones_need_no_walk() -> None:
    early = replace(
        FULL, rankings={arm: FULL.rankings[arm] for arm in (Route.DENSE, Route.LEXICAL)}
    )
    assert np.array_equal(signals([early], CHEAP_SIGNALS), signals([FULL], CHEAP_SIGNALS))


def test_the_scale_of_an_arm_does_not_matter() -> None:
    rankings = dict(FULL.rankings)
    for arm in (Route.LEXICAL, Route.GRAPH):
        hits = rankings[arm].hits
        rankings[arm] = ranking(arm, *((hit.id, hit.score * 1e-3) for hit in hits))
    assert signals([ArmResults(QUERY, SEEDS, rankings)], ALL) == pytest.approx(signals([FULL], ALL))


def test_names_are_unique_and_chosen_in_any_order() -> None:
    assert len(set(ALL)) == len(ALL)
    chosen = ("dense_best", "seed_count")
    assert signals([FULL, FULL], chosen).tolist() == [[of(FULL)[name] for name in chosen]] * 2
    assert signals([], chosen).shape == (0, 2)
    with pytest.raises(KeyError):
        signals([FULL], ("dense_best", "no such signal"))


PARSERS = {"pipeline": "one", "constituency": "two"}
DENSE = ranking(Route.DENSE, ("a", 0.9), ("b", 0.4))
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
    deep = ranking(Route.DENSE, *((f"p{n:02}", 1 / n) for n in range(1, 100)))
    all_arms = {Route.DENSE: deep, Route.GRAPH: DENSE, Route.LEXICAL: DENSE}
    more = replace(KNOWN, rankings=all_arms)
    near = replace(deep, hits=deep.hits[:10])
    cut = replace(KNOWN, rankings={Route.DENSE: near, Route.LEXICAL: DENSE})
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
    changes = {"SIGNALS_VERSION": SIGNALS_VERSION + 1, "CHEAP_SIGNALS": CHEAP_SIGNALS[1:]}
    for name, value in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"wye.router.query_performance.{name}", value)
            assert found != schema_id(PARSERS)


def test_names_of_what_is_not_put_side_by_side_are_half_of_what_is_needed() -> None:
    columns = np.full((3, len(NAMES)), np.nan)
    columns[:2, NAMES.index(NAMED)], columns[:2, NAMES.index(SIDES)] = 0.5, [0, 2]
    assert at_hand(columns).tolist() == [0.25, 0.5, pytest.approx(np.nan, nan_ok=True)]
