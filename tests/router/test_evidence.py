"""Signals against what they are said to be, on evidence made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import (
    Coverage,
    Mention,
    NameCoverage,
    Query,
    RankedHit,
    Ranking,
    WordCoverage,
)
from wye.featurizer import registry as featurizer
from wye.featurizer.registry import FEATURE_NAMES
from wye.router.evidence import (
    CHEAP_SIGNALS,
    COLUMNS,
    GRAPH_SIGNALS,
    NAME_SIGNALS,
    NAMES_SIGNAL,
    QUESTION_SIGNALS,
    SIDES_SIGNAL,
    SIGNALS_VERSION,
    TEXT_SIGNALS,
    asks_corpus,
    schema_id,
    share_at_hand,
    signals,
    text_signals,
    with_corpus,
    without_corpus,
)
from wye.router.types import ArmResults, Route


def ranking(arm: Route, *pairs: tuple[str, float]) -> Ranking:
    hits = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, 100)


ALL = CHEAP_SIGNALS + GRAPH_SIGNALS
OTHERS = tuple(name for name in ALL if name not in TEXT_SIGNALS)


def signals_of(evidence: ArmResults) -> dict[str, float]:
    return dict(zip(OTHERS, signals([evidence], OTHERS)[0].tolist(), strict=True))


QUERY = Query(
    "Who filmed the red Reef of Ada Lind?",
    np.ones(2, np.float32),
    mentions=(Mention("Ada Lind", "entity"), Mention("Bo", "entity"), Mention("reef", "phrase")),
)
SEEDS = (SeedStats("Ada Lind", 1.0, "name", 8, 2), SeedStats("reef", 0.3, "vocabulary", 1, 0))
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
LISTS = {arm: FULL.rankings[arm] for arm in (Route.DENSE, Route.LEXICAL)}


def test_each_by_hand() -> None:
    assert signals_of(FULL) == pytest.approx(
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


def test_nothing_found_is_zero_everywhere() -> None:
    empty = ArmResults(Query("", np.zeros(0, np.float32)))
    assert not signals([empty], OTHERS).any()
    nothing = {arm: ranking(arm) for arm in (Route.DENSE, Route.LEXICAL, Route.GRAPH)}
    assert not signals([ArmResults(QUERY, (), nothing)], OTHERS).any()


def test_the_cheap_ones_need_no_walk() -> None:
    early = replace(FULL, rankings=LISTS)
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
    expected = [signals_of(FULL)[name] for name in chosen]
    assert signals([FULL, FULL], chosen).tolist() == [expected] * 2
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
    assert found.shape == (2, len(COLUMNS))
    assert (found[:, : len(FEATURE_NAMES)] == own).all()
    assert (found[:, len(FEATURE_NAMES) :] == signals([KNOWN, UNKNOWN], CHEAP_SIGNALS)).all()
    assert found[0, COLUMNS.index("dense_best")] == 0.9
    assert found[0, COLUMNS.index("seed_count")] > 0 == found[1, COLUMNS.index("seed_count")]
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
    assert len(set(COLUMNS)) == len(COLUMNS)


def test_other_signals_or_models_are_another_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    found = schema_id(PARSERS)
    assert found == schema_id(dict(reversed(PARSERS.items())))
    assert found != featurizer.schema_id(PARSERS)
    assert found != schema_id({**PARSERS, "pipeline": "other"})
    changes = {"SIGNALS_VERSION": SIGNALS_VERSION + 1, "CHEAP_SIGNALS": CHEAP_SIGNALS[1:]}
    for name, value in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"wye.router.evidence.{name}", value)
            assert found != schema_id(PARSERS)


def test_names_of_what_is_not_put_side_by_side_are_half_of_what_is_needed() -> None:
    columns = np.full((3, len(COLUMNS)), np.nan)
    columns[:2, COLUMNS.index(NAMES_SIGNAL)], columns[:2, COLUMNS.index(SIDES_SIGNAL)] = 0.5, [0, 2]
    assert share_at_hand(columns).tolist() == [0.25, 0.5, pytest.approx(np.nan, nan_ok=True)]


TEXT_QUERY = Query(
    "Where was the director of Reef, Ada Lind's mother born?", np.ones(2, np.float32)
)
COVERAGE = Coverage(
    scores=(1.0, 0.7),
    words=(
        WordCoverage("director", 2.0, 0b00, 0b01),
        WordCoverage("reef", 4.0, 0b10, 0b10),
        WordCoverage("mother", 2.0, 0b00, 0b00),
    ),
    names=(NameCoverage("Reef", 1.0, 7, 2, 2, 3), NameCoverage("Ada Lind", 0.5, 1, 0, 0, 1)),
)


def text_signals_of(evidence: ArmResults) -> dict[str, float]:
    return dict(zip(TEXT_SIGNALS, text_signals(evidence), strict=True))


def test_each_text_signal_by_hand() -> None:
    found = text_signals_of(ArmResults(TEXT_QUERY, rankings=LISTS, coverage=COVERAGE))
    expected = {
        "text_dense_margin_3": 0.4,
        "text_lexical_best": 1.0,
        "text_lexical_margin_2": 0.25,
        "text_lexical_margin_10": 0.25,  # of two, the last
        "text_hybrid_margin_2": 0.3,
        "text_agreement_1": 0.0,
        "text_agreement_3": 2 / 3,
        "text_dense_in_lexical": 1 - math.log(2) / math.log(3),
        "text_lexical_in_dense": 1 - math.log(2) / math.log(4),
        "words_title_1": 0.0,
        "words_title_3": 0.5,
        "words_text_1": 0.25,
        "words_text_3": 0.75,
        "words_together": 0.5,
        "rest_share": 0.5,
        "rest_count": 2,
        "rest_text_5": 0.5,
        "question_words": 3,
        "question_of": 1,
        "question_possessives": 1,
        "question_commas": 1,
        "question_relatives": 0,
        "question_prepositions": 0,
        "question_articles": 1,
        "question_auxiliaries": 1,
        "names_count": math.log(3),
        "names_value_sum": 1.5,
        "names_lower_case": 0.0,
        "names_title_1": 0.0,
        "names_title_3": 2 / 3,
        "names_text_1": 1.0,
        "names_together": 1.0,
        "names_degree_least": math.log(2),
        "names_degree_most": math.log(8),
        "names_specificity": 0.5,
        "titled_uniqueness": 0.5,
        "titled_found_1": 0.0,
        "titled_found_2": 1.0,
        "titled_missing_1": 1.0,
        "titled_missing_2": 0.0,
        "untitled_sum": 0.5,
        "untitled_text_5": 1.0,
        "passages_titled_1": 0,
        "passages_titled_5": 1,
        "passages_naming_5": 2,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_nothing_found_is_no_error_and_words_without_a_name_are_all_there() -> None:
    found = text_signals_of(ArmResults(Query("", np.zeros(0, np.float32))))
    assert {name for name, value in found.items() if value} == {f"rest_text_{n}" for n in (1, 3, 5)}


def test_entropy_is_1_where_all_are_alike() -> None:
    alike = ranking(Route.DENSE, *dict.fromkeys("abcde", 0.5).items())
    found = text_signals_of(ArmResults(TEXT_QUERY, rankings={Route.DENSE: alike}))
    assert found["text_dense_entropy"] == pytest.approx(1)


@given(st.lists(st.floats(0, 1, width=16), min_size=1, max_size=12), st.floats(0.25, 8))
def test_the_scale_of_the_lexical_arm_does_not_matter(scores: list[float], by: float) -> None:
    falling = sorted(scores, reverse=True)
    hits = {f"p{place}": score + 0.1 for place, score in enumerate(falling)}
    larger = {id_: score * by for id_, score in hits.items()}
    one, other = (
        text_signals_of(
            ArmResults(TEXT_QUERY, rankings={Route.LEXICAL: ranking(Route.LEXICAL, *each.items())})
        )
        for each in (hits, larger)
    )
    assert one == pytest.approx(other)


def test_groups_are_of_signals_that_there_are() -> None:
    assert set(TEXT_SIGNALS) > NAME_SIGNALS | QUESTION_SIGNALS
    assert not NAME_SIGNALS & QUESTION_SIGNALS
    assert len(set(TEXT_SIGNALS)) == len(TEXT_SIGNALS)
