"""Codes, dates, times, numbers and letters that are written in more than one way.

`notations` gives further words beside those of `text.terms`, the same for every way to write a
thing: "5 March 2031" and "05.03.2031" both have "2031-03-05", "VLV3391" has the parts of
"VLV-3391", and that has the joined form. Ordinary words have none. They are words before stemming.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wye.backends.text import folded

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTH_NUMBERS = {
    **{name[:3]: number for number, name in enumerate(_MONTHS, start=1)},
    **{name: number for number, name in enumerate(_MONTHS, start=1)},
    "sept": 9,
}


def _any_of(words: Iterable[str]) -> str:
    """A pattern of words in lower or upper case or capitalised, the longest first.

    `re` tells a few first letters apart fast, but not if it ignores case itself.
    """
    by_first: dict[str, list[str]] = {}
    cases = {case for one in words for case in (one, one.upper(), one.capitalize())}
    for case in sorted(cases, key=lambda case: (-len(case), case)):
        by_first.setdefault(case[0], []).append(re.escape(case[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(by_first[first])})" for first in by_first)


_NAME_OF_MONTH = _any_of(_MONTH_NUMBERS)
_MONTH = rf"(?:{_NAME_OF_MONTH})\b\.?"
_MONTH_START = f"(?:{_any_of(name[:3] for name in _MONTHS)})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
_ORDINAL = "(?:st|nd|rd|th|ST|ND|RD|TH)"
_YEAR = r"[12][0-9]{3}"
_DATES = (
    rf"(?P<ymd>\b{_YEAR}([-/.])(?:0?[1-9]|1[0-2])\2{_DAY}(?![0-9]))",
    rf"(?P<numeric>\b{_DAY}([-/.]){_DAY}\4(?:{_YEAR}|[0-9][0-9])(?![0-9.][0-9]|[0-9]))",
    rf"(?P<dmy>\b{_DAY}{_ORDINAL}?(?: of)?[ -]{_MONTH}(?:,?[ -]{_YEAR}\b)?)",
    rf"(?P<mdy>\b{_MONTH} {_DAY}{_ORDINAL}?\b(?:,? {_YEAR}\b)?)",
    rf"(?P<my>\b(?:{_NAME_OF_MONTH})\b[.,]?(?: of)? {_YEAR}\b)",
)
_TIMES = (
    r"(?P<half>(?<![0-9.,:])(?:1[0-2]|0?[1-9])(?:[:.][0-5][0-9])? ?[AaPp]\.?[Mm]\b)",
    r"(?P<clock>(?<![0-9.,:])(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?![0-9]))",
)
_SCALES = {"thousand": 3, "k": 3, "million": 6, "bn": 9, "billion": 9}
_UNIT_NAMES = (
    "mm millimetre millimeter|cm centimetre centimeter|km kilometre kilometer|m metre meter|"
    "kg kilogram kilogramme kilo|g gram gramme|l litre liter|ml millilitre milliliter|kw kilowatt|"
    "kwh|mwh|nm newtonmetre|v volt|bar|h hour hr|min minute|sec second|ms millisecond|mb megabyte|"
    "gb gigabyte|percent %|eur € euro|usd $ dollar|gbp £ pound"
)
_UNITS = {
    spelling: names.split()[0]
    for names in _UNIT_NAMES.split("|")
    for name in names.split()
    for spelling in (name, f"{name}s")
} | {"per cent": "percent"}
_SIGNS = "€$£"
_UNIT = _any_of([*_UNITS, "kWh", "kW", "MWh"])
_NUMBER = (
    rf"(?P<sign>[{_SIGNS}] ?)?(?<![\w.,-])"
    r"(?P<digits>[0-9]{1,3}(?:[,'\u2019 \u00a0\u202f][0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)"
    r"(?![.,]?[0-9])"
    rf"(?: ?(?P<scale>{_any_of(_SCALES)})\b)?(?:[ -]?(?P<unit>{_UNIT})(?!\w))?"
)
_PHRASES = re.compile("|".join((*_DATES, *_TIMES, _NUMBER)))
# The first digit of what may be more than a plain number: see what is around it.
_LATER = (
    rf"[-/.,:'\u2019][0-9]|[ \u00a0\u202f](?:[0-9]{{3}}(?![0-9])|(?:of )?{_MONTH_START})"
    rf"|[ -]?+(?:{_any_of([*_SCALES, *_UNITS, 'kWh', 'kW'])}|[AaPp]\.?[Mm])(?!\w)"
    rf"|{_ORDINAL}(?: of)?[ -]{_MONTH_START}|-{_MONTH_START}"
)
_MONTH_ENDS = {name[-3:] for name in _MONTH_NUMBERS}
_TRIGGER = re.compile(
    rf"[0-9](?<![0-9][0-9])(?:(?<=[ ][0-9])(?<=(?:{_any_of(_MONTH_ENDS)}|\w\w[.,]| of)[ ][0-9])()"
    rf"|(?:(?<=[{_SIGNS}][0-9])|(?<=[{_SIGNS}] [0-9]))()|[0-9]*+(?={_LATER}))"
)
_MONTH_BEFORE = re.compile(rf"\b(?:{_NAME_OF_MONTH})\b[.,]?(?: of)? $")
_SIGN_BEFORE = re.compile(rf"[{_SIGNS}] ?$")
_SPACE = re.compile(r"\s")
_LONGEST_MONTH = len("September, of ")
_DIGIT = re.compile("[0-9]")
_DIGITS = re.compile("[0-9]+")
_SEPARATORS = re.compile("[^0-9.]")
_DATE_PARTS = re.compile(r"[0-9]+|[^\W\d_]{3,}")

# A sign of a code: a letter after a digit, a capital or a hyphen in a word, an umlaut. This and
# `_TRIGGER` begin with a set of rare characters, which `re` finds ten times faster than words.
_UMLAUTS = "äöüøåÄÖÜØÅ"
_MARKS, _ASCII_MARKS = (
    re.compile(
        rf"[A-Z0-9_.\-{letters}](?:(?<=[a-z][A-Z])|(?<=\w[._-])(?=\w)|(?<=[^\W\d][0-9])"
        rf"|(?<=[0-9])(?=[^\W\d_])(?!(?:s|{_ORDINAL})\b)|(?<=[_{letters}]))"
    )
    for letters in (_UMLAUTS, "")
)
_COMPOUND = re.compile(r"\w+(?:[.\-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_RUN = re.compile("[a-z]+|[0-9]+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HUMPED = re.compile(r"^[^\W_]*[a-z][A-Z][^\W_]*$")
_ORDINARY = re.compile(rf"[0-9]+(?:s|{_ORDINAL})?")
_LEAST_HUMP = 4
_MOST_PARTS = 8
_SHORTEST = 4
"""Shorter words are not split between letters and digits: "v3", "H2O"."""
_DIGRAPHS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
    | {"Ä": "ae", "Ö": "oe", "Ü": "ue", "Ø": "oe", "Å": "aa"}
)
_UMLAUT = re.compile(f"[{_UMLAUTS}]")
_IS_YEAR = re.compile(r"1[0-9]{3}|20[0-9][0-9]")
_PLURAL = re.compile(r"[ -][a-z]+s\b")
_INTRODUCED = re.compile(
    r"(?:#|\b(?:bug|bus|case|code|error|flight|form|id|invoice|issue|item|line|model|no|number|"
    r"order|part|port|pr|request|room|ticket)[.:]? ?)$"
)
_TIME_AFTER = re.compile(r"[ T,]+[0-9]{1,2}:[0-9]{2}")
_LEAST_DIGITS = 3
_REMEMBERED = 2**17
_LONGEST = 64
"""Longer pieces are no codes, but data in some encoding."""


def notations(text: str) -> list[str]:
    """Further words of a text in a normal form, each once; none for most texts.

    They are folded, and in no particular order except that it is always the same.
    """
    keys: dict[str, None] = {}
    end = 0
    for mark in (_ASCII_MARKS if text.isascii() else _MARKS).finditer(text):
        if (at := mark.start()) >= end:
            start = 1 + max(text.rfind(space, end, at) for space in " \n\t")
            space = _SPACE.search(text, at)
            end = space.start() if space else len(text)
            for piece in text[max(start, 0) or 0 : end].split():
                keys.update(_of_piece(piece))
    for phrase in phrases(text):
        for key in _of_phrase(phrase):
            keys[key] = None
    return [*keys]


def digraphs(text: str) -> dict[str, str]:
    """Words with an umlaut as written without one, such as "koebel" -> the folded word "kobel"."""
    words = re.findall(r"[^\W_]+", text) if _UMLAUT.search(text) else ()
    return {
        folded(word.translate(_DIGRAPHS)): folded(word) for word in words if _UMLAUT.search(word)
    }


_KNOWN: dict[str, dict[str, None]] = {}
"""Keys of short pieces of texts."""


def phrases(text: str) -> Iterator[re.Match[str]]:
    """Dates, times and numbers; plain numbers are left out.

    `re` would try every form at every character; here it does so where a digit has a sign of one.
    """
    end = 0
    for trigger in _TRIGGER.finditer(text):
        start = trigger.start()
        if start < end:
            continue
        match = None
        if trigger.lastindex:
            sign = (_MONTH_BEFORE, _SIGN_BEFORE)[trigger.lastindex - 1]
            before = sign.search(text, max(end, start - _LONGEST_MONTH), start)
            match = _PHRASES.match(text, before.start()) if before else None
        if match or (match := _PHRASES.match(text, start)):
            end = match.end()
            yield match


@dataclass(frozen=True, slots=True)
class Code:
    """Something in a question that is written like an identifier, or a day.

    Attributes:
        text: The code as in the question.
        keys: Words before stemming of which a passage that says the code has one: the joined form,
            or the days that a date may be.
        parts: Its parts, which may be apart in a passage; empty for a day.
    """

    text: str
    keys: tuple[str, ...]
    parts: tuple[str, ...] = ()


def codes_in(question: str) -> list[Code]:
    """The codes and the days in a question.

    A number is a code if it has three digits or more, is no year unless a word such as "order"
    introduces it, and counts nothing: neither a unit nor a plural follows. A day with a time, as
    in a line of a log, is none.
    """
    codes, others = [], list[tuple[int, int]]()
    shouts = question.isupper() and len(question.split()) > 1
    for match in phrases(question):
        if match["digits"] is None:
            others.append(match.span())
            is_time = match["half"] or match["clock"] or _TIME_AFTER.match(question, match.end())
            dates = [] if is_time else _dates(match)
            if days := tuple(date.day_key for date in dates if date.year and date.day):
                codes.append(Code(match[0], days))
        elif not match[0].isdecimal():
            others.append(match.span())
    for match in _COMPOUND.finditer(question):
        if any(start < match.end() and match.start() < end for start, end in others):
            continue
        compound, parts = match[0], _PART.findall(folded(match[0]))
        if compound.isdecimal():
            if _is_number_of_a_thing(compound, question[: match.start()], question[match.end() :]):
                codes.append(Code(compound, (compound,)))
        elif _is_code(compound, parts) and not (shouts and not _DIGIT.search(compound)):
            key = _joined(compound, parts) or "".join(parts)
            humps = _HUMP.findall(compound) if is_camel(compound) else []
            runs = [folded(hump) for hump in humps] or _RUN.findall(" ".join(parts))
            codes.append(Code(compound, (key,), tuple(runs)))
    return codes


def _is_number_of_a_thing(number: str, before: str, after: str) -> bool:
    if len(number) < _LEAST_DIGITS or _PLURAL.match(after):
        return False
    return not _IS_YEAR.fullmatch(number) or bool(_INTRODUCED.search(before.lower()))


def _is_code(compound: str, parts: list[str]) -> bool:
    """Whether a compound is written like E-9140, W-TRM, lynx.cache_on or parseBankStatement."""
    has_digits = [part for part in parts if _DIGIT.search(part) and not _ORDINARY.fullmatch(part)]
    numbers = [part for part in parts if part.isdecimal()]
    if has_digits and len(compound) > 2:  # letters and digits in one word
        return True
    if len(parts) == 1:
        return is_camel(compound)
    if numbers:
        is_quantity = parts[0] in numbers and len(numbers) < len(parts)
        has_year = any(_IS_YEAR.fullmatch(part) for part in numbers) and compound.islower()
        is_all = len(numbers) == len(parts) and not _joined(compound, parts)
        return not is_quantity and not has_year and not is_all
    if "_" in compound or is_camel(compound):
        return True
    if "." in compound:
        return compound.islower() and min(map(len, parts)) > 1
    return compound.isupper()


def _of_piece(piece: str) -> dict[str, None]:
    known = _KNOWN.get(piece)
    if known is None:
        known = dict.fromkeys(piece_keys(piece))
        if len(_KNOWN) < _REMEMBERED and len(piece) <= _LONGEST:
            _KNOWN[piece] = known
    return known


def piece_keys(piece: str) -> Iterator[str]:
    """The joined forms and the parts of the codes in a piece of text without spaces."""
    if len(piece) <= _LONGEST:
        for compound in _COMPOUND.findall(piece):
            yield from _of_compound(compound)


def _of_compound(compound: str) -> Iterator[str]:
    if _UMLAUT.search(compound):
        yield from _PART.findall(folded(compound.translate(_DIGRAPHS)))
    words = _PART.findall(compound)
    if joined := _joined(compound, [folded(word) for word in words]):
        yield joined
    for word in words:
        yield from _parts(word)


def _joined(compound: str, parts: list[str]) -> str:
    """A compound as one word; "" if it is one, or a number, a range of years or an abbreviation."""
    if not 1 < len(parts) <= _MOST_PARTS:
        return ""
    if all(part.isdigit() for part in parts):
        if "." in compound:
            return ".".join(parts) if len(parts) > 2 and "-" not in compound else ""
        is_range = len(parts) == 2 and len(parts[0]) == 4
        return "" if is_range else "".join(parts)
    is_code = "_" in compound or any(part.isdigit() for part in parts)
    if "." in compound and not is_code and min(map(len, parts)) < 2:
        return ""
    return "".join(parts)


def _parts(word: str) -> Iterator[str]:
    """The parts of a word in camel case, or with letters and digits."""
    if len(word) < _SHORTEST or word.isdigit() or _ORDINARY.fullmatch(word):
        return
    if is_camel(word):
        yield from (part.casefold() for part in _HUMP.findall(word))
    if _DIGIT.search(word):
        runs = _RUN.findall(folded(word))
        if 1 < len(runs) <= _MOST_PARTS // 2:
            yield from (run for run in runs if len(run) > 1)


def is_camel(word: str) -> bool:
    """Whether a word is like parseBankStatement or LedgerService, not like McDonald or iPhone."""
    humps = _HUMP.findall(word)
    if not (1 < len(humps) <= _MOST_PARTS and word.isascii() and _HUMPED.search(word)):
        return False
    if word[0].islower():
        return len(humps[0]) > 1 and humps[1][0].isupper()
    return len(humps) > 2 or all(len(hump) >= _LEAST_HUMP for hump in humps)


def _of_phrase(match: re.Match[str]) -> Sequence[str]:
    if match["digits"]:
        return _number(match)
    if match["half"] or match["clock"]:
        return (_time(match[0].lower()),)
    return [key for date in _dates(match) for key in date.keys]


class Date(NamedTuple):
    """A day or a month; the year is 0 if it is not given, the day if it is a month."""

    year: int
    month: int
    day: int

    @property
    def day_key(self) -> str:
        """The day as 2031-03-05."""
        return f"{self.year}-{self.month:02}-{self.day:02}"

    @property
    def keys(self) -> list[str]:
        """The month, the day without its year, and the day."""
        year, month, day = self
        keys = [f"{year}-{month:02}"] if year else []
        if day:
            keys.append(f"--{month:02}-{day:02}")
            if year:
                keys.append(f"{year}-{month:02}-{day:02}")
        return keys


def _dates(match: re.Match[str]) -> list[Date]:
    """The dates that a match of `_PHRASES` may be: two for 3/5/2031."""
    parts = _DATE_PARTS.findall(match[0])
    if match["ymd"]:
        year, month, day = map(int, parts)
        return [Date(year, month, day)]
    if match["numeric"]:
        first, second, year = map(int, parts)
        year += 0 if year >= 100 else 2000 if year < 70 else 1900
        pairs = [(first, second)] if "." in match[0] else [(first, second), (second, first)]
        return [
            Date(year, month, day) for day, month in dict.fromkeys(pairs) if month <= len(_MONTHS)
        ]
    month = next(filter(None, map(_MONTH_NUMBERS.get, map(str.lower, parts))))
    numbers = [int(part) for part in parts if part.isdecimal()]
    if match["my"]:
        return [Date(numbers[0], month, 0)]
    return [Date(numbers[1] if len(numbers) > 1 else 0, month, numbers[0])]


def _time(written: str) -> str:
    """A time as "14:30"; "2 pm" is "14:00"."""
    hour, minute = ([int(part) for part in _DIGITS.findall(written)] + [0])[:2]
    if "m" in written:
        hour = hour % 12 + 12 * ("p" in written)
    return f"{hour:02}:{minute:02}"


def _number(match: re.Match[str]) -> Sequence[str]:
    """A number without separators and scale, if it has any, and with its unit, if it has one."""
    digits, scale_name, unit = match["digits"], match["scale"], match["unit"] or match["sign"]
    if digits.isdecimal() and not scale_name and not unit:
        return ()
    whole, _, fraction = _SEPARATORS.sub("", digits).partition(".")
    scale = _SCALES[scale_name.lower()] if scale_name else 0
    fraction = fraction.rstrip("0")
    whole, fraction = whole + fraction[:scale].ljust(scale, "0"), fraction[scale:]
    number = ((whole.lstrip("0") or "0") if scale else whole) + (f".{fraction}" if fraction else "")
    keys = [number] if number != digits else []
    return [*keys, number + _UNITS[unit.strip().lower()]] if unit else keys
