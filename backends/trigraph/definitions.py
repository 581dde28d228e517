"""Names by which passages go besides their whole titles.

An encyclopaedia's titles are names. A company's are "Runbook: Lynx", "DR-12 Shore power", a path,
or the name of a row. Their parts, codes, a person's first name, and the codes or days that tell the
rows of a table apart, say as well what a passage is about, if few passages have them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from wye.backends.notations import phrases
from wye.backends.text import FUNCTION_WORDS, HEADING_JOINT, cells_of, entity_key, title_keys

MOST_DOCUMENTS = 3
"""A part of titles that more documents share is a kind of text, not a name."""

_SECTION = re.compile(r"\s+[\u2013\u2014|/-]\s+")
_JOINT = re.compile(r":\s+")
_BRACKET = re.compile(r"\s*\(([^()]+)\)\s*$")
_ABBREVIATION = re.compile(r"[A-Z][A-Z0-9./-]{1,9}")
_CODE = re.compile(r"(?<![\w-])(?=[\w./-]*\d)(?=[\w./-]*[^\W\d_])\w+(?:[./-]\w+)*")
_STEM = re.compile(r"[\w.]+(?:[-_][\w.]+)+")
_STEM_CODE = re.compile(r"[A-Z]{1,4}[-_]\d+(?:[-_]\d+)*(?=[-_]|$)")
_PERSON = re.compile(r"[^\W\d_][\w'\u2019-]+(?: [^\W\d_][\w'\u2019.-]*){1,2}")
_HONORIFIC = re.compile(r"(?:Dr|Mr|Mrs|Ms|Miss|Prof)\.? ")
_KEY = re.compile(r"(?!(?:19|20)\d\d$)(?=[\w./-]*\d)[\w./-]{2,20}")
_DAY = re.compile(r"(?:\d{4}|-)-\d\d-\d\d")
_MOST_WORDS = 4
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)


def defining_names(
    titles: Sequence[str], documents: Sequence[str], texts: Iterable[str]
) -> list[tuple[str, ...]]:
    """Keys of the names of each passage that are no whole title.

    Args:
        titles: Titles of n passages.
        documents: Their documents.
        texts: Their texts.
    """
    whole = {key for title in titles for key in title_keys(title)}
    names_of: list[list[str]] = []
    shared: dict[str, set[str]] = defaultdict(set)
    columns: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row, (title, document, text) in enumerate(zip(titles, documents, texts, strict=True)):
        keys = dict.fromkeys(map(entity_key, title_parts(title)))
        names = [key for key in keys if key and key not in whole and key not in FUNCTION_WORDS]
        names_of.append(names)
        for key in names:
            shared[key].add(document)
        cells = cells_of(text)
        for label, value in (("", title), *cells) if cells else ():
            columns[document.rpartition(":")[0], label].append((row, value))
        for name in names_of_person(title) if cells else ():
            key = entity_key(name)
            if len(key) > 2 and name[0].isupper():
                names.append(key)
                shared[key].update((document, *_TWO))
    tables_with_keys = set()
    for (table, label), column in columns.items():
        values = [value if label else value.replace(" ", "") for _, value in column]
        if table not in tables_with_keys and are_keys(values):
            tables_with_keys.add(table)
            for row, value in column:
                for key in (*([entity_key(value)] if label else ()), *day_keys(value)):
                    names_of[row].append(key)
                    shared[key].add(documents[row])
    return [
        tuple(key for key in dict.fromkeys(names) if len(shared[key]) <= MOST_DOCUMENTS)
        for names in names_of
    ]


_TWO = ("\0first", "\0second")
"""Count like documents, so that a single name that two people share is none."""


def day_keys(text: str) -> list[str]:
    """Keys of the days in a text in whatever notation: "on 2031-05-07", and without the year."""
    keys = [key for phrase in phrases(text) for key in phrase.keys if _DAY.fullmatch(key)]
    return [f"on {key.strip('-')}" for key in dict.fromkeys(keys)]


def are_keys(values: Sequence[str]) -> bool:
    """Whether the values of a column are codes, numbers or dates that tell its rows apart.

    Numbers are keys if they have equally many digits, three or more, and are no years.
    """
    lengths = {len(value) for value in values}
    of_digits = all(value.isdecimal() for value in values)
    return (
        len(values) > 1
        and len({*values}) == len(values)
        and all(_KEY.fullmatch(value) for value in values)
        and not (of_digits and (len(lengths) > 1 or min(lengths) < 3))
    )


def names_of_person(title: str) -> Iterator[str]:
    """The names by which a person goes whose row has this title: "Zając, Piotr", "Piotr Zając"."""
    if honorific := _HONORIFIC.match(title):
        yield (title := title[honorific.end() :])
    last, comma, first = title.partition(", ")
    if comma and _PERSON.fullmatch(whole := f"{first} {last}"):
        yield whole
    elif not comma and _PERSON.fullmatch(title):
        first, *_, last = title.split()
    else:
        return
    yield from (first.split()[0], last, f"{first[0]}. {last}", f"{last} {first[0]}")


def title_parts(title: str) -> Iterator[str]:
    """The parts of a title that may be names by themselves."""
    head = title.partition(HEADING_JOINT)[0].strip()
    if _STEM.fullmatch(head) and (head.islower() or not head.replace("-", "").isalpha()):
        code = _STEM_CODE.match(head)
        if code:
            yield code[0]
            head = head[code.end() :]
        yield " ".join(re.split(r"[-_]+", head)).strip()
        return
    if bracket := _BRACKET.search(head):
        if _ABBREVIATION.fullmatch(bracket[1]):
            yield bracket[1]
        head = head[: bracket.start()]
    for part in _JOINT.split(_SECTION.split(head)[0]):
        words = part.split()
        if len(words) <= _MOST_WORDS and words[:1] not in (["A"], ["An"], ["a"], ["an"]):
            yield part
        for code in _CODE.finditer(part):
            if _ORDINAL.fullmatch(code[0]):
                continue
            yield code[0]
            rest = part[code.end() :].strip(" :-\u2013\u2014")
            if not code.start() and rest:
                yield rest
