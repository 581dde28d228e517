"""Words of texts: tokens, which names are made of, terms, which BM25 counts, and codes.

A token keeps its case, and signs are tokens too. A term is a folded word without its plural ending.
Beside its words, a text has notations: further words that are the same for every way to write a
code or an umlaut (here), a date, a time or a number (`backends/notations.py`). "VLV3391" has the
parts of "VLV-3391", and that has the joined form. Ordinary words have none.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Literal

from wye.backends.notations import phrases

_SPACES = re.compile(r"\s+")
# Characters that are looked at together for one that can be seen; most texts begin with one.
_GLANCE = 256

_STRAIGHT = (
    ("\N{RIGHT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT DOUBLE QUOTATION MARK}", '"'),
    ("\N{RIGHT DOUBLE QUOTATION MARK}", '"'),
)
_EDGES = " \t\n\"'`.,;:!?()[]{}«»„"
PARENTHETICAL = re.compile(r"\s*\([^()]*\)\s*$")

# Words with inner apostrophes, full stops or hyphens stay whole, except for a possessive; any other
# sign is a token of its own. A combining accent belongs to its letter even where no precomposed
# character exists, as in the lower-case form of a dotted capital I.
_IN_WORD = r"[\w\u0300-\u036f]"
_TOKEN_WORD = rf"\w{_IN_WORD}*"
_TOKEN_ENDING = rf"'(?i:s)(?!{_IN_WORD})"
_TOKEN = re.compile(
    rf"{_TOKEN_ENDING}|{_TOKEN_WORD}(?:(?!{_TOKEN_ENDING})['.\-]{_TOKEN_WORD})*|[^\w\s]"
)

FUNCTION_WORDS = frozenset(
    """a about after all also an and any are as at be been before but by can could did do does for
    from had has have he her him his how i if in into is it its many me more most much my no not of
    off on one or other our out over 's she so some such than that the their them then there these
    they this those to under up us was we were what when where which while who whom whose why will
    with would you your""".split()  # noqa: SIM905 - words read better as words
)


def entity_key(surface: str) -> str:
    """The normalised form that surfaces of one entity share.

    Case, spaces, quotes, a possessive and a leading "the" do not count: "The Thames' " and
    "Thames" are one river. The article stays where nothing informative is left without it ("The
    Who"). The key is empty for a surface that has nothing else.
    """
    key = _SPACES.sub(" ", _plain(surface).casefold()).strip(_EDGES)
    key = key.removesuffix("'s").rstrip(_EDGES)
    if key.startswith("the "):
        bare = key.removeprefix("the ").lstrip(_EDGES)
        return bare if is_informative(bare) else key
    return key


_QUANTITIES = frozenset(
    """a about ago all almost an another around at average between by each earlier early end
    every few first following half in just last late later least less long many mid more most
    nearly next of off old one only or over past per previous same several short single six some
    than that the third this those to under up well whole two three four five seven eight nine
    ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
    thirty forty fifty sixty seventy eighty ninety dozen dozens hundred hundreds thousand
    thousands million millions billion quarter quarters roughly thirds acre acres cent cents
    cubic degrees dollars euros feet foot gram grams hectare hectares inch inches kg kilograms
    kilogrammes kilo kilos kilometer kilometers kilometre kilometres km knots litres meter
    meters metre metres mile miles mph nautical percent pounds square ton tonne tonnes tons yard
    yards annual century centuries daily day days decade decades hour hours minute minutes month
    months second seconds week weekend weekly weeks year yearly years afternoon evening morning
    night today tomorrow yesterday""".split()  # noqa: SIM905 - words read better as words
)


_NUMBER = re.compile(r"(?!\d{4}$)[\d.,]+|\W+")  # no year


def mention_key(surface: str) -> str:
    """The key of a named entity in a text; empty for a quantity or a time, which names nothing.

    "Less than seven metres" and "a week" share no thing between passages. Dates with a month, and
    years, stay.
    """
    key = entity_key(surface)
    words = tokenise(key)
    return "" if all(word in _QUANTITIES or _NUMBER.fullmatch(word) for word in words) else key


def is_informative(key: str, tokens: Sequence[str] | None = None) -> bool:
    """Whether a key has more than one character and more than function words.

    Args:
        tokens: The key's tokens, if they are known.
    """
    if len(key) < 2:
        return False
    return not FUNCTION_WORDS.issuperset(tokenise(key) if tokens is None else tokens)


HEADING_JOINT = " > "
"""Separates the headings in a chunk's title; the first is the document's title."""


def title_names(title: str) -> tuple[str, ...]:
    """The names in a title: the title itself, and without a final "(…)"; none if it is empty.

    Of a chunk's headings only the first is used, the document's title.
    """
    whole = title.partition(HEADING_JOINT)[0].strip()
    return tuple(name for name in dict.fromkeys((whole, PARENTHETICAL.sub("", whole))) if name)


def title_keys(title: str) -> tuple[str, ...]:
    """Entity keys of the names in a passage's title, each once."""
    keys = dict.fromkeys(entity_key(name) for name in title_names(title))
    return tuple(key for key in keys if key)


def tokenise(text: str) -> list[str]:
    """Tokens of a text, case kept."""
    plain = _plain(text)
    # Most names are letters and blanks alone: splitting at blanks is faster.
    if plain.isascii() and plain.replace(" ", "").isalnum():
        return plain.split()
    return _TOKEN.findall(plain)


def stretch(text: str, start: int, length: int) -> str:
    """The text of `length` tokens from token `start` on."""
    tokens = list(_TOKEN.finditer(_plain(text)))[start : start + length]
    return _plain(text)[tokens[0].start() : tokens[-1].end()]


def _plain(text: str) -> str:
    """The text with precomposed accented letters (NFC) and straight quotes."""
    if text.isascii():
        return text
    text = normalised(text, "NFC")
    for curly, straight in _STRAIGHT:
        text = text.replace(curly, straight)
    return text


def normalised(text: str, form: Literal["NFC", "NFKD"]) -> str:
    """A text in a normal form of Unicode; of a row of combining marks, the first 30 stay.

    Python's own function takes time that is quadratic in the length of such a row, seconds for
    32,000 marks. No language needs more than 30.

    Source: Unicode Standard Annex 15, "Stream-Safe Text Format".
    """
    if len(text) > _MARKS_IN_A_ROW:
        text = _row_of_marks().sub(_first_marks, text)
    return unicodedata.normalize(form, text)


_MARKS_IN_A_ROW = 30


@cache
def _row_of_marks() -> re.Pattern[str]:
    """Matches rows that may have too many marks.

    Only of the first 65,536 characters it knows which are marks: `re` is slow with sets of others.
    """
    marks = "".join(chr(code) for code in range(0x10000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}\U00010000-\U0010ffff]{{{_MARKS_IN_A_ROW + 1},}}")


def _first_marks(row: re.Match[str]) -> str:
    """A row without the marks that follow on 30 others."""
    characters, marks = [], 0
    for character in row[0]:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_IN_A_ROW:
            characters.append(character)
    return "".join(characters)


def starts_like_a_name(token: str) -> bool:
    """Whether a token begins with a capital letter or a digit."""
    return token[0].isupper() or token[0].isdigit()


# Chinese characters and Japanese kana are written without spaces, so each is a word of its own.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_UNSPACED_WORD = re.compile(rf"[{_UNSPACED}]")
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

# As _WORD for folded ASCII text, in a third of the time.
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_POSSESSIVE = re.compile(r"(?<=\w)'s\b")

_STOPWORDS = """
    a an and are as at be been being between both but by did do does for from had has have how if
    in into is it no not of on or same such than that the their then there these they this to was
    were what when where which who whom whose why will with
"""

STOPWORDS = tuple(_STOPWORDS.split())
"""English function and question words. Question words are rare in passages, so their idf is high
although they say nothing about the subject; leaving them out raises every measure."""

_FUNCTION_TERMS = frozenset(STOPWORDS)


def terms(text: str, stemmer: str = "s", stopwords: frozenset[str] = frozenset()) -> list[str]:
    """Terms of a text in order, repeats kept.

    Compatibility forms are unified (NFKD), case and accents are folded, and a possessive 's is
    dropped. Words are runs of letters and digits, so an identifier is split at its underscores; a
    Chinese character or a kana is a word of its own. Emoji and punctuation are not words.

    Args:
        stemmer: "s" or "none".
        stopwords: Words to leave out, compared before stemming.
    """
    words = words_before_stemming(text)
    content_words = [word for word in words if word not in stopwords] if stopwords else words
    return [singular(word) for word in content_words] if stemmer == "s" else content_words


def content_terms(text: str) -> list[str]:
    """Terms of a text without English function and question words."""
    return [*chain.from_iterable(map(_CONTENT.__getitem__, text.split()))]


def words_before_stemming(text: str) -> list[str]:
    """Folded words of a text, stop words and plurals among them."""
    return [*chain.from_iterable(map(_WORDS.__getitem__, text.split()))]


class _OfPieces(dict[str, tuple[str, ...]]):
    """What pieces of texts without blanks have; the first `_REMEMBERED` short ones are cached."""

    def __init__(self, read: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, piece: str) -> tuple[str, ...]:
        words = tuple(self._read(piece))
        if len(self) < _REMEMBERED and len(piece) <= _LONGEST:
            self[piece] = words
        return words


def plain_text(text: str) -> str:
    """A text folded, without possessive endings."""
    plain = folded(text)
    return _POSSESSIVE.sub("", plain) if "'s" in plain else plain


def split_words(plain: str) -> list[str]:
    """The words of a plain text."""
    return (_ASCII_WORD if plain.isascii() else _WORD).findall(plain)


_REMEMBERED = 2**17
_LONGEST = 64
"""Longer pieces have no codes, but data in some encoding."""
_WORDS = _OfPieces(lambda piece: split_words(plain_text(piece)))
_CONTENT = _OfPieces(lambda piece: terms(piece, "s", _FUNCTION_TERMS))


def folded(text: str) -> str:
    """A text without case, accents, strokes and ligatures: "Łódź" is "lodz", "Æsir" "aesir".

    Signs beyond ASCII become blanks, but for the apostrophe.
    """
    if text.isascii():
        return text.lower()
    # ASCII and other characters do not affect each other in folding.
    return _BEYOND_ASCII.sub(lambda run: _folded_run(run[0]), text.lower())


@lru_cache(4096)
def _folded_run(run: str) -> str:
    plain = normalised(run, "NFKD").casefold().translate(_WITHOUT_MARKS)
    return _SIGN.sub(" ", plain.replace("\u2019", "'"))


_SIGN = re.compile(r"[^\w\x00-\x7f]")


_BEYOND_ASCII = re.compile(rf"[^\x00-\x7f]{{1,{_LONGEST}}}")


class _WithoutMarks(dict[int, int | str | None]):
    """Translation table that drops combining marks; filled on demand."""

    def __missing__(self, code: int) -> int | str | None:
        replacement = None if unicodedata.combining(chr(code)) else code
        self[code] = replacement
        return replacement


_STROKES = str.maketrans("øłđħŧıðŋ", "oldhtidn")
_LIGATURES = str.maketrans({"æ": "ae", "œ": "oe", "þ": "th"})
_WITHOUT_MARKS = _WithoutMarks({**_STROKES, **_LIGATURES})


def singular(word: str) -> str:
    """The S stemmer: the first rule whose ending matches applies (Harman 1991, table 1)."""
    if len(word) <= 3 or word[-1] != "s":
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]


