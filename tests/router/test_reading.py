from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.router.fakes import FakeAnalyser
from wye.backends.types import Float32
from wye.featurizer.registry import FEATURE_NAMES
from wye.featurizer.types import EntityMention, NounPhrase, Parse
from wye.router.reading import QuestionReading

T = TypeVar("T")

QUESTIONS = ["Oslo beside Oslo", "a copper lamp", "who"]
EVERYONE = range(3)
NAMED = {"Oslo beside Oslo": ["Oslo", "Oslo", "Rome"]}
PHRASES = {"Oslo beside Oslo": ["Oslo"], "a copper lamp": ["copper lamp", "copper lamp"]}


class Naming(FakeAnalyser):
    """Finds the names and noun phrases above."""

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        return [
            replace(
                parse,
                entities=tuple(EntityMention(n, "", (0, 1)) for n in NAMED.get(parse.text, [])),
                phrases=tuple(NounPhrase(n, (0, 1)) for n in PHRASES.get(parse.text, [])),
            )
            for parse in super().parse_questions(texts, tokens=tokens)
        ]

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        self.calls.append((" ".join(surfaces), len(surfaces)))
        return np.full((len(surfaces), 2), 7, np.float32)


@pytest.fixture
def models() -> Naming:
    return Naming()


@pytest.fixture
def reading(models: Naming) -> QuestionReading:
    return QuestionReading(QUESTIONS, lambda: models)


def test_each_step_is_taken_once(models: Naming, reading: QuestionReading) -> None:
    for _ in range(2):
        reading.parse([0, 2], tokens=False)
        reading.encode()
    assert models.calls == [("parse", 2), ("encode", 3)]
    reading.parse(EVERYONE, tokens=True)
    reading.parse([2, 1], tokens=False)
    assert models.calls[2:] == [("parse", 3)]
    assert [query.vector.tolist() for query in reading.queries] == [[1, 1]] * 3
    assert [{*own} for own in reading.seconds] == [{"parsing", "encoding"}] * 3


def test_what_goes_on_beside_is_waited_for(models: Naming, reading: QuestionReading) -> None:
    seen: list[Float32] = []
    reading.encode_beside(seen.append)
    reading.encode_beside(seen.append)
    assert [vectors.shape for vectors in seen] == [(3, 2)]
    assert not len(reading.queries[0].vector)
    reading.encode()
    assert reading.queries[0].vector.tolist() == [1, 1]
    assert models.calls == [("encode", 3)]


class Encoding(Naming):
    """Encodes until it is told to end."""

    has_parser = True

    def __init__(self) -> None:
        super().__init__()
        self.under_way: Future[Any] = Future()

    def beside(self, work: Callable[[], T]) -> "Future[T]":
        return self.under_way


NESTED = "who designed the bridge that spans the Neretva"


def test_a_question_that_may_have_a_plan_is_parsed_while_the_encoder_is_at_work() -> None:
    models = Encoding()
    reading = QuestionReading([NESTED], lambda: models)
    reading.parse_meanwhile()  # nothing is encoded yet
    reading.encode_beside(lambda _: None)
    models.has_parser = False
    reading.parse_meanwhile()  # loading the parser would take longer than the encoder does
    assert models.calls == []
    models.has_parser = True
    reading.parse_meanwhile()
    reading.parse([0], tokens=True)
    assert models.calls == [("parse", 1)]


@pytest.mark.parametrize("questions", [["who"], [f"{NESTED} {'again ' * 40}"], [NESTED] * 2])
def test_what_has_no_plan_or_is_one_of_several_is_not_parsed_in_advance(
    questions: list[str],
) -> None:
    models = Encoding()
    reading = QuestionReading(questions, lambda: models)
    reading.encode_beside(lambda _: None)
    reading.parse_meanwhile()
    assert models.calls == []


def test_nothing_is_parsed_in_advance_once_all_is_encoded() -> None:
    models = Encoding()
    reading = QuestionReading([NESTED], lambda: models)
    reading.encode_beside(lambda _: None)
    models.under_way.set_result(np.ones((1, 2), np.float32))
    reading.encode()
    reading.parse_meanwhile()
    assert models.calls == []


def test_mentions_are_each_there_once_and_those_that_are_wanted_are_encoded(
    models: Naming, reading: QuestionReading
) -> None:
    reading.parse(EVERYONE, tokens=False)
    reading.find_mentions([0], lambda name: name == "Rome")
    assert models.calls == [("parse", 3), ("Rome", 1)]
    reading.find_mentions(EVERYONE, lambda name: False)
    found = [[(m.text, m.kind) for m in query.mentions] for query in reading.queries]
    names = [("Oslo", "entity"), ("Rome", "entity"), ("Oslo", "phrase")]
    assert found == [names, [("copper lamp", "phrase")], []]
    vectors = [mention.vector for mention in reading.queries[0].mentions]
    assert [None if own is None else own.tolist() for own in vectors] == [None, [7, 7], None]


def test_features_are_those_that_were_asked_for_so_far(
    models: Naming, reading: QuestionReading
) -> None:
    def known() -> list[list[str]]:
        rows = ~np.isnan(reading.features(EVERYONE, []))
        return [[FEATURE_NAMES[place] for place in np.flatnonzero(row)] for row in rows]

    assert known() == [[], [], []]
    assert models.calls == []
    first = reading.features([0, 2], ["tokens"])[:, FEATURE_NAMES.index("tokens")]
    assert first.tolist() == [3, 1]
    assert (reading.trees(0), known()) == ((), [["tokens"], [], ["tokens"]])
    reading.features([2], ["tree_depth"])
    assert known() == [["tokens"], [], ["tree_depth", "tokens"]]
    assert models.calls == [("parse", 2), ("trees", 1)]
    assert str(reading.trees(2)[0]) == "(ROOT (X who))"


def test_trees_can_be_had_without_a_feature_of_them(
    models: Naming, reading: QuestionReading
) -> None:
    reading.features(EVERYONE, ["tokens"], trees=True)
    reading.features(EVERYONE, ["tokens", "tree_depth"])
    assert models.calls == [("parse", 3), ("trees", 3)]
