"""The type of answer that a question wants, and whether the row of a table has one.

The wording tells which kind of value is wanted: an amount, a size, an age, somebody's name, a
day. A row may also say it by another word: "PC-2041 belongs to which ship?" asks for its "vessel".
No words tell that from what a row does not say. But an encoder that knows paraphrases puts "the
vessel of PC-2041" near that question, and all labels of the row far from "Who built PC-2041?".
"""

import re
from collections.abc import Iterable, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wye.backends.notations import IS_DAY, WITHIN, notations, phrases
from wye.backends.text import cells_of, content_terms, folded_words, words_of
from wye.backends.types import Float32
from wye.featurizer.encoder_files import DEFAULT_ENCODER
from wye.router.wording import has_form

if TYPE_CHECKING:
    from wye.router.batch import Models

# Where a label says what is asked; at .75 thrice as many near misses pass, and few questions more.
LEAST_COSINE = 0.77
# As much where the label brings the name nearer to the question, as no label of a near miss does.
_LESS, _GAIN = 0.74, 0.05
# Labels that are compared with their name; all would take thrice the time, and tell no more.
_NEAREST = 2
# More would keep all other questions waiting; what was not compared is not called absent.
_MOST_LABELS = 48
# What finds questions -> which sign an answer to them has.
_SIGNS = (
    (re.compile(r"\b(?i:when|until|deadline|how (?:long|many|much|old)|year)\b"), str.isdigit),
    (re.compile(r"\b(?i:who|whom|whose|where)\b"), str.isalpha),
)
_WHO = re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_WHEN = re.compile(r"\b(?:when|until|expires?|deadline)\b", re.IGNORECASE)
_FULL_NAME = re.compile(r"[^\W\d_a-z][\w'\u2019-]+(?: [^\W\d_a-z][\w'\u2019.-]*)+")
_OTHER = re.compile(r"\b(?:who|whose|whom|why|where|when|wer|wo|wann)\b", re.IGNORECASE)
_MONTH = re.compile(r"\d{4}-\d\d")
_KEY = re.compile(r"[\d.]+([a-z]+)|(\+)\d+")
_GIVEN_WITHOUT = re.compile(
    r"\b(?i:how \w+|wie \w+|stands? for|wrong|results?|outcome|status|happen\w*|solved|fixed)\b"
)
# A question whether, or how, a thing is in the state that the last word says.
_IS_SO = re.compile(r"(?i:(?:is|are|was|were|has|have)\b.*\d|how\b.*\bbe\b).*\b(\w+)\W*")

# What a question says of the thing of a row -> labels that say it in other words.
_OTHER_WORDS = tuple(
    tuple(re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in pair)
    for pair in (
        (
            "where(?:'s| is| are| do| does| can| stands?)",
            "at|base|based|bin|building|location|place|position|room|shelf|site|station|town|where",
        ),
        (
            r"(?:when|since|how long)\b.*\b(?:join(?:ed)?|start(?:ed)?|hired|here|with us)",
            "since|joined|entry|start",
        ),
        (
            "replaces?|stands? in|instead|covers for|fills in|away",
            "deputy|substitute|reserve|stand-?in",
        ),
    )
)

# "The landlord of X", "X's birthday", "who insures X": words that an answer has.
_ASKED_FOR = re.compile(
    r"\W*(?i:(?:who|what|when|where)(?:['\u2019]s| is| are| was| were) "
    r"(?:the (?:[\w-]+ ){0,3}?([\w-]+) (?:of|for)\b|"
    r"(?:\S+ ){1,4}?(?<=['\u2019]s )(?:[\w-]+ ){0,2}?([\w-]+)\W*$)|who ([\w-]+)\b(?!\W*$))"
)
_DESCRIBED = re.compile(r"\b(?i:that|which|whom?|whose|where|and)\b.*\w")
# What an answer is, and need not say that it is.
_OPEN = frozenset(
    """aim cause colour cost date day difference end first function goal kind last latest location
    meaning name number outcome part place purpose reason result role size start state status time
    topic total type use value year""".split()  # noqa: SIM905
)
_FOR_NONE = re.compile(r"\b(?i:(?:has|have|with) no|without|lack\w*|missing|ha\w+ ?n[o'\u2019]t)\b")
_NONE = re.compile(r"(?i:no|not|none|never|nobody|missing|open)\b|[-\u2013]?$")


class _Kind(NamedTuple):
    """What asks for a kind of value, its units ("+" of telephones), words beside its numbers."""

    question: re.Pattern[str]
    units: Set[str]
    words: Set[str]


def _kind(question: str, units: str, words: str) -> _Kind:
    return _Kind(re.compile(rf"\b(?:{question})\b", re.I), {*units.split()}, {*words.split()})


