"""Names by which passages go besides their whole titles.

An encyclopaedia's titles are names. A company's are "Runbook: Lynx", "DR-12 Shore power", a path,
or the name of a row. Their parts, codes and a person's first name say as well what a passage is
about, if few passages share them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from wye.backends.text import FUNCTION_WORDS, HEADING_JOINT, entity_key, title_keys

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
_LABEL = re.compile(r"[^:;]{1,40}: ")
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
    wholes = [title_keys(title) for title in titles]
    whole = {key for keys in wholes for key in keys}
    parts: list[list[str]] = []
    shared: dict[str, set[str]] = defaultdict(set)
    for title, document, text in zip(titles, documents, texts, strict=True):
        of_row = is_row(text)
        keys = dict.fromkeys(map(entity_key, title_parts(title)))
        names = [key for key in keys if key and key not in whole and key not in FUNCTION_WORDS]
        parts.append(names)
        for key in names:
            shared[key].add(document)
        if of_row and _PERSON.fullmatch(title):
            first, *_, last = title.split()
            for word in (first, last):
                key = entity_key(word)
                if len(key) > 2 and key not in whole and word[0].isupper():
                    names.append(key)
                    shared[key].update((document, *_TWO))
    return [
        tuple(key for key in dict.fromkeys(names) if len(shared[key]) <= MOST_DOCUMENTS)
        for names in parts
    ]


_TWO = ("\0first", "\0second")
"""Count like documents, so that a single name that two people share is none."""


def is_row(text: str) -> bool:
    """Whether a text is the row of a table, such as "role: Welder; team: North"."""
    parts = text.partition("\n")[0].split("; ")
    return len(parts) > 1 and sum(_LABEL.match(part) is not None for part in parts) > 0.7 * len(
        parts
    )


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
