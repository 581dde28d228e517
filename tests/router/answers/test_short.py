import math

from router.answers.expected import expected
from router.answers.short import SENTENCES, options, shares

BRIDGE = ("Stari Most", "Stari Most was built in 1566 by Mimar Hayruddin. It spans the Neretva.")
FILM = ("Signs", "Signs is a film directed by Ann Lee and set in Split.")
ANN = ("Ann Lee", "Ann Lee (5 May 1930 - 7 June 2001) was a director, born in Zadar, Croatia.")


def best(question: str, *passages: tuple[str, str]) -> str:
    found = options(expected(question), question, passages)
    own = shares(found)
    return found[own.index(max(own))].candidate.text


def test_the_type_that_is_asked_for() -> None:
    assert best("When was Stari Most built?", BRIDGE) == "1566"
    assert best("Who built Stari Most?", BRIDGE) == "Mimar Hayruddin"
    assert best("What is Ann Lee's occupation?", ANN) == "director"


def test_over_two_hops_the_passage_that_the_first_leads_to() -> None:
    assert best("Where was the director of Signs born?", FILM, ANN) == "Zadar"
    assert best("When did the director of Signs die?", FILM, ANN) == "7 June 2001"


def test_what_a_passage_says_it_is_about_tells_the_type_of_its_title() -> None:
    boat = ("Aurora", "The Aurora was a boat. It came ashore on Vis.")
    island = ("Vis", "Vis is a dry island in the Adriatic. Captain Hoste claimed it in 1811.")
    for text, of in ((boat, 0), (island, 1)):
        found = options(expected("Which captain claimed the island?"), "Which captain?", [text])
        title = next(one for one in found if one.plain == text[0].lower())
        assert title.evidence.get("of another type", 0) == of
    asked = "Which captain had claimed the island where the Aurora came ashore?"
    assert best(asked, boat, island) == "Captain Hoste"
    found = options(expected("Which island is dry?"), "Which island is dry?", [island])
    assert next(one for one in found if one.plain == "vis").evidence["of this type"] == 1


def test_shares_are_of_one_whole() -> None:
    found = options(expected("Who?"), "Who?", [BRIDGE, FILM, ANN])
    assert math.isclose(sum(shares(found)), 1)
    assert shares([]) == []


def test_a_long_passage_is_read_in_part() -> None:
    text = " ".join(f"Bridge {n} is old." for n in range(100))
    found = options(expected("Which bridge?"), "Which bridge?", [("Bridges", text)])
    assert len({option.sentence.start for option in found}) == SENTENCES
    for option in found:
        assert text[option.sentence.start :].startswith(option.sentence.text)
