import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import line
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Float64
from wye.router.errors import FeatureError
from wye.router.evidence import CHEAP_SIGNALS, MEANINGS
from wye.router.explain import GROUPS, attribute, contributions, group_of, summary
from wye.router.scorer import AttentionMlp, Floats, Scorer, Standard
from wye.router.types import BASELINE, Contribution, Decision, Route, Thresholds

Tensors = Callable[..., dict[str, Floats]]
shapes = pytest.mark.parametrize(
    ("inputs", "hidden", "pieces"),
    [(3, (4, 2), 0), (5, (5, 5), 0), (7, (8, 8, 4), 3), (1, (1,), 0), (2, (6, 3), 3)],
)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def affine(tensors: Mapping[str, Floats], name: str, x: Sequence[float]) -> list[float]:
    weight, bias = tensors[f"{name}.weight"].tolist(), tensors[f"{name}.bias"].tolist()
    return [
        math.fsum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]


def encode(tensors: Mapping[str, Floats], x: Sequence[float]) -> list[list[float]]:
    """The pieces of each feature, or the feature itself."""
    if "pieces.low" not in tensors:
        return [[v] for v in x]
    low, scale = tensors["pieces.low"].tolist(), tensors["pieces.scale"].tolist()
    return [
        [min(max((v - start) * by, 0.0), 1.0) for start, by in zip(starts, bys, strict=True)]
        for v, starts, bys in zip(x, low, scale, strict=True)
    ]


def reference(tensors: Mapping[str, Floats], depth: int, x: Sequence[float]) -> float:
    """The equations at the head of `wye.router.scorer`, number by number."""
    hidden = [
        part * sigmoid(a)
        for encoded, a in zip(encode(tensors, x), affine(tensors, "features", x), strict=True)
        for part in encoded
    ]
    for layer in range(depth):
        made = [a * sigmoid(a) for a in affine(tensors, f"hidden.{layer}", hidden)]
        if len(made) == len(hidden):
            made = [m + h for m, h in zip(made, hidden, strict=True)]
        hidden = made
    gate = [sigmoid(a) for a in affine(tensors, "output", hidden)]
    return affine(tensors, "head", [h * g for h, g in zip(hidden, gate, strict=True)])[0]


@shapes
def test_the_logit_is_that_of_the_equations(
    tensors: Tensors, inputs: int, hidden: tuple[int, ...], pieces: int
) -> None:
    for seed in range(5):
        weights = tensors(inputs, hidden, seed, 3.0, pieces)
        network = AttentionMlp(weights)
        for row in np.random.default_rng(seed).normal(scale=2, size=(5, inputs)):
            expected = reference(weights, len(hidden), row.tolist())
            assert network.logit(row) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@shapes
def test_the_gradient_is_the_slope_of_the_logit(
    tensors: Tensors, inputs: int, hidden: tuple[int, ...], pieces: int
) -> None:
    network = AttentionMlp(tensors(inputs, hidden, 0, 3.0, pieces))
    points = np.random.default_rng(1).normal(size=(6, inputs))
    found = network.gradients(points)
    step = 1e-5
    for point, slopes in zip(points, found, strict=True):
        for column, slope in enumerate(slopes):
            moved = np.zeros(inputs)
            moved[column] = step
            rise = network.logit(point + moved) - network.logit(point - moved)
            assert slope == pytest.approx(rise / (2 * step), abs=1e-8)


def test_far_from_the_origin_nothing_overflows(tensors: Tensors) -> None:
    network = AttentionMlp(tensors(4, (4, 4), 0, 100.0))
    points = np.array([[1e6, -1e6, 1e6, -1e6]])
    assert math.isfinite(network.logit(points[0]))
    assert np.isfinite(network.gradients(points)).all()