def is_blank(text: str) -> bool:
    """Whether a text has nothing to read: only spaces, invisible characters and loose marks."""
    unseen: set[str] = set()  # each character is looked up once, however long the text is
    for start in range(0, len(text), _GLANCE):
        new = set(text[start : start + _GLANCE]) - unseen
        kinds = map(unicodedata.category, new)
        if not all(kind in ("Cc", "Cf") or kind[0] in "MZ" for kind in kinds):
            return False
        unseen |= new
    return True


_REQUEST = re.compile(
    r"\W*(?:(?:please|kindly|okay|ok|hi|hello)\b,? +)*"
    r"(?:(?:can|could|would|will) you (?:please )?)?"
    r"(?:tell (?:me|us)(?: more)?(?: about)?|explain(?: to (?:me|us))?|describe|summari[sz]e"
    r"|(?:give|show|find)(?: me| us)(?: more)?|list(?! of)|name(?= (?:the|all|some|any|two|three) )"
    r"|do you know(?: if)?|i (?:would like|'d like|want|need) to know|should"
    r"|(?:can|could|would|may|might|must|shall)"
    r"(?= (?:i|we|you|he|she|it|they|one|the|an?|my|our|this|that|there)\b))\b",
    re.IGNORECASE,
)


def without_request(question: str) -> str:
    """A question without the request that it begins with: "Tell me about", "Can", "Please list".

    The whole question if it is nothing else.
    """
    request = _REQUEST.match(question)
    rest = question[request.end() :] if request else question
    return rest if any(map(str.isalpha, rest)) else question


