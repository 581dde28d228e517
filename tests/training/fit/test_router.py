from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.made import QUICK, D, G, L, S, replay_of, replayed
from wye.featurizer.registry import FEATURE_NAMES
from wye.router.evidence import COLUMNS, NAMES_SIGNAL, SIDES_SIGNAL
from wye.router.policy import SURE
from wye.router.settings import load_settings
from wye.router.types import Route
from wye.training.data import respell
from wye.training.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.fit.router import (
    LEAST_SHARE,
    STEPS,
    Choices,
    fit,
    pool_of,
    published,
    solve_steps,
)
from wye.training.fit.trainer import crossfit, fit_scorer, leave_datasets_out
from wye.training.labels import ALL_GOLD, Disagreement
from wye.training.thresholds import scores_of

NAMES = ("one", "other", "noise")
LINE = Choices(success=ALL_GOLD, recipe=QUICK)
FOUND = {1: {D: "bcdefa", L: "abcde", G: "ab"}, 0: {D: "ab", L: "ab", G: "bcdefa"}}
Labelled = tuple[EvaluationSet, Disagreement]


def labelled(questions: EvaluationSet, labels: np.ndarray) -> Labelled:
    return questions, Disagreement(labels, (labels >= 0).astype(float), labels.astype(np.int64))


@pytest.fixture(scope="module")
def training() -> Labelled:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 3))
    graph = x[:, 0] + 0.5 * draw.normal(size=200) > 0
    questions = [
        replayed(f"q{at}", "a", FOUND[int(graph[at])], group=("web", "book")[at % 2])
        for at in range(200)
    ]
    at = np.arange(200)
    labels = np.where(at % 10 == 0, -1.0, graph)
    dev = at % 4 == 3
    order = np.argsort(dev, kind="stable")
    replays = [
        replay_of(*(questions[row] for row in np.flatnonzero(dev == (split == "dev"))), split=split)
        for split in ("train", "dev")
    ]
    return labelled(EvaluationSet(tuple(replays), x[order], names=NAMES), labels[order])


def test_the_simple_route_is_the_one_that_thresholds_make_most_of(training: Labelled) -> None:
    found = fit(*training, LINE)
    assert {*found.solutions} == {*SIMPLE_ROUTES}
    best = max(solution.outcome.quality for solution in found.solutions.values())
    assert found.solution.outcome.quality == best
    assert found.solution is found.solutions[found.policy.simple]
    assert found.policy.thresholds == found.solution.thresholds


def test_the_scorer_learns_from_all_and_is_calibrated_by_what_did_not(training: Labelled) -> None:
    found = fit(*training, replace(LINE, simple=D))
    crossfitted = crossfit(pool_of(*training), NAMES, QUICK)
    assert (found.crossfit.logits == crossfitted.logits).all()
    scorer = fit_scorer(pool_of(*training), NAMES, QUICK)
    scorer = replace(scorer, temperature=crossfitted.temperature, bias=crossfitted.bias)
    features = training[0].features
    assert (found.scorer.logits(features) == scorer.logits(features)).all()


def test_thresholds_that_must_hold_elsewhere_see_every_question_twice(training: Labelled) -> None:
    twice, once = (
        fit(*training, replace(LINE, simple=D, elsewhere=elsewhere)) for elsewhere in (True, False)
    )
    assert (len(twice.outcomes), len(once.outcomes)) == (400, 200)
    assert (twice.outcomes.scores[:200] == once.outcomes.scores).all()
    assert (twice.outcomes.quality[:200] == twice.outcomes.quality[200:]).all()
    unseen = leave_datasets_out(pool_of(*training), NAMES, QUICK, twice.crossfit)
    assert twice.unseen is not None
    assert twice.unseen.tolist() == unseen.tolist()
    assert twice.outcomes.scores[200:].tolist() == scores_of(unseen).tolist()
    width = [f.solution.thresholds.high - f.solution.thresholds.low for f in (twice, once)]
    assert width[0] >= width[1]
    logits = [one.scorer.logits(training[0].features) for one in (twice, once)]
    assert (logits[0] == logits[1]).all()
    assert once.unseen is None