def test_scores_have_the_same_bits_in_any_batch(scorer: Scorer, features: Float64) -> None:
    together = scorer.scores(features)
    for layout in (features, np.asfortranarray(features)):
        alone = [scorer.scores(layout[row : row + 1])[0] for row in range(len(features))]
        assert alone == together.tolist()
        assert (scorer.scores(layout[::-1])[::-1] == together).all()
        assert (scorer.scores(layout[3:7]) == together[3:7]).all()


def test_members_are_averaged_then_calibrated(scorer: Scorer, features: Float64) -> None:
    rows = features[:, scorer.columns]
    inputs = np.clip((rows - scorer.standard.mean) / scorer.standard.scale, -5, 5)
    raw = np.mean([[member.logit(row) for row in inputs] for member in scorer.members], axis=0)
    expected = 1 / (1 + np.exp(-(raw / 1.3 - 0.2)))
    np.testing.assert_allclose(scorer.scores(features), expected, rtol=1e-12)
    again = replace(scorer, temperature=2.0, bias=0.5)
    np.testing.assert_allclose(again.logits(features), raw / 2 + 0.5, rtol=1e-12)


def test_one_odd_value_is_pulled_back(scorer: Scorer, features: Float64) -> None:
    features[0, 1] = 1e12
    assert scorer.inputs(features).max() == 5
    assert np.isfinite(scorer.logits(features)).all()


def test_features_that_do_not_fit_are_refused(scorer: Scorer, features: Float64) -> None:
    features[4, 9] = np.nan
    with pytest.raises(FeatureError, match="'f9' of question 5 is nan"):
        scorer.scores(features)


def test_a_feature_that_nobody_looks_at_may_be_anything(scorer: Scorer, features: Float64) -> None:
    before = scorer.scores(features)
    features[:, 0] = np.nan
    assert (scorer.scores(features) == before).all()


def test_the_order_and_shape_of_members_is_free(scorer: Scorer, features: Float64) -> None:
    turned = replace(scorer, members=scorer.members[::-1])
    assert (turned.scores(features) == scorer.scores(features)).all()


unit = st.floats(0, 1)


def test_parts_are_the_integral_of_the_gradient(scorer: Scorer, features: Float64) -> None:
    row = scorer.inputs(features)[0]
    path = (np.arange(20_000) + 0.5)[:, None] / 20_000
    slow = row * scorer.gradients(path * row).mean(axis=0)
    _, values = attribute(scorer, row, float(scorer.logits(features)[0]))
    np.testing.assert_allclose(values, slow, atol=1e-3)


def test_features_that_say_nothing_are_given_nothing() -> None:
    standard = Standard(np.zeros(3), np.ones(3), 5.0)
    constant = Scorer(("a", "b", "c"), np.arange(3), standard, (line([0, 0, 0], 2.5),))
    baseline, values = attribute(constant, np.ones(3), 2.5)
    assert values.tolist() == [0, 0, 0]
    assert baseline == 2.5


def test_contributions_are_named_and_sorted(scorer: Scorer, features: Float64) -> None:
    logit = float(scorer.logits(features)[2])
    values = features[2, scorer.columns]
    attribution = attribute(scorer, scorer.inputs(features)[2], logit)
    found = contributions(*attribution, scorer.names, values)
    assert found[0].name == BASELINE
    assert math.fsum(part.logit for part in found) == pytest.approx(logit, abs=1e-12)
    sizes = [abs(part.logit) for part in found[1:]]
    assert sizes == sorted(sizes, reverse=True)
    named = dict(zip(scorer.names, values.tolist(), strict=True))
    assert {part.name: part.value for part in found[1:]} == named


def decided(route: Route, reason: str = "score", **pushes: float) -> Decision:
    parts = [Contribution(name, push, 1.0) for name, push in pushes.items()]
    return Decision(
        route, 0.5, 0.0, Thresholds(0.3, 0.9), reason, "m/v1", (Contribution(BASELINE, 2.0), *parts)
    )


def seed(mention: str, value: float = 1.0, titles: int = 0) -> SeedStats:
    return SeedStats(mention, value, "name", 3, titles)


