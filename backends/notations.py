"""What is written in more than one way: dates, times, numbers, codes and umlauts.

Beside its words, a text has notations, further words that are the same for every way to write such
a thing: "5 March 2031" and "05.03.2031" both have "2031-03-05", "14:30" is "2.30 pm", "1.25
million" is "1,250,000". "VLV3391" has the parts of "VLV-3391", and that has the joined form.
Ordinary words have none.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import chain, pairwise
from typing import NamedTuple

from wye.backends.text import LONGEST_PIECE, OfPieces, folded

_NAMES = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTHS = {
    spelling: number for number, name in enumerate(_NAMES, start=1) for spelling in (name, name[:3])
} | {"sept": 9}
_GERMAN = {
    **{"januar": 1, "februar": 2, "märz": 3, "maerz": 3, "mrz": 3, "mai": 5, "juni": 6, "juli": 7},
    **{"oktober": 10, "okt": 10, "dezember": 12, "dez": 12},
}
_MONTHS |= _GERMAN
_TEENS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth"),
    *("seventeenth", "eighteenth", "nineteenth", "twentieth"),
)
_NTH = {
    name: number
    for number, name in enumerate(
        (*_TEENS, *(f"twenty-{name}" for name in _TEENS[:9]), "thirtieth", "thirty-first"), start=1
    )
}
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


def _any_of(words: Iterable[str]) -> str:
    """A pattern of words in small letters, in capitals or capitalised, the longest first.

    `re` tells a few first letters apart fast, but not if it ignores case itself.
    """
    by_first: dict[str, list[str]] = {}
    cases = {case for word in words for case in (word, word.upper(), word.capitalize())}
    for case in sorted(cases, key=lambda case: (-len(case), case)):
        by_first.setdefault(re.escape(case[0]), []).append(re.escape(case[1:]))
    branches = (f"{first}(?:{'|'.join(ends)})" for first, ends in by_first.items())
    return f"(?:{'|'.join(branches)})"


_SIGNS = "€$£"
_ORDINAL = (
    rf"(?:st|nd|rd|th|ST|ND|RD|TH|\.(?= (?:{_any_of(_GERMAN)}|{_any_of(_NAMES)} [12][0-9]{{3}})\b))"
)
_UNIT = _any_of([*_UNITS, "kWh", "kW", "MWh"])
_AFTER = _any_of([*_MONTHS, *_SCALES, *_UNITS, "kWh", "kW", "MWh", "am", "pm", "a.m", "p.m"])
_MONTH = rf"(?P<name>{_any_of(_MONTHS)})\b"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
_YEAR = r"(?P<year>[12][0-9]{3})"
_DATES = (
    rf"\b(?P<day>{_DAY}){_ORDINAL}?(?: of)?[ -]{_MONTH}\.?(?:,?[ -]{_YEAR}\b)?",
    rf"\b{_YEAR}([-/.])(?P<month>0?[1-9]|1[0-2])\2(?P<day>{_DAY})(?![0-9])",
    rf"\b(?P<day>{_DAY})(?P<joint>[-/.])(?P<month>{_DAY})(?P=joint)"
    r"(?P<year>[12][0-9]{3}|[0-9][0-9])(?![0-9.][0-9]|[0-9])",
    rf"(?<![\w.-]){_YEAR}-(?P<month>0[1-9]|1[0-2])(?![\w-]|[./][0-9])",
)
_DATES_FROM_WORD = (
    rf"\b(?P<nth>{_any_of(_NTH)}) (?:of )?{_MONTH},? {_YEAR}\b",
    rf"\b{_MONTH}\.? (?P<day>{_DAY}){_ORDINAL}?\b(?:,? {_YEAR}\b)?",
    rf"\b{_MONTH}[.,]?(?: of)? {_YEAR}\b",
)
_TIMES = (
    r"(?<![0-9.,:])(?P<hour>1[0-2]|0?[1-9])(?:[:.](?P<minute>[0-5][0-9]))? ?"
    r"(?P<half>[AaPp])\.?[Mm]\b",
    r"(?<![0-9.,:])(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])(?![0-9])",
)
_NUMBERS = (
    rf"(?P<sign>[{_SIGNS}] ?)?(?<![\w.,-])(?P<digits>[0-9]{{1,3}}(?:[,'\u2019 \u00a0\u202f]"
    r"[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)(?![.,]?[0-9])"
    rf"(?: ?(?P<scale>{_any_of(_SCALES)})\b)?(?:[ -]?(?P<unit>{_UNIT})(?!\w))?",
)
# The first digit of a number that may be more than a plain one: a month or a sign is before it, or
# something of a date, a time, a longer number or a unit follows.
_TRIGGER = re.compile(
    rf"[0-9](?<![0-9][0-9])(?:(?<= [0-9])(?<=(?:{_any_of({name[-3:] for name in _MONTHS})}|"
    rf"\w\w[.,]| of) [0-9])|(?<=[{_SIGNS}][0-9])|(?<=[{_SIGNS}] [0-9])|[0-9]*+"
    r"(?=[-/.,:'\u2019][0-9]|[ \u00a0\u202f][0-9]{3}(?![0-9])"
    rf"|{_ORDINAL}?(?: of)?[ -]?{_AFTER}(?!\w)))"
)
_BEFORE = re.compile(
    rf"(?:(?:\b{_any_of(_NTH)} (?:of )?)?\b{_any_of(_MONTHS)}\b[.,]?(?: of)? |[{_SIGNS}] ?)$"
)
_LONGEST_BEFORE = len("twenty-seventh of September, of ")


class Notation(NamedTuple):
    """A date, a time or a number in a text.

    Attributes:
        keys: Words for it in a normal form: a month as 2031-03 and --03, a day as 2031-03-05 and
            --03-05, a time as 14:30, a number without separators and scale, and with its unit.
    """

    start: int
    end: int
    keys: Sequence[str]
    days: tuple[str, ...] = ()  # the days that it may be, two for 3/5/2031

    def overlaps(self, other: "Notation") -> bool:
        """Whether they share a character."""
        return self.start < other.end and other.start < self.end


def phrases(text: str) -> Iterator[Notation]:
    """Dates, times and numbers; plain numbers are left out.

    `re` would try every form at every character; here it does so where a digit has a sign of one.
    """
    end = 0
    for trigger in _TRIGGER.finditer(text):
        start = trigger.start()
        if start < end:
            continue
        before = _BEFORE.search(text, max(end, start - _LONGEST_BEFORE), start)
        phrase = (before and phrase_at(text, before.start())) or phrase_at(text, start)
        if phrase:
            end = phrase.end
            if phrase.keys:
                yield phrase


def months_in(question: str) -> list[str]:
    """Keys of the months that a question names without a day or a year: "in April" is --04."""
    return [f"--{_MONTHS[match['name'].lower()]:02}" for match in _BARE_MONTH.finditer(question)]


_BARE_MONTH = re.compile(
    rf"\b(?:in|during|of|since|until|till|by|before|after|last|next|this|early|late|mid|every)[ -]"
    rf"{_MONTH}(?![.,]? ?(?:of )?[0-9])"
)


def phrase_at(text: str, start: int) -> Notation | None:
    """The date, time or number that starts at a character."""
    is_named = text[start].isalpha()
    for form, read in _NAMED_MONTH if is_named else _FORMS:
        if match := form.match(text, start):
            return read(match)
    return None


def _date(match: re.Match[str]) -> Notation:
    of = match.groupdict()
    year, name = of["year"] or "", of.get("name")
    day = int(of.get("day") or 0) or _NTH.get((of.get("nth") or "").lower(), 0)
    if len(year) == 2:
        year = f"{'20' if year < '70' else '19'}{year}"
    if name:
        pairs = [(_MONTHS[name.lower()], day)]
    else:
        pairs = [(int(of["month"]), day)]
        if of.get("joint") in ("-", "/") and day != pairs[0][0]:
            pairs.append(pairs[0][::-1])
    keys, days = [], []
    for month, day in pairs:
        if month > len(_NAMES):
            continue
        if year:
            keys.append(f"{year}-{month:02}")
        if day:
            keys.append(f"--{month:02}-{day:02}")
        if year and day:
            days.append(f"{year}-{month:02}-{day:02}")
        keys.append(f"--{month:02}")
    return Notation(*match.span(), [*keys, *days], tuple(days))


def _time(match: re.Match[str]) -> Notation:
    """A time as "14:30"; "2 pm" is "14:00"."""
    hour, half = int(match["hour"]), match.groupdict().get("half")
    if half:
        hour = hour % 12 + 12 * (half in "pP")
    return Notation(*match.span(), [f"{hour:02}:{match['minute'] or '00'}"])


def _number(match: re.Match[str]) -> Notation:
    """A number without separators and scale, if it has any, and with its unit, if it has one."""
    digits, scale, unit = match["digits"], match["scale"], match["unit"] or match["sign"]
    whole, _, fraction = re.sub("[^0-9.]", "", digits).partition(".")
    zeros, fraction = _SCALES[scale.lower()] if scale else 0, fraction.rstrip("0")
    whole, fraction = whole + fraction[:zeros].ljust(zeros, "0"), fraction[zeros:]
    if scale:
        whole = whole.lstrip("0") or "0"
    number = f"{whole}.{fraction}" if fraction else whole
    keys = [number] if number != digits else []
    if unit:
        keys.append(number + _UNITS[unit.strip().lower()])
    return Notation(*match.span(), keys)


_NAMED_MONTH, _FORMS = (
    [(re.compile(pattern), read) for patterns, read in table for pattern in patterns]
    for table in (
        [(_DATES_FROM_WORD, _date)],
        [(_DATES, _date), (_TIMES, _time), (_NUMBERS, _number)],
    )
)
"""Each form of what begins with the name of a month, and of what does not, and how it is read."""


def notations(text: str) -> list[str]:
    """Further words of a text in a normal form, each once; none for most texts.

    They are folded and not stemmed. Days within a period are marked with `WITHIN`.
    """
    of_pieces = chain.from_iterable(map(_OF_PIECES.__getitem__, text.split()))
    in_text = [*phrases(text)] if _DIGIT.search(text) else []
    further = [f"{WITHIN}{key}" for key in days_within(text, in_text)]
    for number in grouped_numbers(text, in_text) if _DIGIT.search(text) else ():
        further += number.keys
    return [*dict.fromkeys(chain(of_pieces, *(phrase.keys for phrase in in_text), further))]


# Starts with a country's letters and two digits: groups of four. Or with a plus or a zero: digits.
_ACCOUNT = (
    r"\b[A-Z]{2}[0-9]{2}[ \u00a0]?[0-9A-Z]{4}(?:[ \u00a0]?(?=[A-Z]*[0-9])[0-9A-Z]{4}){2,6}"
    r"(?:[ \u00a0]?[0-9A-Z]{1,3})?\b"
)
_PHONE = (
    r"(?<![\w.,/-])(?:\+[0-9]{1,3}(?: ?[0-9])?|\(?0)[0-9]{0,14}\)?"
    r"(?:(?: ?[/-] ?| ?\(0\) ?| ?\(|[ .\u00a0\u202f])[0-9]{2,14}\)?){0,7}(?![\w-]|[.,:][0-9])"
)
_GROUPED = re.compile(f"(?P<account>{_ACCOUNT})|{_PHONE}")
_PHONE_DIGITS = range(8, 16)
_TAIL = 8


def grouped_numbers(text: str, in_text: Sequence[Notation]) -> Iterator[Notation]:
    """Numbers of accounts and telephones, which are written with and without blanks.

    The key of an account's number has no blanks. That of a telephone's is its last 8 digits after a
    plus, so "+49 (0)30 1234-5678" is "030/12345678". What is in a date or a time is none.
    """
    timed = [each for each in in_text if any("-" in key or ":" in key for key in each.keys)]
    for match in _GROUPED.finditer(text):
        start, end = match.span()
        if match["account"]:
            yield Notation(start, end, [re.sub(r"\s", "", match[0]).lower()])
            continue
        digits = re.sub("[^0-9]", "", match[0].replace("(0)", ""))
        number = Notation(start, end, [f"+{digits[-_TAIL:]}"])
        if len(digits) in _PHONE_DIGITS and not any(map(number.overlaps, timed)):
            yield number


IS_DAY = re.compile(r"(?:\d{4}|-)-\d\d-\d\d")  # matches the key of a day, with or without its year
WITHIN = "~"  # begins the key of a day that a text does not say, but has a period with
_UNTIL = re.compile(r"\b(?:to|until|till|through|ends?):? ?$|^ ?[\u2013-] ?$", re.IGNORECASE)
_LONGEST_BETWEEN = 60
_MOST_DAYS = 31


def days_within(text: str, in_text: Sequence[Notation]) -> Iterator[str]:
    """Keys of all days of each period in a text, with and without the year, by its notations.

    A period is two days, a month apart at most, with a word for its end before the second: "from 3
    March 2031 to 9 March 2031", or in a row of a table, "2031-03-03; week: 10; to: 2031-03-09".
    """
    for first, last in pairwise(in_text):
        between = text[first.end : last.start]
        if not (len(first.days) == len(last.days) == 1 and len(between) <= _LONGEST_BETWEEN):
            continue
        try:
            start, end = (date.fromisoformat(each.days[0]) for each in (first, last))
        except ValueError:  # such as 31 April
            continue
        if (end - start).days <= _MOST_DAYS and _UNTIL.search(between):
            for day in range((end - start).days + 1):
                key = str(start + timedelta(day))
                yield from (key, f"-{key[4:]}")


_COMPOUND = re.compile(r"\w+(?:[.\-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_RUN = re.compile("[a-z]+|[0-9]+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HUMPED = re.compile(r"[^\W_]*[a-z][A-Z][^\W_]*")
_DIGIT = re.compile("[0-9]")
_ORDINARY = re.compile(r"[0-9]+(?:s|st|nd|rd|th)?", re.IGNORECASE)
_LEAST_HUMP = 4
_MOST_PARTS = 8
_SHORTEST = 4  # shorter words are not split between letters and digits: "v3", "H2O"
_DIGRAPHS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
    | {"Ä": "ae", "Ö": "oe", "Ü": "ue", "Ø": "oe", "Å": "aa"}
)
_UMLAUT = re.compile("[äöüøåÄÖÜØÅ]")
# A sign of a code: a capital, a digit or a joint inside a word.
_MARK = re.compile(r"[a-z][A-Z]|\w[._\-]\w|[^\W\d][0-9]|[0-9][^\W\d]|[äöüøåÄÖÜØÅ]")


def notations_of(piece: str) -> Sequence[str]:
    """The joined forms and the parts of the codes in a piece, and its words without umlauts."""
    if len(piece) > LONGEST_PIECE or not _MARK.search(piece):
        return ()
    further: list[str] = []
    for compound in _COMPOUND.findall(piece):
        if _UMLAUT.search(compound):
            further += _PART.findall(folded(compound.translate(_DIGRAPHS)))
        words = _PART.findall(compound)
        if joined := _joined(compound, [folded(word) for word in words]):
            further.append(joined)
        for word in words:
            further += _parts(word)
    return further


_OF_PIECES = OfPieces(notations_of)


def digraphs(text: str) -> dict[str, str]:
    """Words with an umlaut as written without one, such as "koebel" -> the folded word "kobel"."""
    return {
        folded(word.translate(_DIGRAPHS)): folded(word)
        for word in _PART.findall(text)
        if _UMLAUT.search(word)
    }


def _joined(compound: str, parts: list[str]) -> str:
    """A compound as one word; "" if it is one, or a number, a range of years or an abbreviation."""
    if not 1 < len(parts) <= _MOST_PARTS:
        return ""
    if all(part.isdigit() for part in parts):
        if "." in compound:
            return ".".join(parts) if len(parts) > 2 and "-" not in compound else ""
        is_range = len(parts) == 2 and _IS_YEAR.fullmatch(parts[0]) and len(parts[1]) in (2, 4)
        return "" if is_range else "".join(parts)
    is_code = "_" in compound or any(part.isdigit() for part in parts)
    if "." in compound and not is_code and min(map(len, parts)) < 2:
        return ""
    return "".join(parts)


def _parts(word: str) -> list[str]:
    """The parts of a word in camel case, or with letters and digits."""
    if len(word) < _SHORTEST or _ORDINARY.fullmatch(word):
        return []
    parts = [part.casefold() for part in _HUMP.findall(word)] if _is_camel(word) else []
    if _DIGIT.search(word):
        runs = _RUN.findall(folded(word))
        parts += [run for run in runs if len(run) > 1] if len(runs) <= _MOST_PARTS // 2 else []
    return parts


def _is_camel(word: str) -> bool:
    """Whether a word is like parseBankStatement or LedgerService, not like McDonald or iPhone."""
    if not (word.isascii() and _HUMPED.fullmatch(word)):
        return False
    humps = _HUMP.findall(word)
    if not 1 < len(humps) <= _MOST_PARTS:
        return False
    if word[0].islower():
        return len(humps[0]) > 1 and humps[1][0].isupper()
    return len(humps) > 2 or all(len(hump) >= _LEAST_HUMP for hump in humps)


@dataclass(frozen=True, slots=True)
class Code:
    """Something in a question that is written like an identifier, or a day.

    Attributes:
        keys: Words before stemming of which a passage that says the code has one: the joined form,
            or the days that a date may be.
    """

    text: str  # the code as in the question
    keys: tuple[str, ...]
    parts: tuple[str, ...] = ()  # its parts, which may be apart in a passage; empty for a day


_IS_YEAR = re.compile(r"1[0-9]{3}|20[0-9][0-9]")
_PLURAL = re.compile(r"[ -][a-z]+s\b")
_INTRODUCED = re.compile(
    r"(?:#|\b(?:bug|bus|case|code|error|flight|form|id|invoice|issue|item|line|model|no|number|"
    r"order|part|port|pr|request|room|ticket)[.:]? ?)$"
)
_TIME_AFTER = re.compile(r"[ T,]+[0-9]{1,2}:[0-9]{2}")
_LEAST_DIGITS = 3
_AMOUNT = re.compile(r"(?<![\d.,'-])\d{5,}(?![\d.,'-])")


def codes_in(question: str) -> list[Code]:
    """The codes and the days in a question.

    A number is a code if it has three digits or more, is no year unless a word such as "order"
    introduces it, and counts nothing: neither a unit nor a plural follows; or if it has five digits
    or more, however it is written. A day with a time, as in a line of a log, is none.
    """
    codes, others = [], [*phrases(question)] if _DIGIT.search(question) else []
    shouts = question.isupper() and len(question.split()) > 1
    numbers = {(n.start, n.end): n for n in grouped_numbers(question, others)}
    grouped = [n for n in numbers.values() if not _COMPOUND.fullmatch(question, n.start, n.end)]
    codes += [Code(question[each.start : each.end], (*each.keys,)) for each in grouped]
    for phrase in others:
        text = question[phrase.start : phrase.end]
        if any(map(phrase.overlaps, grouped)):
            continue
        days = phrase.days or (*filter(IS_DAY.fullmatch, phrase.keys),)  # with a year, or without
        if days and not _TIME_AFTER.match(question, phrase.end):
            codes.append(Code(text, days))
        elif amount := _AMOUNT.search(" ".join([text, *phrase.keys])):
            codes.append(Code(text, (amount[0],)))
    for match in _COMPOUND.finditer(question):
        if any(map(Notation(*match.span(), ()).overlaps, chain(others, grouped))):
            continue
        compound, parts = match[0], _PART.findall(folded(match[0]))
        further = numbers[match.span()].keys if match.span() in numbers else ()
        if compound.isdecimal():
            if _is_number_of_a_thing(compound, question[: match.start()], question[match.end() :]):
                codes.append(Code(compound, (compound, *further)))
        elif _is_code(compound, parts) and not (shouts and not _DIGIT.search(compound)):
            key = _joined(compound, parts) or "".join(parts)
            if "_" in (setting := compound.rpartition(".")[2]) != compound:  # named by its path
                further = (*further, "".join(_PART.findall(folded(setting))))
            humps = _HUMP.findall(compound) if _is_camel(compound) else []
            runs = [folded(hump) for hump in humps] or _RUN.findall(" ".join(parts))
            codes.append(Code(compound, (key, *further), tuple(runs)))
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
        return _is_camel(compound)
    if numbers:
        is_quantity = parts[0] in numbers and len(numbers) < len(parts)
        has_year = any(_IS_YEAR.fullmatch(part) for part in numbers) and compound.islower()
        is_all = len(numbers) == len(parts) and not _joined(compound, parts)
        return not is_quantity and not has_year and not is_all
    if "_" in compound or _is_camel(compound):
        return True
    if "." in compound:
        return compound.islower() and min(map(len, parts)) > 1
    return compound.isupper()
