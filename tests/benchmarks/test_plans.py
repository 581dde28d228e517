from collections import Counter

import pytest

from benchmarks.__main__ import main
from benchmarks.plans import HALVES, JudgedPlan, by_dependencies, measure, read_planned
from featurizer.constituency.parser import SyntaxParser, open_syntax_parser
from featurizer.plan import may_have_plan, plan_of
from featurizer.types import Syntax
from router.settings import load_settings


@pytest.fixture(scope="module")
def planned() -> list[JudgedPlan]:
    return read_planned()


@pytest.fixture(scope="module")
def syntaxes(planned: list[JudgedPlan]) -> list[Syntax]:
    models = load_settings().analyser
    parser: SyntaxParser = open_syntax_parser(models.pipeline, models.constituency)
    return parser.parse([one.question for one in planned])


def test_the_set_has_what_it_should(planned: list[JudgedPlan]) -> None:
    assert len({one.question for one in planned}) == len(planned) >= 200
    assert sum(not one.steps for one in planned) >= 70
    kinds = Counter(kind for one in planned for _, _, kind, _ in one.steps)
    assert min(kinds.values()) >= 20
    assert set(kinds) == {"bridge", "possessive", "comparison", "intersection"}
    assert min(Counter(one.half for one in planned).values()) > 0.4 * len(planned)


def test_words_never_rule_out_a_plan_and_tell_many_questions_without_one(
    planned: list[JudgedPlan],
) -> None:
    ruled_out = [one for one in planned if not may_have_plan(one.question)]
    assert not [one.question for one in ruled_out if one.steps]
    assert len(ruled_out) > 0.4 * sum(not one.steps for one in planned)


def test_plans_are_as_good_as_they_were_measured(
    planned: list[JudgedPlan], syntaxes: list[Syntax]
) -> None:
    floors = dict(zip(HALVES, ((0.97, 0.96, 0.95), (0.89, 0.92, 0.89)), strict=True))
    for half, floor in floors.items():
        found = measure(planned, [*map(plan_of, syntaxes)], half)
        assert (found.exact, found.precision, found.recall) >= floor
        assert min(found.precision - floor[1], found.recall - floor[2]) >= 0
        made = measure(planned, by_dependencies(syntaxes), half)
        assert found.exact > made.exact >= 0.88
        questions, right = found.groups["none"]
        assert right >= questions - 1


def test_the_table_lists_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plans", "--wrong"]) == 0
    out = capsys.readouterr().out
    assert "intersection" in out
    assert out.rstrip().endswith("?")