BRIDGE, MOSTAR = seed("the Old Bridge"), seed("Mostar")


@pytest.mark.parametrize(
    ("seeds", "says"),
    [
        ([], "Names nothing that the corpus knows."),
        (
            [MOSTAR],
            "Names one thing that the corpus knows (Mostar), though no passage has it for a title.",
        ),
        (
            [BRIDGE, MOSTAR],
            "Names two things that the corpus knows (the Old Bridge, Mostar), though no passage "
            "has either for a title.",
        ),
        (
            [BRIDGE, seed("Mostar", titles=1), seed("river", 0.3)],
            "Names two things that the corpus knows (the Old Bridge, Mostar), and a passage has "
            "Mostar for a title.",
        ),
        (
            [seed("A", titles=1), seed("B", titles=2)],
            "Names two things that the corpus knows (A, B), and a passage has each of them for a "
            "title.",
        ),
        (
            [seed("sea", 0.3)],
            "May name one thing that the corpus knows (sea), though no passage has it for a title.",
        ),
        (
            [seed(name) for name in "ABCDEFG"],
            "Names 7 things that the corpus knows (A, B, C, D, …), though no passage has any of "
            "them for a title.",
        ),
    ],
)
def test_it_says_in_words_what_a_question_names(seeds: list[SeedStats], says: str) -> None:
    told = summary(decided(Route.FUSION), seeds)
    assert told == f"{says} All arms are asked."


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (
            decided(Route.FUSION, seed_title_value=-1.3, words=-0.3, dense_best=0.02),
            "What it names and how it is built speak against the graph, but not enough to leave it "
            "out, so all arms are asked.",
        ),
        (
            decided(Route.FUSION, seed_title_value=-0.2, words=0.9),
            "What it names speaks against the graph; how it is built speaks more strongly for it, "
            "but not enough to ask it alone, so all arms are asked.",
        ),
        (
            decided(Route.DENSE, words=0.2, dense_best=-0.9),
            "How it is built speaks for the graph; what the first passages hold speaks more "
            "strongly against it, so dense search is enough.",
        ),
        (
            decided(Route.HYBRID, words=0.2),
            "How it is built speaks for the graph, but not enough, so hybrid search is taken.",
        ),
        (
            decided(Route.GRAPH, words=0.2),
            "How it is built speaks for the graph, so the graph alone is asked.",
        ),
        (decided(Route.DENSE, "budget: no time"), "Dense is taken (budget: no time)."),
        (decided(Route.STEPS, "plan: it splits"), "It is asked in steps (plan: it splits)."),
    ],
)
def test_it_says_in_words_what_that_leads_to(decision: Decision, says: str) -> None:
    assert summary(decision) == says


def test_a_question_that_names_nothing_is_not_said_to_name_something() -> None:
    told = summary(decided(Route.DENSE, seed_title_value=-1.0), [])
    says = "Names nothing that the corpus knows. Naming nothing speaks against the graph, so "
    assert told == says + "dense search is enough."


@given(
    st.sampled_from([*Route]),
    st.dictionaries(st.sampled_from([*CHEAP_SIGNALS, "words"]), st.floats(-9, 9)),
    st.none()
    | st.lists(st.builds(SeedStats, *[st.text(), unit, st.text()], *[st.integers(0, 3)] * 2)),
)
def test_there_are_words_for_every_decision(
    route: Route, pushes: dict[str, float], seeds: list[SeedStats] | None
) -> None:
    told = summary(decided(route, "score", **pushes), seeds)
    assert told.endswith(".")
    assert (seeds is None) == (" that the corpus knows" not in told)


def test_every_number_about_the_corpus_has_a_meaning_and_a_group() -> None:
    assert tuple(MEANINGS) == CHEAP_SIGNALS
    assert {group_of(name) for name in (*CHEAP_SIGNALS, "words")} == {*GROUPS}
