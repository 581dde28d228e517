"""Documents are stored clean or refused with a reason; their chunks lose no text."""

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends import documents
from wye.backends.errors import SourceError
from wye.backends.readers.drafts import Block, Draft
from wye.backends.readers.records import text_document
from wye.backends.store.ingest import content_hash
from wye.backends.text import split_sentences, title_names
from wye.backends.types import Passage

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
record = st.fixed_dictionaries({}, optional=dict.fromkeys(["_id", "text", "title"], anything))


@given(record | anything, anything)
def test_whatever_the_record_it_can_be_stored_or_is_refused(value: object, meta: object) -> None:
    if isinstance(value, dict):
        value["metadata"] = meta
    try:
        passage = documents.parse_record(value)
    except SourceError:
        return
    assert passage.text.strip()
    assert passage.id.strip()
    content_hash(passage)  # which encodes everything as UTF-8
    assert documents.clean(passage.text) == passage.text


def test_titles_are_bounded_where_each_chunk_would_have_one() -> None:
    longest = "t" * documents.LONGEST_TITLE
    assert (
        documents.parse_record({"id": "x", "text": "y", "title": f" {longest}\n"}).title == longest
    )
    with pytest.raises(SourceError, match="at most 1,024 are stored"):
        documents.parse_record({"id": "x", "text": "y", "title": f"{longest}t"})
    for found in (Draft(f"{longest}t", [(0, "y")]), Draft("", [(0, "y")])):
        assert documents.document_of(found, f"{longest}t.md").title == longest
    assert text_document(f"{longest}t.txt", b"y")[0].title == longest
    chunk = Passage("x#0001", f"{longest} > Heading", "y", {}, "x", 1)
    assert documents.checked_passage(chunk) == chunk


@given(st.lists(st.sampled_from(["\r", "\n", "\x85", "\x9b", "\u202e", "a", "ab\r\n"])))
def test_a_long_text_is_cleaned_in_pieces_as_a_short_one_is(parts: list[str]) -> None:
    text = "".join(parts)
    short = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
    short = short.replace("\x9b", "").replace("\u202e", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.backends.documents._PIECE", 2)
        assert documents.clean(text) == short


def test_a_word_that_a_line_end_breaks_is_joined_where_the_text_has_it_whole() -> None:
    text = (
        "The reser-\nvoir is full. A reservoir leaks. It is well-\nknown and in the fore-\n  cast."
    )
    assert documents.document_of(Draft("T", [(0, text)]), "a.md").text == (
        "The reservoir is full. A reservoir leaks. It is well-\nknown and in the fore-\n  cast."
    )


def chunk_text(text: str, words: int) -> list[str]:
    return documents.chunk_blocks([(0, text)], words)


@given(st.text(alphabet="ab. ", max_size=80), st.integers(1, 9))
def test_a_long_paragraph_is_read_in_pieces_that_are_all_of_it(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.backends.documents._PIECE", piece)
        chunks = chunk_text(text, 3)
    assert "".join("".join(chunks).split()) == "".join(text.split())


texts = st.text(st.sampled_from("ab .!?\n\t(\"'。😀א") | st.characters(exclude_categories=["Cs"]))


def letters(texts: Iterable[str]) -> str:
    return "".join("".join(texts).split())


@given(texts, st.integers(1, 12))
def test_chunks_hold_all_the_text_and_no_more_than_they_may(text: str, words: int) -> None:
    chunks = chunk_text(text, words)
    assert letters(chunks) == letters(split_sentences(text)) == letters(text)
    assert all(documents.count_words(chunk) <= words for chunk in chunks)
    if len(chunks) > 1:
        assert all(chunk.strip() for chunk in chunks)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(9, 20))
def test_a_chunk_ends_only_where_no_next_sentence_fits(lengths: list[int], words: int) -> None:
    sentences = [" ".join(["Word"] * length) + "." for length in lengths]
    chunks = chunk_text(" ".join(sentences), words)
    assert all(chunk.endswith(".") for chunk in chunks)
    for chunk, following in pairwise(chunks):
        first = split_sentences(following)[0]
        assert documents.count_words(chunk) + documents.count_words(first) > words


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("Dr. Who met J. R. Smith, e.g. Bob.", ["Dr. Who met J. R. Smith, e.g. Bob."]),
        ("It costs 3.50 now. 20 came.", ["It costs 3.50 now.", "20 came."]),
        ("see fig. two", ["see fig. two"]),
        ("晴れ。雨。", ["晴れ。", "雨。"]),
    ],
)
def test_sentences_end_where_a_reader_would_say(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_paragraphs_stay_apart_and_a_short_text_is_left_exactly_as_it_is() -> None:
    text = "One two.\nThree four.\n\nFive six.\n \nSeven eight nine ten."
    assert chunk_text(text, 6) == ["One two. Three four.\n\nFive six.", "Seven eight nine ten."]
    assert chunk_text("  a\n\n\n b ", 2) == ["  a\n\n\n b "]


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000, "word " * 200_000, "." * 1_000_000, " \n" * 500_000 + "x", "雨" * 400_000],
    ids=["one word", "one sentence", "stops", "blank lines", "chinese"],
)
def test_a_million_letters_of_anything_are_chunked_at_once(text: str) -> None:
    start = time.perf_counter()
    chunks = chunk_text(text, documents.LONGEST_WORDS)
    assert time.perf_counter() - start < 5
    assert letters(chunks) == letters(text)
    assert max(map(len, chunks)) <= max(documents.LONGEST_WORDS * 17, len(chunks[0]))