_LENGTHS = "mm cm m km"
_OF_LENGTHS = "depth feet foot ft height inch inches length metres meters miles width yards meter"
_SPANS = "day days hour hours month months week weeks year years stunden tage wochen monate jahre"
_AGES = f"{_SPANS} age aged born built founded old since until alt baujahr gebaut geboren seit"
_MONEY = "miete|pr[äa]mie|gehalt|lohn|preise?|geb[üu]hr|kostet|kosten"
_KINDS = (
    _kind(
        "how (?:tall|deep|wide)|depth|draught|height|width|wie (?:tief|breit)|breite|h[öo]he|tiefe|"
        rf"wie hoch(?!.*(?:{_MONEY}|betrag|summe|anteil|umsatz))",
        _LENGTHS,
        f"{_OF_LENGTHS} breite hohe tiefe",
    ),
    _kind("how long|wie lang", f"{_LENGTHS} h min sec", f"{_OF_LENGTHS} {_AGES} minutes seconds"),
    _kind("how old|wie alt", "", _AGES),
    _kind(
        "how heavy|weighs?|weight|wie schwer|wiegt|gewicht",
        "kg g",
        "gewicht lb lbs pounds stone t tonnen tonnes tons weighs weight wiegt",
    ),
    _kind("litres|liters?", "l ml", "liter litres liters"),
    _kind("voltage|volts?|spannung", "v kv", "kv v volt voltage volts"),
    _kind("(?:horse)?power|wattage|ps|kw", "kw w", "horsepower hp kw power ps w watts"),
    _kind("how fast|speed|wie schnell", "", "fast kmh knoten knots kph m min mph h s speed"),
    _kind(
        "temperatur|temperature|(?:how|wie) (?:cold|hot|warm|kalt|heiß)",
        "",
        "c celsius degrees f grad temp temperatur temperature",
    ),
    _kind("calories|kcal|kalorien", "", "calories kalorien kcal kj"),
    _kind(
        r"(?:tele)?phone|extension|mobile|(?:call|dial|reach|ring)\b.*\bnumber|"
        r"number\b.*\b(?:call|dial|reach|ring)|internal number|(?:telefon|handy)nummer|durchwahl",
        "+",
        "call dial durchwahl ext extension handy handynummer mobile natel number phone ring tel "
        "telefon telefonnummer telephone",
    ),
    _kind(
        "costs?|prices?|priced|pay|paid|premium|salary|wages?|earns?|rent|fees?|how much money|"
        rf"how much (?:is|was|are|were|does|did|do|will)|{_MONEY}|wie teuer",
        "eur usd gbp percent",
        "amount amounts betrag budget charge chf cost costs dkk euro fee fees free gebuhr gehalt "
        "kr lohn miete nok paid pay pence pln pramie preis premium price prices quid rate rent "
        "salary sek sum total wage wages",
    ),
)


def words_not_repeated(question: str) -> list[str]:
    """What of a question asks for a measure, a meaning or a state, which answers do not repeat."""
    is_so = _IS_SO.fullmatch(question)
    return [*_GIVEN_WITHOUT.findall(question), *(is_so.groups() if is_so else ())]


def lacks_value(question: str, texts: Iterable[str]) -> bool:
    """Whether a question asks for a kind of value, no person or day, that none of texts has."""
    kind = _type_of(question)
    return kind is not None and not any(_has_value(kind, text) for text in texts)


def _type_of(question: str) -> _Kind | None:
    kinds = (kind for kind in _KINDS if kind.question.search(question))
    return None if _OTHER.search(question) else next(kinds, None)


def _has_value(kind: _Kind, text: str) -> bool:
    keys = map(_KEY.fullmatch, notations(re.sub(r"(?<=\d),(?=\d\d?\b)", ".", text)))  # 1,5 kg
    units = {key[1] or key[2] for key in keys if key}
    has_word = any(map(str.isdigit, text)) and not kind.words.isdisjoint(folded_words(text))
    return has_word or not kind.units.isdisjoint(units)


def lacks_date(question: str, texts: Iterable[str]) -> bool:
    """Whether a question names a day or a month, with its year, that none of texts has."""
    if not any(map(str.isdigit, question)):
        return False
    named = [each.days or (*filter(_MONTH.fullmatch, each.keys),) for each in phrases(question)]
    known = {key.lstrip(WITHIN) for t in texts if any(named) for key in notations(t)}
    return any(dates and not known.intersection(dates) for dates in named)


def has_word(term: str, words: Sequence[str]) -> bool:
    """Whether folded words have a term, also in another form."""
    return not words_of(term).isdisjoint(words) or has_form(term, " ".join(["", *words, ""]))


