"""Parts of questions searched for by vectors that are made of the question's."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from backends.types import Query
from featurizer.encoder import EncodedText
from router.fusion import FusionSettings
from router.step_search import StepSearch
from router.steps import InnerResult, StepSettings, SubQuestion
from router.types import Route
from tests.router.fakes import FakeAnalyser, FakeArms

QUESTION = "who leads the land of Bo"
PHRASE = (10, 24)
NAME = (22, 24)


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


def _with(place: tuple[int, int], words: str, *, listed: bool = False) -> SubQuestion:
    return SubQuestion(QUESTION, (0, len(QUESTION)), ((place, words),), listed=listed)


@pytest.fixture
def words() -> ByWord:
    return ByWord()


@pytest.fixture
def search(words: ByWord) -> StepSearch:
    encoded = {QUESTION: words.encode_with_states([QUESTION])[0]}
    words.calls.clear()
    return StepSearch(
        FakeArms(),
        None,
        lambda: words,
        FusionSettings(),
        encoded,
        {QUESTION: ["p0"]},
        StepSettings(encoded=2, depth=3),
    )


def test_a_phrase_takes_no_pass_of_a_model(search: StepSearch, words: ByWord) -> None:
    (found,) = search([SubQuestion(QUESTION, PHRASE)])
    # the land of Bo: 3, 4, 2 and 2 letters, one capital
    assert found.vector.tolist() == pytest.approx(_unit(11 / 4, 5 / 4))
    assert words.calls == []
    assert len(found.ranking.hits) == 3


def test_names_of_one_place_are_encoded_together(search: StepSearch, words: ByWord) -> None:
    asked = [_with(PHRASE, name) for name in ("Ann", "Cyrus", "Dionysus")]
    found = search(asked)
    assert words.calls == [("encode", 1)]
    (text,) = words.encode_with_states(["who leads Ann, Cyrus"])
    words.calls.clear()
    listed = np.array(_unit(4, 5))
    share = (PHRASE[1] - PHRASE[0]) / len(QUESTION)
    # The third is not encoded, and its place empty.
    for one, name in zip(found, (_unit(3, 5), _unit(5, 5), [0.0, 0.0]), strict=True):
        expected = text.vector + share * (np.array(name) - listed)
        assert one.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)
    again = search(asked)
    assert words.calls == []
    assert [one.vector.tolist() for one in again] == [one.vector.tolist() for one in found]


def test_all_names_of_a_place_move_the_question(search: StepSearch) -> None:
    names = [_with(PHRASE, name) for name in ("Ann", "Cyrus")]
    (found, *_) = search([_with(PHRASE, "Ann, Cyrus, Dionysus", listed=True), *names])
    phrase, listed = np.array(_unit(11 / 4, 5 / 4)), np.array(_unit(4, 5))
    expected = search.encoded[QUESTION].vector + 14 / len(QUESTION) * (listed - phrase)
    assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)


def test_without_the_names_of_a_place_the_question_stays(search: StepSearch) -> None:
    (found,) = search([_with(PHRASE, "Ann, Cyrus", listed=True)])
    assert np.allclose(found.vector, search.encoded[QUESTION].vector)


def test_a_phrase_with_names_is_read_off_the_question_with_them(
    search: StepSearch, words: ByWord
) -> None:
    asked = [SubQuestion(QUESTION, PHRASE, ((NAME, name),)) for name in ("Ann", "Cyrus")]
    ann, cyrus = search(asked)
    assert words.calls == [("encode", 1)]
    # the land of Ann, Cyrus: 3, 4, 2, 3 and 5 letters, two capitals
    within, listed = np.array(_unit(17 / 5, 2)), np.array(_unit(4, 5))
    for found, letters in ((ann, 3), (cyrus, 5)):
        expected = within + 2 / 14 * (np.array(_unit(letters, 5)) - listed)
        assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)


def test_one_name_is_left_to_the_text_arms_among_what_may_have_it(search: StepSearch) -> None:
    arms = search.arms
    assert isinstance(arms, FakeArms)
    (found,) = search([replace(_with(PHRASE, "Ann"), walks=False)])
    assert {name for name, _, _ in arms.log} == {Route.DENSE, Route.LEXICAL}
    lexical = {
        hit.id for hit in arms.lexical.search([Query("", np.zeros(2, np.float32))], 3)[0].hits
    }
    assert {hit.id for hit in found.ranking.hits} <= {"p0", *lexical}


def test_words_of_the_question_may_stand_alone(search: StepSearch, words: ByWord) -> None:
    (found,) = search([SubQuestion(QUESTION, (0, len(QUESTION)), ((PHRASE, "land"),), found=False)])
    phrase, share = np.array(_unit(11 / 4, 5 / 4)), 14 / len(QUESTION)
    expected = search.encoded[QUESTION].vector + share * (np.array([1.0, 0]) - phrase)
    assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)
    assert words.calls == []


def test_names_of_places_that_overlap_are_encoded_apart(search: StepSearch, words: ByWord) -> None:
    whole = 0, len(QUESTION)
    asked = [
        SubQuestion(QUESTION, whole, ((PHRASE, "Ann"),)),
        SubQuestion(QUESTION, whole, ((NAME, "Cyrus"),)),
    ]
    together = search(asked)
    assert words.calls == [("encode", 2)]
    for one, found in zip(asked, together, strict=True):
        alone: InnerResult
        (alone,) = replace(search, _names={}, _lists={}, _encoded={}, _known_parts={})([one])
        assert np.array_equal(alone.vector, found.vector)
        assert alone.ranking == found.ranking


def test_what_stands_behind_a_question_is_encoded_with_it(
    search: StepSearch, words: ByWord
) -> None:
    end = len(QUESTION)
    asked = SubQuestion(QUESTION, (0, end), (((end, end), " Ann, Cyrus"),), listed=True)
    (found,) = search([asked])
    (whole,) = words.encode_with_states([QUESTION + " Ann, Cyrus"])
    assert np.array_equal(found.vector, whole.vector)