def notations(text: str) -> list[str]:
    """Further words of a text in a normal form, each once; none for most texts.

    They are folded and not stemmed.
    """
    of_pieces = chain.from_iterable(map(notations_of, text.split()))
    in_phrases = phrases(text) if _DIGIT.search(text) else ()
    return [*dict.fromkeys(chain(of_pieces, *(phrase.keys for phrase in in_phrases)))]


_COMPOUND = re.compile(r"\w+(?:[.\-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_RUN = re.compile("[a-z]+|[0-9]+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HUMPED = re.compile(r"[^\W_]*[a-z][A-Z][^\W_]*")
_DIGIT = re.compile("[0-9]")
_ORDINARY = re.compile(r"[0-9]+(?:s|st|nd|rd|th)?", re.IGNORECASE)
_LEAST_HUMP = 4
_MOST_PARTS = 8
_SHORTEST = 4
"""Shorter words are not split between letters and digits: "v3", "H2O"."""
_DIGRAPHS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
    | {"Ä": "ae", "Ö": "oe", "Ü": "ue", "Ø": "oe", "Å": "aa"}
)


_UMLAUT = re.compile("[äöüøåÄÖÜØÅ]")
# A sign of a code: a capital, a digit or a joint inside a word.
_MARK = re.compile(r"[a-z][A-Z]|\w[._\-]\w|[^\W\d][0-9]|[0-9][^\W\d]|[äöüøåÄÖÜØÅ]")


