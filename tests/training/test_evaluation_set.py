from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.training.made import D, G, L, S, replay_of, replayed
from wye.router.evidence import COLUMNS, NAMES_SIGNAL, SIDES_SIGNAL
from wye.router.fusion import FusionSettings
from wye.router.scorer import UNFAMILIAR_SCORE
from wye.router.settings import load_settings
from wye.router.types import Route, Thresholds
from wye.training.errors import TrainingError
from wye.training.evaluation_set import EvaluationSet, syntax_features
from wye.training.measures import MEASURES


@pytest.fixture
def evaluation_set() -> EvaluationSet:
    one = replay_of(
        replayed("q1", "a", {D: "ab", L: "ba", G: "cda"}, group="web"),
        replayed("q2", "a", {D: "ba", L: "ab", G: "a"}, vector=(0.0, 1.0)),
        dataset="one",
    )
    # Another question may have the same id in another dataset.
    two = replay_of(replayed("q1", "b", {D: "ab", L: "ca", G: "b"}), dataset="two", split="dev")
    return EvaluationSet((one, two), np.arange(6.0).reshape(3, 2))


def test_each_question_is_measured_by_its_own_judgements(evaluation_set: EvaluationSet) -> None:
    column = MEASURES.index("Success@1")
    for route, first in ((D, [1, 0, 0]), (L, [0, 1, 0]), (G, [0, 1, 1])):
        assert evaluation_set.values_of(route)[:, column].tolist() == first


def test_some_questions_are_what_they_are_among_all(evaluation_set: EvaluationSet) -> None:
    for rows in ([True, False, True], [False, True, False], [False, False, True]):
        mask = np.array(rows)
        some = evaluation_set.only(mask)
        assert len(some) == sum(rows)
        assert some.features.tolist() == evaluation_set.features[mask].tolist()
        assert some.groups.tolist() == evaluation_set.groups[mask].tolist()
        for route in (D, Route.HYBRID, Route.FUSION):
            of_all = evaluation_set.rankings(route)
            assert some.rankings(route) == [of_all[row] for row in np.flatnonzero(mask)]


def test_fusion_may_go_by_each_questions_own_score(evaluation_set: EvaluationSet) -> None:
    by_score = replace(evaluation_set, fusion=FusionSettings("rrf", lists=(D, G)))
    for row, route in ((0, G), (1, D)):
        scores = np.full(3, 0.5)
        scores[row] = float(route == G)
        fused = by_score.rankings(Route.FUSION, scores)[row]
        alone = evaluation_set.rankings(route)[row]
        assert [hit.id for hit in fused.hits] == [hit.id for hit in alone.hits]


def test_the_latency_of_a_route_is_that_of_its_stages(evaluation_set: EvaluationSet) -> None:
    assert evaluation_set.latency_ms(D).tolist() == [10.0] * 3
    for route in (D, L, Route.HYBRID):
        unread = evaluation_set.latency_ms(route, routed=False)
        assert (unread < evaluation_set.latency_ms(route)).all(), "nothing parses for text arms"
    assert evaluation_set.latency_ms(G, routed=False).tolist() == [12.0] * 3
    assert evaluation_set.latency_ms(G).tolist() == [12.0] * 3
    found = evaluation_set.outcomes(np.full(3, 0.5), L)
    assert found.latency_ms.tolist() == [[10.0, 12.0, 12.0]] * 3
    second = 1 / np.log2(3)
    assert found.quality[:, [0, 2]] == pytest.approx(np.array([[second, 0.5], [1, 1], [0, 1]]))


def test_steps_are_fusion_where_none_were_taken() -> None:
    found = {D: "ab", L: "ba", G: "ba"}
    questions = replay_of(replayed("q1", "z", {**found, S: "za"}), replayed("q2", "a", found))
    asked = EvaluationSet((questions,), np.zeros((2, 1)))
    taken, plain = asked.rankings(S, np.full(2, 0.9))
    assert [hit.id for hit in taken.hits] == ["z", "a"]
    assert plain == asked.rankings(Route.FUSION)[1]
    assert asked.latency_ms(S).tolist() == pytest.approx([42.0, 12.0])
    always = asked.fixed(D)["steps"]
    assert (always.mean_ms, always.p95_ms) == pytest.approx((27.0, 42.0))
    assert [*always.shares] == [0, 0, 0]
    assert always.quality == np.mean([1, asked.quality_of(Route.FUSION)[1]])


