"""Names by which passages go besides their whole titles."""

import pytest

from wye.backends.trigraph.definitions import defining_names, is_row, title_parts


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("Runbook: Otter", ["Runbook", "Otter"]),
        ("Hut page: Elk Hut (ELK)", ["ELK", "Hut page", "Elk Hut"]),
        ("DN-04 Heat pumps", ["DN-04 Heat pumps", "DN-04", "Heat pumps"]),
        ("Report RX-21-3", ["Report RX-21-3", "RX-21-3"]),
        ("LH-16-marten", ["LH-16", "marten"]),
        ("spare-parts_list", ["spare parts list"]),
        ("Ada Quist - Early life", ["Ada Quist"]),
        ("The Long Rain (film)", ["The Long Rain"]),
        ("Peut-\u00eatre", ["Peut-\u00eatre"]),
        ("Hut rules > 4. Stoves", ["Hut rules"]),
    ],
)
def test_parts_of_a_title(title: str, parts: list[str]) -> None:
    assert [*title_parts(title)] == parts


def test_a_part_that_is_a_whole_title_or_widely_shared_names_nothing() -> None:
    titles = ["Otter", "Runbook: Otter", *(f"Notice: Day{n}x" for n in range(5))]
    names = defining_names(titles, titles, [""] * len(titles))
    assert names[1] == ("runbook",)
    assert all("notice" not in each for each in names)
    assert names[2] == ("day0x",)


def test_a_person_in_a_table_goes_by_one_name_if_nobody_shares_it() -> None:
    row = "role: Warden; hut: Elk Hut"
    titles = ["Runa Berg", "Odd Lie", "Odd Moen", "Runa Falk Hus"]
    documents = [f"staff.csv:{n}" for n in range(4)]
    assert defining_names(titles, documents, [row] * 4) == [
        ("berg",),
        ("lie",),
        ("moen",),
        ("hus",),
    ]
    assert defining_names(titles, documents, ["She keeps the hut."] * 4) == [()] * 4


def test_chunks_of_a_document_count_as_one() -> None:
    titles = ["Runbook: Otter"] * 9
    names = defining_names(titles, ["runbook.md"] * 9, [""] * 9)
    assert names == [("runbook", "otter")] * 9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role: Warden; hut: Elk Hut", True),
        ("One thing: this; and then all of that happened; and more; and more", False),
        ("Prose without any labels.", False),
    ],
)
def test_rows_are_known_by_their_labels(text: str, expected: bool) -> None:
    assert is_row(text) is expected
