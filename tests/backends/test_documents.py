"""Documents: whatever comes is stored clean, or refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.documents import LONGEST_TITLE, checked_passage, clean, document_of, parse_record
from wye.backends.errors import SourceError
from wye.backends.readers.drafts import Draft
from wye.backends.readers.records import text_document
from wye.backends.store.schema import content_hash
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
        passage = parse_record(value)
    except SourceError:
        return
    assert passage.text.strip()
    assert passage.id.strip()
    content_hash(passage)  # which encodes everything as UTF-8
    assert clean(passage.text) == passage.text


def test_titles_are_bounded_where_each_chunk_would_have_one() -> None:
    longest = "t" * LONGEST_TITLE
    assert parse_record({"id": "x", "text": "y", "title": f" {longest}\n"}).title == longest
    with pytest.raises(SourceError, match="at most 1,024 are stored"):
        parse_record({"id": "x", "text": "y", "title": f"{longest}t"})
    for found in (Draft(f"{longest}t", [(0, "y")]), Draft("", [(0, "y")])):
        assert document_of(found, f"{longest}t.md").title == longest
    assert text_document(f"{longest}t.txt", b"y")[0].title == longest
    chunk = Passage("x#0001", f"{longest} > Heading", "y", {}, "x", 1)
    assert checked_passage(chunk) == chunk


@given(st.lists(st.sampled_from(["\r", "\n", "\x85", "\x9b", "\u202e", "a", "ab\r\n"])))
def test_a_long_text_is_cleaned_in_pieces_as_a_short_one_is(parts: list[str]) -> None:
    text = "".join(parts)
    short = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n")
    short = short.replace("\x9b", "").replace("\u202e", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.backends.documents._PIECE", 2)
        assert clean(text) == short


def test_a_word_that_a_line_end_breaks_is_joined_where_the_text_has_it_whole() -> None:
    text = (
        "The reser-\nvoir is full. A reservoir leaks. It is well-\nknown and in the fore-\n  cast."
    )
    assert document_of(Draft("T", [(0, text)]), "a.md").text == (
        "The reservoir is full. A reservoir leaks. It is well-\nknown and in the fore-\n  cast."
    )
