"""Parts of questions searched for by vectors that are made of the question's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import pytest

from tests.router.fakes import FakeAnalyser, FakeArms, FakeModels
from wye.backends.types import Query, RankedHit, Ranking
from wye.featurizer.encoder import EncodedText
from wye.router.batch import Batch
from wye.router.fusion import FusionSettings
from wye.router.step_search import InnerResult, StepSearch, StepSettings, SubQuestion
from wye.router.types import Route

QUESTION = "who leads the land of Bo"
PHRASE = (10, 24)
NAME = (22, 24)
VERB = (4, 9)


class ByWord(FakeAnalyser):
    """Gives each word a state: its length, and whether it has a capital letter."""

    def encode_with_states(self, texts: Sequence[str]) -> list[EncodedText]:
        self.calls.append(("encode", len(texts)))
        return [self._read(text) for text in texts]

    def _read(self, text: str) -> EncodedText:
        words, offsets, place = text.split(), [], 0
        for word in words:
            place = text.index(word, place)
            offsets.append((place, place + len(word.rstrip(","))))
            place += len(word)
        states = np.array(
            [(len(word.rstrip(",")), 5.0 * word[0].isupper()) for word in words], np.float32
        )
        mean = states.mean(axis=0)
        return EncodedText(text, mean / np.linalg.norm(mean), states, tuple(offsets))


def _unit(*vector: float) -> list[float]:
    return (np.array(vector) / np.linalg.norm(vector)).tolist()  # type: ignore[no-any-return]


def _with(
    place: tuple[int, int], *names: str, kind: Literal["joint", "single"] = "single"
) -> SubQuestion:
    return SubQuestion(QUESTION, (0, len(QUESTION)), kind, ((place, names),))


@pytest.fixture
def words() -> ByWord:
    return ByWord()


@pytest.fixture
def search(words: ByWord) -> StepSearch:
    batch = Batch(FakeArms().snapshot, FakeModels(words), [QUESTION], FusionSettings())
    batch.encode()
    whole = InnerResult(Ranking("fusion", (RankedHit("p0", 1.0, 1),)), np.ones(2, np.float32))
    words.calls.clear()
    return StepSearch(batch, lambda: {QUESTION: whole}, StepSettings(encoded=2, depth=3))


def test_a_phrase_takes_no_pass_of_a_model(search: StepSearch, words: ByWord) -> None:
    (found,) = search([SubQuestion(QUESTION, PHRASE)])
    # the land of Bo: 3, 4, 2 and 2 letters, one capital
    assert found.vector.tolist() == pytest.approx(_unit(11 / 4, 5 / 4))
    assert words.calls == []
    assert len(found.ranking.hits) == 3


def test_the_question_is_sought_while_names_are_encoded(search: StepSearch, words: ByWord) -> None:
    asked: list[int] = []

    def whole() -> Mapping[str, InnerResult]:
        asked.append(len(words.calls))
        return search.whole()

    own = replace(search, whole=whole)
    own([SubQuestion(QUESTION, PHRASE)])
    assert asked == []
    own([_with(PHRASE, "Ann", kind="joint")])
    assert asked == [len(words.calls)] == [1]


def test_names_of_one_place_are_encoded_together(search: StepSearch, words: ByWord) -> None:
    found = search([_with(PHRASE, name) for name in ("Ann", "Cyrus", "Dionysus")])
    assert words.calls == [("encode", 1)]
    (text,) = words.encode_with_states(["who leads Ann, Cyrus"])
    listed = np.array(_unit(4, 5))
    share = (PHRASE[1] - PHRASE[0]) / len(QUESTION)
    # The third is not encoded, and its place empty.
    for one, name in zip(found, (_unit(3, 5), _unit(5, 5), [0.0, 0.0]), strict=True):
        expected = text.vector + share * (np.array(name) - listed)
        assert one.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)


def test_all_names_of_a_place_make_one_question(search: StepSearch, words: ByWord) -> None:
    (found,) = search([_with(PHRASE, "Ann", "Cyrus", "Dionysus", kind="joint")])
    (text,) = words.encode_with_states(["who leads Ann, Cyrus"])
    assert found.vector.tolist() == pytest.approx(text.vector.tolist(), rel=1e-5)


def test_names_of_several_places_move_the_question_each(search: StepSearch, words: ByWord) -> None:
    puts = ((VERB, ("Ann",)), (NAME, ("Cyrus", "Bob")))
    (found,) = search([SubQuestion(QUESTION, (0, len(QUESTION)), "joint", puts)])
    assert words.calls == [("encode", 2)]
    own = search.batch.encoded[QUESTION].vector
    texts = ["who Ann the land of Bo", "who leads the land of Cyrus, Bob"]
    one, two = (text.vector - own for text in words.encode_with_states(texts))
    assert found.vector.tolist() == pytest.approx(_unit(*(own + one + two)), rel=1e-5)


def test_a_phrase_with_names_is_moved_by_them(search: StepSearch, words: ByWord) -> None:
    (found,) = search([SubQuestion(QUESTION, PHRASE, "phrase", ((NAME, ("Ann", "Cyrus")),))])
    assert words.calls == [("encode", 1)]
    phrase, name, listed = np.array(_unit(11 / 4, 5 / 4)), _unit(2, 5), _unit(4, 5)
    expected = phrase + 2 / 14 * (np.array(listed) - name)
    assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)


def test_one_name_is_left_to_the_text_arms_among_what_may_have_it(search: StepSearch) -> None:
    arms = cast("FakeArms", search.batch.arms)
    (found,) = search([_with(PHRASE, "Ann")])
    assert {name for name, _, _ in arms.log} == {Route.DENSE, Route.LEXICAL}
    lexical = {
        hit.id for hit in arms.lexical.search([Query("", np.zeros(2, np.float32))], 3)[0].hits
    }
    assert {hit.id for hit in found.ranking.hits} <= {"p0", *lexical}


def test_words_of_the_question_may_stand_alone(search: StepSearch, words: ByWord) -> None:
    puts = ((PHRASE, ("land",)),)
    (found,) = search([SubQuestion(QUESTION, (0, len(QUESTION)), "part", puts)])
    phrase, share = np.array(_unit(11 / 4, 5 / 4)), 14 / len(QUESTION)
    expected = search.batch.encoded[QUESTION].vector + share * (np.array([1.0, 0]) - phrase)
    assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)
    assert words.calls == []


def test_what_is_asked_beside_it_changes_nothing(search: StepSearch) -> None:
    asked = [
        _with(PHRASE, "Ann"),
        _with(NAME, "Cyrus"),
        _with(VERB, "Dionysus", kind="joint"),
        SubQuestion(QUESTION, PHRASE),
    ]
    for one, found in zip(asked, search(asked), strict=True):
        (alone,) = replace(search, _listed={})([one])
        assert np.array_equal(alone.vector, found.vector)
        if one.kind != "single":  # the text arms look at what has the words of any
            assert alone.ranking == found.ranking


def test_what_stands_behind_a_question_is_read_with_it(search: StepSearch, words: ByWord) -> None:
    end = len(QUESTION)
    (found,) = search([_with((end, end), "Ann", "Cyrus", kind="joint")])
    (whole,) = words.encode_with_states([QUESTION + " Ann, Cyrus"])
    assert found.vector.tolist() == pytest.approx(whole.vector.tolist(), rel=1e-5)
