"""Names by which passages go besides their whole titles."""

import pytest

from wye.backends.text import cells_of, title_parts
from wye.backends.trigraph.names import day_keys, defining_names


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("Runbook: Otter", ["Runbook", "Otter"]),
        ("Hut page: Elk Hut (ELK)", ["ELK", "Hut page", "Elk Hut"]),
        ("DN-04 Heat pumps", ["DN-04 Heat pumps", "DN-04", "Heat pumps"]),
        ("Report RX-21-3", ["Report RX-21-3", "RX-21-3"]),
        ("LH-16-marten", ["LH-16", "marten"]),
        ("spare-parts_list", ["spare parts list"]),
        ("Ada Quist - Early life", []),
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
        ("berg", "r. berg", "berg r"),
        ("lie", "o. lie", "lie o"),
        ("moen", "o. moen", "moen o"),
        ("hus", "r. hus", "hus r"),
    ]
    # However many rows are about her, and however her title is written, she is one person.
    about = ["Runa Berg", "Dr Runa Berg", "Berg, Runa", "Runa Berg"]
    tables = [f"{name}.csv:1" for name in ("staff", "keys", "boats", "courses")]
    assert all("runa" in names for names in defining_names(about, tables, [row] * 4))
    assert defining_names(["Berg, Runa"], ["staff.csv:1"], [row])[0][:2] == ("runa berg", "runa")
    assert defining_names(["Dr Runa Berg"], ["staff.csv:1"], [row])[0][:2] == ("runa berg", "runa")
    assert defining_names(titles, documents, ["She keeps the hut."] * 4) == [()] * 4


def test_a_row_with_a_period_goes_by_each_of_its_days() -> None:
    rows = ["to: 2034-08-09; tar: Odd Lie", "to: 2034-08-12; tar: Runa Berg"]
    names = defining_names(["2034-08-07", "2034-08-10"], ["a.csv:1", "a.csv:2"], rows)
    assert ("on 2034-08-08" in names[0], "on 08-11" in names[1]) == (True, True)
    assert not {*names[0]} & {*names[1]}
    many = defining_names(
        ["Sails"] * 4, [f"{n}.csv:1" for n in range(4)], [f"since: {rows[0]}"] * 4
    )
    assert many == [()] * 4


def test_chunks_of_a_document_count_as_one() -> None:
    titles = ["Runbook: Otter"] * 9
    names = defining_names(titles, ["runbook.md"] * 9, [""] * 9)
    assert names == [("runbook", "otter")] * 9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role: Warden; hut: Elk Hut", [("role", "Warden"), ("hut", "Elk Hut")]),
        ("One thing: this; and then all of that happened; and more; and more", []),
        ("Prose without any labels.", []),
    ],
)
def test_rows_are_known_by_their_labels(text: str, expected: list[tuple[str, str]]) -> None:
    assert cells_of(text) == expected


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (["SUP-24", "SUP-25"], ["sup-24", "sup-25"]),
        (["9130", "9140"], ["9130", "9140"]),
        (["07.05.31", "08.05.31"], ["07.05.31", "08.05.31"]),
        (["SUP-24", "SUP-24"], []),
        (["2030", "2031"], []),
        (["640", "5040"], []),
        (["Elk Hut", "Otter Hut"], []),
    ],
)
def test_the_first_column_that_tells_rows_apart_names_them(
    column: list[str], keys: list[str]
) -> None:
    texts = [f"where: north; no: {key}; other: Z-{n}" for n, key in enumerate(column)]
    names = defining_names(["Ropes", "Sails"], ["a.csv:1", "a.csv:2"], texts)
    assert [each[:1] for each in names] == [(key,) for key in keys or ("z-0", "z-1")]


def test_no_column_names_the_rows_whose_titles_are_codes() -> None:
    texts = ["firm: S-2; sum: 5 EUR", "firm: S-1; sum: 7 EUR"]
    assert defining_names(["LK 5571", "M-31/2"], ["a.csv:1", "a.csv:2"], texts) == [(), ()]


def test_a_day_names_its_row_in_every_notation() -> None:
    texts = [f"date: {day}.05.31; watch: Lie" for day in ("06", "07")]
    names = defining_names(["Tue", "Wed"], ["rota.csv:1", "rota.csv:2"], texts)
    assert names[1] == ("07.05.31", *day_keys("7 May 2031"))


def test_a_surname_that_is_a_title_elsewhere_names_its_person_too() -> None:
    titles, documents = ["Berg, Runa", "Berg"], ["staff.csv:1", "leave.csv:1"]
    names = defining_names(titles, documents, ["role: Warden; hut: Elk Hut"] * 2)
    assert "berg" in names[0]
