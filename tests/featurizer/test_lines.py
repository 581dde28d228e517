import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.featurizer.spacy.parser import SpacyParser, blocks, cell_names, cells, is_name

PAGE = """Opening hours

Cabin | Warden | Beds
Elk Hut | Runa Berg | 12
Tarn House | Odd Lie | 8

The huts are closed from November until the snow on the northern ridge has
melted. Keys are with the
wardens.
- Bring a sleeping bag
- Dogs sleep outside
Lead: Runa Berg, Odd Lie"""


def texts_of(text: str) -> list[str]:
    return [text[slice(*span)] for span in blocks(text)]


def names_in(line: str) -> list[str]:
    return [line[slice(*span)] for span in cell_names(line)]


def test_rows_items_and_headings_are_blocks_and_broken_prose_is_one() -> None:
    assert texts_of(PAGE) == [
        *("Opening hours", "Cabin | Warden | Beds", "Elk Hut | Runa Berg | 12"),
        "Tarn House | Odd Lie | 8",
        "The huts are closed from November until the snow on the northern ridge has\n"
        "melted. Keys are with the",
        *("wardens.", "- Bring a sleeping bag", "- Dogs sleep outside", "Lead: Runa Berg, Odd Lie"),
    ]


@given(st.text(alphabet="aB1 .,;:|-\n\u00e9", max_size=200))
def test_blocks_are_in_order_and_leave_nothing_but_space_out(text: str) -> None:
    spans = [*blocks(text)]
    assert all(start < end for start, end in spans)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    assert edges == sorted(edges)
    between = zip(edges[::2], edges[1::2], strict=True)
    assert not any(text[start:end].strip() for start, end in between)


@given(st.text(alphabet="aB1 .,;:|-\u00e9", max_size=200))
def test_names_lie_within_cells(line: str) -> None:
    rows = cells(line)
    for start, end in cell_names(line):
        assert any(first <= start < end <= last for first, last in rows)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("hut: Elk Hut; warden: Runa Berg; beds: 12; open: no", ["Elk Hut", "Runa Berg"]),
        ("Lift 2 | Runa Berg, Odd Lie | 12 kW", ["Lift 2", "Runa Berg", "Odd Lie"]),
        ("code: EH-07; opened: 2019-06-01; height: 1,204 m; kind: stone", ["EH-07"]),
        ("Runa said: come at ten; Odd did not.", []),
        ("A sentence about nothing.", []),
    ],
)
def test_a_cell_is_a_name_if_short_and_no_number_or_word(line: str, names: list[str]) -> None:
    assert names_in(line) == names


@pytest.mark.parametrize("value", ["12", "12 kg", "2019-06-01", "yes", "a" * 80, "? !"])
def test_numbers_dates_words_and_long_values_are_no_names(value: str) -> None:
    assert not is_name(value)


def test_a_row_is_one_sentence_and_no_name_crosses_a_line() -> None:
    (parse,) = SpacyParser().parse_many([PAGE])
    sentences = [PAGE[slice(*span)] for span in parse.sentences]
    assert "Elk Hut | Runa Berg | 12" in sentences
    assert not any("\n" in entity.text for entity in parse.entities)
    assert {"Elk Hut", "Tarn House", "Odd Lie"} <= {entity.text for entity in parse.entities}
    starts = [start for start, _ in parse.sentences]
    assert starts == sorted(starts)
