from hypothesis import given
from hypothesis import strategies as st

from wye.backends.text import split_sentences
from wye.router.answers import (
    LONGEST,
    Quote,
    best_sentences,
    keep_best,
    marks,
    names_in,
    sentences_of,
    statements_of,
)

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
    assert best_sentences("Who designed the lighthouse of Alexandria?", [BRIDGE, RIVER]) == []
    # "sea" and "flow" are there, but nothing of what is asked about.
    assert best_sentences("Into which sea does the Amazon flow?", [RIVER]) == []
    assert best_sentences("Into which sea does the Neretva flow?", [RIVER])
    # One word of seven.
    assert best_sentences("how do you keep a popular rose bush green in winter", [RIVER]) == []


def test_the_reply_of_a_question_that_is_a_title_is_quoted() -> None:
    reply = ("How do I close the sluice?", "Turn the wheel to the left. Then lock it.")
    (quote,) = best_sentences("How do I close the sluice?", [reply, BRIDGE], known=True)
    assert quote == Quote("Turn the wheel to the left.", 1)
    notes = ("Closing the sluice", "Turn the wheel to the left.")
    assert best_sentences("How do I close the sluice?", [notes], known=True) == []


def test_one_sentence_is_enough_if_it_has_all_of_the_question() -> None:
    quotes = best_sentences("Into which sea does the Neretva flow?", [BRIDGE, RIVER])
    assert quotes == [Quote("The Neretva flows into the Adriatic Sea.", 2)]
    titled = ("Larch Café", "The terrace closes at nine. The Larch Café has a dog.")
    assert best_sentences("When does the terrace of Larch Café close?", [titled, titled]) == [
        Quote("The terrace closes at nine.", 1)
    ]


def test_what_says_the_same_is_quoted_once() -> None:
    pages = [("", f"Skates can be hired for a day at a kiosk. Printed on {n} May.") for n in "123"]
    quotes = best_sentences("Where can skates and a sledge be hired for a day?", pages)
    assert [quote.number for quote in quotes] == [1]
    years = [("", f"In {year} the club had a hundred members.") for year in (2019, 2020)]
    assert len(best_sentences("How many members had the club in 2019 and 2020?", years)) == 2


def test_headings_headers_and_questions_are_no_statements() -> None:
    mail = "From: Mo\nTo: Al\nSubject: Key of the boiler\nDate: 3 May\n\nThe key hangs in the hall."
    assert statements_of(mail) == [("", "The key hangs in the hall.")]
    page = "# Boiler\n\nThe boiler key\n\nIt hangs in the hall."
    assert statements_of(page) == [("The boiler key", "It hangs in the hall.")]
    assert statements_of("unit: each; price: 12") == [("", "unit: each; price: 12")]
    assert statements_of("Subject: drawing") == [("", "Subject: drawing")]
    assert statements_of("Where is the key?") == []


def test_a_row_is_quoted_with_its_title_and_a_line_with_the_heading_that_has_the_code() -> None:
    rows = [("Lift 3", "building: A; kind: bed lift; load: 2000")]
    rows += [("Lift 4", "building: B; kind: theatre lift; load: 2500")]
    first, *_ = best_sentences("What load has lift 4?", rows)
    assert (first.number, str(first)) == (2, f"Lift 4: {rows[1][1]}")
    codes = [("Faults", "## F-510\n\nBelt is loose.\n\n## F-511\n\nTorque out of range.")]
    (quote, *_) = best_sentences("What does F-511 mean?", codes)
    assert str(quote) == "F-511: Torque out of range."


def test_a_question_is_quoted_with_its_reply() -> None:
    talk = "[09:01] MO: Morning.\n[09:02] AL: Where is the boiler key?\n[09:03] MO: In the hall."
    (quote,) = best_sentences("Where is the boiler key?", [("Call", talk)])
    assert quote.text == "[09:02] AL: Where is the boiler key?\n[09:03] MO: In the hall."


