from hypothesis import given
from hypothesis import strategies as st

from wye.router.answers.extractive import Quote, best_sentences

BRIDGE = ("Stari Most", "Stari Most spans the Neretva in Mostar. It was rebuilt in 2004.")
RIVER = ("Neretva", "Boats are popular there. The Neretva flows into the Adriatic Sea.")
OTHER = ("Tower Bridge", "Tower Bridge is in London.")


def test_the_sentence_that_has_the_questions_words() -> None:
    (quote,) = best_sentences("When was the bridge rebuilt?", [BRIDGE, RIVER, OTHER], 1)
    assert quote == Quote("It was rebuilt in 2004.", 1)


def test_a_name_leads_on_to_a_sentence_that_shares_no_word_with_the_question() -> None:
    quotes = best_sentences("What is spanned in Mostar?", [OTHER, BRIDGE, RIVER], 2)
    assert quotes == [
        Quote("Stari Most spans the Neretva in Mostar.", 2),
        Quote("The Neretva flows into the Adriatic Sea.", 3),
    ]


def test_what_does_not_bear_on_the_question_stays_out() -> None:
    assert best_sentences("Who?", [BRIDGE, RIVER]) == []
    assert best_sentences("zebras", [BRIDGE, RIVER]) == []
    assert best_sentences("zebras", []) == []


def test_passages_about_something_else_are_not_quoted() -> None:
    assert best_sentences("Who designed the lighthouse of Alexandria?", [BRIDGE, RIVER]) == []
    # "sea" and "flow" are there, but nothing of what is asked about.
    assert best_sentences("Into which sea does the Amazon flow?", [RIVER]) == []
    assert best_sentences("Into which sea does the Neretva flow?", [RIVER])
    # One word of seven.
    assert best_sentences("how do you keep a popular rose bush green in winter", [RIVER]) == []


def test_the_best_sentence_is_first() -> None:
    quotes = best_sentences("Into which sea does the Neretva flow?", [BRIDGE, RIVER], 2)
    assert quotes == [
        Quote("The Neretva flows into the Adriatic Sea.", 2),
        Quote("Stari Most spans the Neretva in Mostar.", 1),
    ]


def test_a_sentence_that_stands_twice_is_no_trouble() -> None:
    quotes = best_sentences("Mostar", [BRIDGE, BRIDGE, ("", "Mostar. Mostar.")], 9)
    assert sorted(quote.number for quote in quotes)[:3] == [1, 2, 3]


@given(
    st.text(max_size=40),
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=80)), max_size=4),
    st.integers(1, 5),
)
def test_quotes_are_quotes(question: str, passages: list[tuple[str, str]], most: int) -> None:
    quotes = best_sentences(question, passages, most)
    assert len(quotes) <= most
    for quote in quotes:
        assert quote.text in passages[quote.number - 1][1]
