"""Words of texts: tokens, which names are made of, and terms, which BM25 counts.

A token keeps its case, and signs are tokens too. A term is a folded word without its plural ending.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Literal

_SPACES = re.compile(r"\s+")

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
    """Whether a key, with these tokens, has more than one character and than function words."""
    if len(key) < 2:
        return False
    return not FUNCTION_WORDS.issuperset(tokenise(key) if tokens is None else tokens)


HEADING_JOINT = " > "  # between the headings in a chunk's title; the first is the document's


def title_names(title: str) -> tuple[str, ...]:
    """The names in a title without headings: all of it, and without a final "(…)"."""
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
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

# Makes blanks of all that is in no word of a folded ASCII text, a tenth of the time of _WORD.
_ASCII_WORDS = bytes(byte if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256))
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

_ASKING = "wann warum welche welchem welchen welcher welches wem wen wer wessen wie wieso wo woher"
_GERMAN_WORDS = frozenset(
    f"""{_ASKING} ab als am an auch auf aus bei beim bis da das dem den der des die durch ein eine
    einem einen einer er es fur gibt hat haben ich ihr im in ist kann man mein meine mich mir mit
    muss nach nicht oder ob sich sie sind soll uber um und uns unser unsere unter viel viele vom von
    vor war waren was wenn werden wir wird wurde wurden zu zum zur""".split()
)
_BOTH = frozenset({"am", "an", "die", "in", "war", "was"})  # of English, too


@lru_cache(1024)
def german_words(question: str) -> frozenset[str]:
    """Folded German function and question words, if a question looks German; else none.

    It has more of them than of English ones, and asks with one or has three.
    """
    first, *_ = words = words_before_stemming(question) or [""]
    german, english = ({*words} & known - _BOTH for known in (_GERMAN_WORDS, FUNCTION_WORDS))
    asks = first == "was" or (len(words) > 2 and not german.isdisjoint(_ASKING.split()))
    is_german = len(german) > len(english) and (asks or len(german) > 2)
    return _GERMAN_WORDS if is_german else frozenset()


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


class OfPieces(dict[str, tuple[str, ...]]):
    """What pieces of texts without blanks have; the first `_REMEMBERED` short ones are cached."""

    def __init__(self, read: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, piece: str) -> tuple[str, ...]:
        words = tuple(self._read(piece))
        if len(self) < _REMEMBERED and len(piece) <= LONGEST_PIECE:
            self[piece] = words
        return words


def folded_words(text: str) -> list[str]:
    """As `words_before_stemming`, sooner for a text that is read once."""
    plain = folded(text)
    if "'s" in plain:
        plain = _POSSESSIVE.sub("", plain)
    if not plain.isascii():
        return _WORD.findall(plain)
    return plain.encode().translate(_ASCII_WORDS).decode().split()


_REMEMBERED = 2**17
LONGEST_PIECE = 64  # longer pieces have no codes, but data in some encoding
_WORDS = OfPieces(folded_words)
_CONTENT = OfPieces(lambda piece: terms(piece, "s", _FUNCTION_TERMS))


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


_BEYOND_ASCII = re.compile(rf"[^\x00-\x7f]{{1,{LONGEST_PIECE}}}")


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


@lru_cache(4096)
def words_of(term: str) -> frozenset[str]:
    """The words before stemming of which `content_terms` makes a term.

    To look for a few terms in a text that is read once takes less time than to stem all of it.
    """
    candidates = {term, f"{term}s", f"{term[:-1]}ies" if term.endswith("y") else term}
    return frozenset(w for w in candidates if singular(w) == term and w not in _FUNCTION_TERMS)


_SENTENCE_END = re.compile(r"""[.!?…]["'”’)\]]*\s+(?=[^a-z\s])|[。！？]""")  # noqa: RUF001
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:al|approx|ca|cf|co|corp|dr|e\.g|etc|fig|i\.e|inc|jr|ltd|mr|mrs|ms|no|prof|sr"
    r"|st|vol|vs))\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8


def split_sentences(text: str) -> list[str]:
    """Sentences of a text by punctuation, without a parser: good enough for chunking.

    Splits after ., !, ? or … before whitespace and anything but a lower-case letter, except after
    an initial or a common abbreviation, and after the full stops of Chinese and Japanese.
    """
    sentences = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        before = text[max(start, end.start() + 1 - _LONGEST_ABBREVIATION) : end.start() + 1]
        if not _ABBREVIATION.search(before):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def is_blank(text: str) -> bool:
    """Whether a text has nothing to read: only spaces, invisible characters and loose marks."""
    return not any(map(_is_seen, text))