def test_steps_stand_for_fusion_and_graph_where_they_are_taken() -> None:
    found = {D: "ab", L: "ba", G: "ba"}
    replay = replay_of(
        replayed("q1", "c", {**found, S: "c"}),
        replayed("q2", "c", {**found, S: "c"}),
        replayed("q3", "c", found, text="the town of Ada"),  # has no plan
        replayed("q4", "c", {**found, S: "c"}),
    )
    features = np.zeros((4, len(COLUMNS)))
    features[:, COLUMNS.index(NAMES_SIGNAL)] = 0.5, 1.0, 0.0, 0.0
    features[:, COLUMNS.index(SIDES_SIGNAL)] = 1
    asked = EvaluationSet((replay,), features, ("routing", "encoding"))
    scores = np.array([0.4, 0.9, 0.9, 0.02])
    assert asked.takes_steps(0.0, scores).tolist() == [False] * 4
    assert asked.takes_steps(0.5, scores).tolist() == [False, False, False, True]
    assert asked.takes_steps(0.9, scores).tolist() == [True, False, False, True]
    assert asked.takes_steps(1.0, scores).tolist() == [True, True, False, True]
    assert asked.codes(scores, Thresholds(0.2, 0.8, 0.9)).tolist() == [3, 2, 2, 0]
    assert asked.codes(scores, Thresholds(0.5, 0.8, 1.0)).tolist() == [3, 3, 2, 0]
    # What would be fused follows names without a plan.
    assert asked.follows(0.9).tolist() == [False, False, True, False]
    assert asked.codes(scores, Thresholds(0.2, 0.95, 0.9)).tolist() == [3, 1, 3, 0]
    # Among rows so does what is not surely simple.
    row = replayed("q", "c", {D: "x:1", L: "x:1", S: "c"}, text="Who is Ada?")
    rows = EvaluationSet((replay_of(row),), features[2:3])
    for score, code in ((0.02, 0), (0.1, 3)):
        assert rows.codes(np.array([score]), Thresholds(0.2, 0.95, 0.9)).tolist() == [code]
    outcomes = asked.outcomes(scores, D, 0.9)
    assert outcomes.quality.tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 1, 1]]
    longer = outcomes.latency_ms - asked.outcomes(scores, D).latency_ms
    assert longer[:, 1].tolist() == pytest.approx([30, 0, 0, 30])
    parsing = 1000 * replay.questions[0].run.seconds["parsing"]
    assert longer[1:, 0].tolist() == pytest.approx(
        [0, parsing, 0]
    )  # all that the first needs is found, and the last is surely simple
    untimed = asked.outcomes(scores, D, 0.9, timed=False)
    assert (untimed.quality == outcomes.quality).all()
    assert untimed.latency_ms[:, 1:].tolist() == (outcomes.latency_ms - longer)[:, 1:].tolist()


def test_an_open_question_that_the_scorer_does_not_know_is_not_taken_apart() -> None:
    found = {D: "ab", L: "ba", G: "ba", S: "c"}
    nested, plain = (replayed(name, "c", found) for name in ("q1", "q2"))
    is_open = replace(plain, run=replace(plain.run, open=True))
    asked = EvaluationSet((replay_of(nested, is_open),), np.zeros((2, len(COLUMNS))))
    assert asked.takes_steps(1.0, np.full(2, UNFAMILIAR_SCORE)).tolist() == [True, False]
    assert asked.takes_steps(1.0, np.full(2, 0.51)).tolist() == [True, True]
    codes = asked.codes(np.full(2, UNFAMILIAR_SCORE), Thresholds(0.2, 0.8, 1.0))
    assert codes.tolist() == [3, 1]


def test_what_a_route_is_worth_is_measured_once_and_kept_for_some_of_the_questions() -> None:
    found = {D: "ab", L: "ba", G: "ba"}
    replay = replay_of(replayed("q1", "a", found), replayed("q2", "b", found))
    by_rank = FusionSettings(method="rrf")
    asked = EvaluationSet((replay,), np.zeros((2, len(COLUMNS))), fusion=by_rank)
    worth = asked.values_of(Route.FUSION)
    assert worth is asked.values_of(Route.FUSION)
    some = asked.only(np.array([False, True]))
    assert some.values_of(Route.FUSION).tolist() == worth[1:].tolist()
    graph_alone = asked.values_of(Route.FUSION, np.array([1.0, 1.0]))
    assert graph_alone.tolist() == asked.values_of(G).tolist()


TEXTS = [f"Who rowed ferry {number}?" for number in range(3)]


class Parser:
    """Stands where models would be: features are lengths, and it writes down what it parsed."""

    fingerprint: ClassVar = {"parser": "none"}

    def __init__(self) -> None:
        self.parsed: list[str] = []

    def parse(self, texts: list[str]) -> list[str]:
        if TEXTS[1] in self.parsed:
            raise KeyboardInterrupt
        self.parsed += texts
        return texts


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Parser:
    parser, module = Parser(), "wye.training.evaluation_set"
    monkeypatch.setattr(f"{module}.syntax_matrix", lambda rows: np.array([[len(t)] for t in rows]))
    monkeypatch.setattr(f"{module}.BLOCK", 1)
    return parser


def test_features_that_are_there_are_not_computed_again(
    parser: Any,  # noqa: ANN401 - a fake
    tmp_path: Path,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        syntax_features(TEXTS, tmp_path, parser)
    assert parser.parsed == TEXTS[:2]
    parser.parsed.clear()
    found = syntax_features([*TEXTS, TEXTS[0]], tmp_path, parser)
    assert found.tolist() == [[18]] * 4
    assert parser.parsed == TEXTS[2:]
    for file in tmp_path.rglob("output.pkl"):
        file.write_bytes(b"nothing")
    parser.parsed.clear()
    assert syntax_features(TEXTS[:1], tmp_path, parser).tolist() == [[18]]
    assert parser.parsed == TEXTS[:1]
    parser.fingerprint = {"parser": "another"}
    parser.parsed.clear()
    syntax_features(TEXTS[:1], tmp_path, parser)
    assert parser.parsed == TEXTS[:1]


def test_no_questions_have_no_features(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no questions"):
        EvaluationSet.load([replay_of()], tmp_path, load_settings(), ())