BLOCKS = (
    *[(0, "Intro one two."), (1, "Install"), (2, "Linux"), (0, "One two three four five six.")],
    *[(2, "Mac"), (0, "Seven eight nine ten eleven twelve thirteen. Fourteen fifteen sixteen.")],
    *[(1, "Use"), (0, "Enjoy it all day long, my friend, please."), (1, "End")],
)


def headed(blocks: Sequence[Block]) -> documents.HeadedDocument:
    return documents.HeadedDocument(
        "d", "Handbook", documents.joined(blocks), {"k": 1}, blocks=blocks
    )


def test_chunks_begin_at_headings_and_say_under_which_they_stand() -> None:
    found = list(documents.chunk_passage(headed(BLOCKS), 8))
    assert [(passage.id, passage.title, passage.text) for passage in found] == [
        ("d#0000", "Handbook", "Intro one two."),
        ("d#0001", "Handbook > Install > Linux", "One two three four five six."),
        ("d#0002", "Handbook > Install > Mac", "Seven eight nine ten eleven twelve thirteen."),
        ("d#0003", "Handbook > Install > Mac", "Fourteen fifteen sixteen."),
        ("d#0004", "Handbook > Use", "Enjoy it all day long, my friend, please."),
        ("d#0005", "Handbook > End", "End"),
    ]
    assert {(passage.document, passage.metadata["k"]) for passage in found} == {("d", 1)}
    titles = [passage.title for passage in documents.chunk_passage(headed(BLOCKS), 20)]
    assert titles == ["Handbook", *(f"Handbook > {part}" for part in ("Install", "Use", "End"))]
    few = [(passage.title, passage.text) for passage in documents.chunk_passage(headed(BLOCKS), 31)]
    assert few[0] == ("Handbook", documents.joined(BLOCKS[:6]))
    [whole] = documents.chunk_passage(headed(BLOCKS), 200)
    assert whole == Passage("d", "Handbook", documents.joined(BLOCKS), {"k": 1})


def test_only_the_document_among_the_headings_of_a_title_names_something() -> None:
    assert title_names("Mostar (city) > History > Rome") == ("Mostar (city)", "Mostar")


some_blocks = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.sampled_from(["Aa", "bb.", "Cc"]), min_size=1)).map(
        lambda drawn: (drawn[0], " ".join(drawn[1]))
    ),
    min_size=1,
    max_size=12,
)


@given(some_blocks, st.integers(1, 12))
def test_no_word_under_a_heading_is_lost(blocks: Sequence[Block], words: int) -> None:
    found = list(documents.chunk_passage(headed(blocks), words))
    assert all(documents.count_words(passage.text) <= words and passage.text for passage in found)
    said = " ".join(f"{passage.title} {passage.text}" for passage in found)
    for level, text in blocks:
        assert all(word in said for word in text.split())
        assert not level or text in said.replace("\n\n", " ") or documents.count_words(text) > words
    texts = " ".join(" ".join(passage.text.split()) for passage in found)
    plain = [text for level, text in blocks if not level]
    assert len(texts.split()) >= sum(len(text.split()) for text in plain)
