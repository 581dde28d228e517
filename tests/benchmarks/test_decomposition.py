"""Plans by a language model, over an endpoint of this machine."""

import json
from collections.abc import Iterator

import pytest

from benchmarks.decomposition import LlmPlanner, planned
from benchmarks.harness import BenchmarkError
from featurizer.plan import LEVELS, STEPS, Plan, walk
from router.reading import QuestionReading
from tests.fakes import LanguageModel, speaking
from tests.router.fakes import FakeAnalyser

NESTED = "Who leads the country where the composer of Finlandia was born?"
INNER = "the composer of Finlandia"
OUTER = f"the country where {INNER} was born"
ANSWER = json.dumps(
    [{"phrase": INNER, "type": "person"}, {"phrase": OUTER, "type": "somewhere"}, {"phrase": 3}]
)


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(lambda *_: f"Here they are:\n```json\n{ANSWER}\n```") as model:
        yield model


def _told(plan: Plan) -> list[tuple[str, str, int]]:
    return [(NESTED[slice(*s.span)], s.wanted, s.level) for s in walk(plan.steps)]


def test_an_endpoint_plans_each_question_once(endpoint: LanguageModel) -> None:
    planner = LlmPlanner(endpoint.url, "some-model")
    reading = QuestionReading([NESTED, NESTED], FakeAnalyser)
    one, other = planner(reading, [0, 1])
    assert one == other
    assert _told(one) == [(OUTER, "free", 2), (INNER, "person", 1)]
    (asked,) = endpoint.requests
    assert asked["messages"][-1]["content"] == NESTED


def test_an_endpoint_that_refuses_is_named(endpoint: LanguageModel) -> None:
    endpoint.say = lambda *_: 400
    with pytest.raises(BenchmarkError, match=r"127\.0\.0\.1.*gives no plans"):
        LlmPlanner(endpoint.url, "some-model").plan(NESTED)


@pytest.mark.parametrize(
    "answer",
    ["", "none", "[", "[1, null]", '{"phrase": "the composer of Finlandia"}', '[{"type": "free"}]']
    + [json.dumps([{"phrase": phrase}]) for phrase in ("", "the mayor of Oslo", NESTED)],
)
def test_what_is_no_phrase_of_the_question_is_no_step(answer: str) -> None:
    assert planned(NESTED, answer) == Plan()


def test_plans_are_bounded_and_do_not_cross() -> None:
    words = "a b c d e f g h i j k l m n"
    parts = [words[:end] for end in range(3, len(words), 2)]
    deep = planned(words, json.dumps([{"phrase": part} for part in parts]))
    assert len(deep.levels()) == LEVELS
    wide = planned(words, json.dumps([{"phrase": word} for word in words.split()]))
    assert len([*walk(wide.steps)]) == STEPS
    crossed = planned(words, json.dumps([{"phrase": "a b c"}, {"phrase": "c d e f"}]))
    assert [words[slice(*step.span)] for step in crossed.steps] == ["a b c"]