def relation_of(question: str) -> str:
    """The noun or the verb by which a question asks for something of a named thing; else ""."""
    match = _ASKED_FOR.match(question)
    if not match or _type_of(question) or _DESCRIBED.search(question, match.end()):
        return ""
    return next((w for w in map(str.lower, match.groups("")) if w and w not in _OPEN), "")


def lacks_cell(
    question: str, ids: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]
) -> bool:
    """Whether the first row has no cell of a column that is asked for, but others of its table do.

    Or a question asks what has no such cell, which empty cells do not say.
    """
    table, colon, _ = ids[0].rpartition(":") if rows and rows[0] else ("", "", "")
    of_table = [row for id_, row in zip(ids, rows, strict=False) if id_.startswith(table + colon)]
    asks_for_none = _FOR_NONE.search(question) is not None
    said = content_terms(" ".join(chain(*rows[0]))) if colon and not asks_for_none else ()
    left = {*content_terms(question)}.difference(said)
    has_cell = [
        _NONE.match(value) if asks_for_none else number == 0
        for number, row in enumerate(of_table if colon else ())
        for label, value in row
        if any(has_word(term, folded_words(label)) for term in left)
    ]
    return bool(has_cell) and not any(has_cell)


def has_synonym(question: str, text: str) -> bool:
    """Whether a row has a label or a telephone that stands for other words of a question."""
    kind, cells = _type_of(question), cells_of(text)
    if kind and "+" in kind.units and _has_value(kind, text):
        return True
    labels = " ".join(label for label, _ in cells)
    return any(asks.search(question) and says.search(labels) for asks, says in _OTHER_WORDS)


def has_person_or_day(title: str, text: str, question: str) -> bool:
    """Whether a question asks who, or when of a number, and a row has a full name, or a day.

    Or it asks what there was on a day, names nothing else, and the row has that day.
    """
    for start, end, keys, days in phrases(question):
        if (question[1:start] + question[end:]).islower():
            known = {key.lstrip(WITHIN) for key in notations(f"{title}\n{text}")}
            if any(IS_DAY.fullmatch(key) and key in known for key in days or keys):
                return True
    if _WHEN.search(question) and any(map(str.isdigit, question)):
        return any(map(IS_DAY.fullmatch, {*notations(text)}.difference(notations(question))))
    names = filter(_FULL_NAME.fullmatch, [title, *(value for _, value in cells_of(text))])
    return bool(_WHO.search(question)) and any(name not in question for name in names)


def labels_of_type(question: str, text: str) -> tuple[str, ...]:
    """Labels of the cells of a row whose values may be what a question asks for."""
    kind, labels = _type_of(question), dict[str, None]()
    signs = [is_sign for asks, is_sign in _SIGNS if asks.search(question)]
    for label, value in cells_of(text):
        is_kind = kind is not None and _has_value(kind, f"{label}: {value}")
        if kind and is_kind and "+" in kind.units:  # a telephone, whatever its label calls it
            labels |= dict.fromkeys(map(str.lower, kind.question.findall(question)))
        if is_kind >= bool(kind) and all(any(map(is_sign, value)) for is_sign in signs):
            labels[" ".join(folded_words(label))] = None
    return tuple(labels)


def is_named(name: str, question: str) -> bool:
    """Whether a question has the words of a name, which is no plain number."""
    words, others = (" ".join(["", *folded_words(text), ""]) for text in (name, question))
    return words in others and any(map(str.isalpha, words))


def has_fitting_label(
    models: "Models", question: str, vector: Float32, name: str, text: str
) -> bool:
    """Whether a label of a row is nearly what a question with some vector asks for.

    The row goes by a name, or, if the question lacks it, by the longest of its values there.
    """
    labels, analyser = labels_of_type(question, text), models.analyser
    if not is_named(name, question):
        named = [(value, label) for label, value in cells_of(text) if is_named(value, question)]
        name, label = max(named, key=lambda cell: len(cell[0]), default=(name, ""))
        labels = tuple(each for each in labels if each != " ".join(folded_words(label)))
    if not labels or analyser.settings.encoder.model != DEFAULT_ENCODER:
        return False
    if len(labels) > _MOST_LABELS:
        return True
    pieces = [f"the {label}, " for label in labels]
    ends = np.cumsum([*map(len, pieces)]).tolist()
    spans = [(end - len(piece), end - 2) for piece, end in zip(pieces, ends, strict=True)]
    (encoded,) = analyser.encode_with_states(["".join(pieces)])
    order = np.argsort(-(analyser.encode_parts(encoded, spans) @ vector), kind="stable")
    of_name = [f"the {labels[at]} of {name}" for at in order[:_NEAREST].tolist()]
    *cosines, alone = (analyser.encode_questions([*of_name, name]) @ vector).tolist()
    return bool(max(cosines) >= min(LEAST_COSINE, max(_LESS, alone + _GAIN)))