@lru_cache(1024)
def _is_seen(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind not in ("Cc", "Cf") and kind[0] not in "MZ"


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


def cells_of(text: str) -> list[tuple[str, str]]:
    """Labels and values of the row of a table, such as "role: Welder; team: North"; else none."""
    parts = text.partition("\n")[0].split("; ")
    cells = [
        (label, value)
        for label, joint, value in (part.partition(": ") for part in parts)
        if joint and len(label) <= 40
    ]
    return cells if len(parts) > 1 and len(cells) > 0.7 * len(parts) else []


_SECTION, _JOINT = re.compile(r"\s+[\u2013\u2014|/-]\s+"), re.compile(r":\s+")
_BRACKET = re.compile(r"\s*\(([^()]+)\)\s*$")
_SHORT_NAME = re.compile(r"[A-Z][A-Z0-9./-]{1,9}")
_CODE = re.compile(r"(?<![\w-])(?=[\w./-]*\d)(?=[\w./-]*[^\W\d_])\w+(?:[./-]\w+)*")
_STEM = re.compile(r"[\w.]+(?:[-_][\w.]+)+")
_STEM_CODE = re.compile(r"[A-Z]{1,4}[-_]\d+(?:[-_]\d+)*(?=[-_]|$)")
_MOST_WORDS = 4
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)


def title_parts(title: str) -> Iterator[str]:
    """The parts of a title that may be names by themselves."""
    head = title.partition(HEADING_JOINT)[0].strip()
    if _STEM.fullmatch(head) and (head.islower() or not head.replace("-", "").isalpha()):
        if code := _STEM_CODE.match(head):
            yield code[0]
            head = head[code.end() :]
        yield " ".join(re.split(r"[-_]+", head)).strip()
        return
    if bracket := _BRACKET.search(head):
        if _SHORT_NAME.fullmatch(bracket[1]):
            yield bracket[1]
        head = head[: bracket.start()]
    whole, *sections = _SECTION.split(head)
    for part in _JOINT.split(whole):
        # "Paris - History" is a section of the page about Paris, not the page.
        is_name = not sections and len(part.split()) <= _MOST_WORDS
        if is_name and not part.startswith(("A ", "An ", "a ", "an ")):
            yield part
        for code in _CODE.finditer(part):
            if _ORDINAL.fullmatch(code[0]):
                continue
            yield code[0]
            if not code.start() and (rest := part[code.end() :].strip(" :-\u2013\u2014")):
                yield rest


_MOST_FURTHER = 0.1  # share of the longer text's words that the shorter one may lack
_WRITTEN_WORD = re.compile(r"[-+]?\w+(?:[.,:/'-]\w+)*|[%€$£°<>=]")
_DATE = (
    r"(?:\d[\d.:/-]*(?:st|nd|rd|th|am|pm)?|at|am|pm|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*)\b[.,]?"
)
_COPIED = re.compile(
    r"\b(?:printed|exported|downloaded|retrieved|accessed|archived|crawled|scanned)"
    rf"(?: on| at)?:?(?: {_DATE})+",
    re.IGNORECASE,
)
"""When a copy was made, such as "printed on 1 May 2031 at 10:15": it says nothing of the text."""
_TELLING = re.compile(r"\d|n't$|^(?:not?|never|none|n?either|without|except|unless|cannot|only)$")
"""Words in small letters that change what a text says."""


def words_as_written(text: str) -> list[str]:
    """The words of a text as they are written, without the date on which a copy was made."""
    return _WRITTEN_WORD.findall(_COPIED.sub(" ", text))


def are_copies(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two texts say the same, by their words as written.

    The longer one has all words of the shorter, in their order, and few further ones: no number, no
    name, which is a word with a capital, and no negation. Vectors alone do not tell: those of "open
    until 5" and "open until 6" are near.
    """
    shorter, longer = sorted((one, other), key=len)
    if len(longer) - len(shorter) > _MOST_FURTHER * len(longer):
        return False
    position = 0
    for word in longer:
        if position < len(shorter) and word.lower() == shorter[position].lower():
            position += 1
        elif not word.islower() or _TELLING.search(word):
            return False
    return position == len(shorter)


# Frequent words that English lacks: German, French, Spanish, Italian, Portuguese, Dutch, Polish.
_FOREIGN_WORDS = frozenset(
    """aan auch auf avec che com como con czy dans das dei del della den der des die dla du een ein
    eine el elle est et für gli het il ist jak jest la las le les los mais mit na nicht nie non não
    och oder ou para pas por pour que qui się sind sont sur te um uma und une van voor von zijn zu
    zum è é""".split()  # noqa: SIM905 - words read better as words
)
_LETTERS = re.compile(r"[^\W\d_]+")
_GLANCED_WORDS = 400
_FEWEST_WORDS = 8


def looks_foreign(text: str) -> bool:
    """Whether a text is surely not English: in another script, or of another language's words."""
    words = [word.casefold() for word in _LETTERS.findall(text[: 16 * _GLANCED_WORDS])]
    letters = "".join(words)
    if sum(letter > "\u036f" for letter in letters) > len(letters) / 2:
        return True
    foreign = sum(word in _FOREIGN_WORDS for word in words)
    english = sum(word in FUNCTION_WORDS for word in words)
    return len(words) >= _FEWEST_WORDS and foreign > 2 * english and foreign > len(words) // 16