def test_the_published_recipe_takes_three_routes_by_quality_alone(training: Labelled) -> None:
    fusion = load_settings(preset="ea-graphrag").fusion
    recipe = published(Choices())
    assert recipe.success == "all-gold@5"
    assert (recipe.recipe.among, recipe.simple) == (FEATURE_NAMES, Route.DENSE)
    assert (recipe.elsewhere, recipe.recipe.unfamiliar, recipe.goal.latency_weight) == (False, 0, 0)
    # By a scorer that is quick to fit, on columns that the questions have.
    quick = replace(recipe, recipe=QUICK)
    fitted = fit(replace(training[0], fusion=fusion), training[1], quick)
    assert min(fitted.solution.outcome.shares) >= LEAST_SHARE
    assert fitted.policy.thresholds.steps == 0


def test_a_question_asked_of_two_indexes_is_in_one_fold(training: Labelled) -> None:
    once = training[0]
    questions = EvaluationSet(once.replays * 2, np.tile(once.features, (2, 1)), names=NAMES)
    doubled = labelled(questions, np.tile(training[1].labels, 2))
    logits = fit(*doubled, replace(LINE, simple=D, elsewhere=False)).crossfit.logits
    assert (logits[:200] == logits[200:]).all()
    keys = pool_of(*doubled).keys
    assert keys is not None
    assert keys[0] == respell(questions.texts[0])


def test_scores_are_never_quite_0_or_1() -> None:
    found = scores_of(np.array([-1e9, 0.0, 1e9]))
    assert ((found > 0) & (found < 1)).all()
    assert found[1] == 0.5


WORSE, SAME = {D: "c", L: "c", G: "c", S: "ab"}, {D: "ab"}
BETTER = {D: "ab", L: "a", G: "b", S: "c"}


def asked(found: Sequence[tuple[dict[Route, str], float]]) -> EvaluationSet:
    """Questions from what each arm found and how many of their names are found; `c` is gold."""
    features = np.zeros((len(found), len(COLUMNS)))
    features[:, COLUMNS.index(NAMES_SIGNAL)] = [named for _, named in found]
    features[:, COLUMNS.index(SIDES_SIGNAL)] = 1
    questions = [replayed(f"q{place}", "c", one) for place, (one, _) in enumerate(found)]
    return EvaluationSet((replay_of(*questions),), features)


def solved(found: EvaluationSet, weight: float, low: float = 0.2, score: float = 0.5) -> float:
    scores = np.full(len(found), score)
    return solve_steps(found, scores, low, weight)


def test_what_gains_is_taken_and_what_loses_is_not() -> None:
    found = asked([(BETTER, 0.3), (WORSE, 0.6), (SAME, 0.0)])
    assert solved(found, 0.0) == 0.55
    assert solved(found, 1.0) == 0.0  # a question is not worth 30
    assert solved(found, 0.0, score=0.2) == 0.55  # unsure
    assert solved(found, 0.0, score=SURE) == 0.0  # what is surely simple is not parsed


def test_a_few_questions_leave_out_none() -> None:
    found = asked([(BETTER, 0.3), (WORSE, 0.9), (SAME, 0.0), (WORSE, 0.8)])
    scores = np.full(4, 0.5)

    def solved_with(enough: int) -> float:
        return solve_steps(found, scores, 0.2, 0.0, enough=enough)

    assert [solved_with(enough) for enough in (0, 2, 3)] == [0.7, 0.7, 0.0]


@given(
    st.lists(
        st.tuples(st.sampled_from([WORSE, SAME, BETTER]), st.sampled_from([0.0, 0.3, 0.5, 0.9])),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.0, 0.01, 0.02]),
)
def test_no_other_place_is_worth_more(
    questions: list[tuple[dict[Route, str], float]], weight: float
) -> None:
    gain = {id(WORSE): -1.0, id(SAME): 0.0, id(BETTER): 1.0}

    def worth(place: float) -> float:
        return sum(
            gain[id(one)] - 30 * weight for one, named in questions if S in one and named < place
        )

    found = solved(asked(questions), weight)
    assert worth(found) == pytest.approx(max(map(worth, STEPS)))