def notations_of(piece: str) -> Sequence[str]:
    """The joined forms and the parts of the codes in a piece, and its words without umlauts."""
    if len(piece) > _LONGEST or not _MARK.search(piece):
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
        text: The code as in the question.
        keys: Words before stemming of which a passage that says the code has one: the joined form,
            or the days that a date may be.
        parts: Its parts, which may be apart in a passage; empty for a day.
    """

    text: str
    keys: tuple[str, ...]
    parts: tuple[str, ...] = ()


_IS_YEAR = re.compile(r"1[0-9]{3}|20[0-9][0-9]")
_PLURAL = re.compile(r"[ -][a-z]+s\b")
_INTRODUCED = re.compile(
    r"(?:#|\b(?:bug|bus|case|code|error|flight|form|id|invoice|issue|item|line|model|no|number|"
    r"order|part|port|pr|request|room|ticket)[.:]? ?)$"
)
_TIME_AFTER = re.compile(r"[ T,]+[0-9]{1,2}:[0-9]{2}")
_LEAST_DIGITS = 3


def codes_in(question: str) -> list[Code]:
    """The codes and the days in a question.

    A number is a code if it has three digits or more, is no year unless a word such as "order"
    introduces it, and counts nothing: neither a unit nor a plural follows. A day with a time, as
    in a line of a log, is none.
    """
    codes, others = [], [*phrases(question)] if _DIGIT.search(question) else []
    shouts = question.isupper() and len(question.split()) > 1
    for phrase in others:
        if phrase.days and not _TIME_AFTER.match(question, phrase.end):
            codes.append(Code(question[phrase.start : phrase.end], phrase.days))
    for match in _COMPOUND.finditer(question):
        if any(phrase.start < match.end() and match.start() < phrase.end for phrase in others):
            continue
        compound, parts = match[0], _PART.findall(folded(match[0]))
        if compound.isdecimal():
            if _is_number_of_a_thing(compound, question[: match.start()], question[match.end() :]):
                codes.append(Code(compound, (compound,)))
        elif _is_code(compound, parts) and not (shouts and not _DIGIT.search(compound)):
            key = _joined(compound, parts) or "".join(parts)
            humps = _HUMP.findall(compound) if _is_camel(compound) else []
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