def test_what_the_question_denies_is_not_quoted() -> None:
    glues = [
        ("Fixol", "Fixol is a glue. It is safe for children."),
        ("Hartol", "Hartol is a glue. It isn't safe for children."),
    ]
    for question in ("Which glue is not safe for children?", "Which glue isn't safe for children?"):
        quotes = best_sentences(question, glues)
        assert "It isn't safe for children." in [quote.text for quote in quotes]
        assert "It is safe for children." not in [quote.text for quote in quotes]


def test_the_questions_words_are_marked() -> None:
    sentence = "The keys hang in the hall."
    spans = marks("Where is the key of the hall?", sentence)
    assert [sentence[start:end] for start, end in spans] == ["keys", "hall"]


def test_a_first_word_is_no_name() -> None:
    assert best_sentences("Can I swim in the Neretva?", [("", "People swim in the Neretva.")])


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


def test_names() -> None:
    text = "The poet J. R. R. Tolkien met Ludwig van Beethoven, Earl of Oxford in Rome."
    assert names_in(text) == ["J. R. R. Tolkien", "Ludwig van Beethoven", "Earl of Oxford", "Rome"]


def test_a_pair_is_also_each_of_it_and_dates_are_no_names_and_end_them() -> None:
    assert names_in("By Ann Lee and Bob Ray.") == ["Ann Lee and Bob Ray", "Ann Lee", "Bob Ray"]
    assert names_in("In May 1900 Rome 5 June 1910 Milan had trams.") == ["Rome", "Milan"]


@given(st.text(max_size=200))
def test_names_stand_in_the_text(text: str) -> None:
    assert all(name and name in text for name in names_in(text))


WORD = st.text(st.sampled_from("ab1."), min_size=1, max_size=8)
BLANK = st.sampled_from([" ", "", "\n", ". "])


def test_a_sentence_of_usual_length_stays_whole() -> None:
    text = f"It is a bridge. {'Boats are popular there, and ' * 60}so on. It was rebuilt in 2004."
    assert sentences_of(text) == split_sentences(text)


def test_a_blank_line_ends_a_sentence() -> None:
    text = "The Kestrel\n\nThe Kestrel is a beam\nengine. It runs."
    assert sentences_of(text) == ["The Kestrel", "The Kestrel is a beam\nengine.", "It runs."]


@given(st.lists(WORD, max_size=5), st.sampled_from([1, 700, 3_000]), BLANK)
def test_a_long_one_is_cut_between_words_if_any(words: list[str], times: int, blank: str) -> None:
    text = blank.join(words * times)
    found, end = sentences_of(text), 0
    assert all(0 < len(one) <= LONGEST for one in found)
    for one in found:
        start = text.index(one, end)
        assert not text[end:start].strip()
        end = start + len(one)
    assert not text[end:].strip()
    if blank.isspace():
        assert [word for one in found for word in one.split()] == text.split()


def test_the_best_sentences_stay_in_their_order() -> None:
    texts = ["One. Two. Three.", "Four. Five."]
    scored = [[("One.", 0.1), ("Two. Three.", 0.9)], [("Four.", 0.5), ("Five.", 0.2)]]
    assert keep_best(texts, scored, 0.6) == ["… Two. Three.", "Four. …"]
    assert keep_best(texts, scored, 0.4) == ["… Two. Three.", ""]
    assert keep_best(texts, scored, 1.0) == texts
    assert keep_best([], [], 0.5) == []


def test_a_sentence_without_a_score_goes_with_the_one_before_it() -> None:
    texts = ["Ada met Bo. They spoke. It rained. Como is far.", "Nothing is known here."]
    scored = [[("Ada met Bo.", 0.2), ("Como is far.", 0.8)], []]
    # A text of which no sentence has a score stays.
    assert keep_best(texts, scored, 0.4) == ["… Como is far.", texts[1]]
    assert keep_best(texts, scored, 0.8) == ["Ada met Bo. They spoke. … Como is far.", texts[1]]
