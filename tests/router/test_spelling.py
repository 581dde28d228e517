from collections.abc import Iterable

import pytest

from wye.router.spelling import respelt


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("extention of the sluice", "extension of the sluice"),
        ("the extesion", "the extension"),
        ("their extenssion", "their extension"),
        ("their lenght", "their length"),
        ("the slluice and the ferrry", "the sluice and the ferry"),
        ("the fery", "the fery"),  # too short
        ("Extention, EXTENTION, un-extention", "Extention, EXTENTION, un-extention"),
        ("a kextension", "a kextension"),  # the first letter is hardly ever wrong
        ("a lecer", "a lecer"),  # as near to "lever" as to "leper"
        ("who is a donner", "who is a donner"),  # a word, though no passage has it
        ("the barrell", "the barrel"),
        ("he levers, levered and levering", "he levers, levered and levering"),
        ("the transpoter", "the transporter"),  # in more passages than "transposer"
        ("the inteltions", "the inteltions"),  # as near to "intentions" as to "inteletions"
    ],
)
def test_a_misspelt_word_stands_for_the_nearest_of_the_corpus(question: str, searched: str) -> None:
    counts = {"extension": 3, "lever": 2, "leper": 2, "sluice": 1, "ferry": 4, "length": 1}
    counts |= {"donne": 1, "barrel": 2, "transporter": 2, "transposer": 1}
    counts |= {"intentions": 1, "inteletions": 1}

    def counts_of(words: Iterable[str]) -> dict[str, int]:
        return {word: counts[word] for word in words if word in counts}

    assert respelt(question, counts_of, {"donner", "their", "lever"}.__contains__) == searched
