"""Parts of questions searched for by vectors that are made of the question's."""

from collections.abc import Sequence

import numpy as np
import pytest

from featurizer.encoder import EncodedText
from router.fusion import FusionSettings
from router.step_search import StepSearch
from router.steps import InnerResult, SubQuestion
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


@pytest.fixture
def words() -> ByWord:
    return ByWord()


@pytest.fixture
def search(words: ByWord) -> StepSearch:
    encoded = {QUESTION: words.encode_with_states([QUESTION])[0]}
    words.calls.clear()
    return StepSearch(FakeArms(), None, lambda: words, FusionSettings(), encoded, 3)


def test_a_phrase_takes_no_pass_of_a_model(search: StepSearch, words: ByWord) -> None:
    (found,) = search([SubQuestion(QUESTION, PHRASE)])
    # the land of Bo: 3, 4, 2 and 2 letters, one capital
    assert found.vector.tolist() == pytest.approx(_unit(11 / 4, 5 / 4))
    assert words.calls == []
    assert len(found.ranking.hits) == 3


def test_names_of_one_place_are_encoded_together(search: StepSearch, words: ByWord) -> None:
    asked = [
        SubQuestion(QUESTION, (0, len(QUESTION)), ((PHRASE, name),)) for name in ("Ann", "Cyrus")
    ]
    ann, cyrus = search(asked)
    assert words.calls == [("encode", 1)]
    own = search.encoded[QUESTION]
    phrase = np.array(_unit(11 / 4, 5 / 4))
    share = (PHRASE[1] - PHRASE[0]) / len(QUESTION)
    for found, letters in ((ann, 3), (cyrus, 5)):
        expected = own.vector + share * (np.array(_unit(letters, 5)) - phrase)
        assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)
    again = search(asked)
    assert words.calls == [("encode", 1)]
    assert [one.vector.tolist() for one in again] == [ann.vector.tolist(), cyrus.vector.tolist()]


def test_a_phrase_with_names_is_encoded_with_all_of_them(search: StepSearch, words: ByWord) -> None:
    asked = [SubQuestion(QUESTION, PHRASE, ((NAME, name),)) for name in ("Ann", "Cyrus")]
    ann, cyrus = search(asked)
    assert words.calls == [("encode", 1)]
    (whole,) = words.encode_with_states(["the land of Ann, Cyrus"])
    listed = np.array(_unit(4, 5))
    for found, letters in ((ann, 3), (cyrus, 5)):
        expected = whole.vector + 2 / 14 * (np.array(_unit(letters, 5)) - listed)
        assert found.vector.tolist() == pytest.approx(_unit(*expected), rel=1e-5)


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
        (alone,) = StepSearch(search.arms, None, search.analyser, search.fusion, search.encoded, 3)(
            [one]
        )
        assert np.array_equal(alone.vector, found.vector)
        assert alone.ranking == found.ranking


def test_what_stands_behind_a_question_is_encoded_with_it(
    search: StepSearch, words: ByWord
) -> None:
    end = len(QUESTION)
    asked = SubQuestion(QUESTION, (0, end), (((end, end), " Ann, Cyrus"),))
    (found,) = search([asked])
    (whole,) = words.encode_with_states([QUESTION + " Ann, Cyrus"])
    assert np.array_equal(found.vector, whole.vector)
