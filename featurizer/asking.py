"""What a question asks for: its question word, its kind, and the kind of answer it wants."""

from collections.abc import Sequence
from dataclasses import dataclass

from featurizer.feature import words
from featurizer.types import Token

_WORDS = frozenset({"who", "whom", "whose", "what", "which", "when", "where", "why", "how"})
_TAGS = frozenset({"WDT", "WP", "WP$", "WRB"})
# A question word within one of these relates ("the lake that …", "when it freezes, …").
_RELATING = frozenset({"relcl", "acl", "advcl"})
_AUXILIARIES = frozenset({"be", "do", "have"})
_COUNTED = frozenset({"many", "much"})
_COPULAS = frozenset({"attr", "nsubj", "nsubjpass", "dobj"})

_PERSON = words(
    "actor actress architect artist author brother captain child composer daughter designer "
    "director emperor engineer explorer father founder grandfather grandmother husband inventor "
    "king leader man mayor minister mother musician painter parent person physicist player poet "
    "president producer professor queen ruler scientist singer sister son spouse uncle wife woman "
    "writer"
)
_PLACE = words(
    "area border capital city continent country county district estuary hometown island "
    "lake location mountain nation ocean place province region river sea state street town valley "
    "village"
)
_TIME = words("age birthday century date day decade era hour month period time year")
_QUANTITY = words(
    "amount area cost depth distance height length number percentage population price rate size "
    "speed temperature weight width"
)


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked.

    Attributes:
        place: Of the question word among the tokens; -1 when there is none.
        kind: The question word ("whose" and "whom" are "who"), "how many" for a number or a
            degree, "yes or no", or "none".
        target: "person", "place", "time", "number", "thing", "reason" or "none".
        noun: Place of the noun that the question word stands for ("which river", "what is the
            capital"); -1 when there is none.
    """

    place: int
    kind: str
    target: str
    noun: int


def asking(tokens: Sequence[Token]) -> Asking:
    """What these tokens ask for."""
    place = _question_word(tokens)
    if place < 0:
        kind = "yes or no" if _begins_with_verb(tokens) else "none"
        return Asking(-1, kind, "none", -1)
    word = tokens[place].text.lower()
    noun = _noun(tokens, place, word)
    if word == "how" and _is_degree(tokens, place):
        return Asking(place, "how many", "number", noun)
    kind = "who" if word in ("whom", "whose") else word
    return Asking(place, kind, _target(kind, tokens[noun].lemma.lower() if noun >= 0 else ""), noun)


def _question_word(tokens: Sequence[Token]) -> int:
    for place, token in enumerate(tokens):
        if token.tag in _TAGS and token.text.lower() in _WORDS and not _relates(tokens, place):
            return place
    return -1


def _relates(tokens: Sequence[Token], place: int) -> bool:
    while True:
        if tokens[place].dep in _RELATING:
            return True
        if tokens[place].head == place:
            return False
        place = tokens[place].head


def _begins_with_verb(tokens: Sequence[Token]) -> bool:
    first = next((token for token in tokens if token.text[0].isalpha()), None)
    return first is not None and (first.tag == "MD" or first.lemma.lower() in _AUXILIARIES)


def _is_degree(tokens: Sequence[Token], place: int) -> bool:
    """Whether "how" asks for a number: "how many", "how far", "how much longer"."""
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    return after is not None and (after.lemma.lower() in _COUNTED or after.pos in ("ADJ", "ADV"))


def _noun(tokens: Sequence[Token], place: int, word: str) -> int:
    head = tokens[place].head
    if head != place and tokens[head].pos in ("NOUN", "PROPN") and word in ("what", "which"):
        return head
    if word not in ("what", "which", "who") or tokens[head].lemma.lower() != "be":
        return -1
    # "What is the capital of …": the other side of the copula.
    others = (
        other
        for other, token in enumerate(tokens)
        if token.head == head and other not in (place, head) and token.dep in _COPULAS
    )
    return next((other for other in others if tokens[other].pos == "NOUN"), -1)


def _target(kind: str, noun: str) -> str:
    simple = {"who": "person", "when": "time", "where": "place", "why": "reason", "how": "reason"}
    if kind in simple:
        return simple[kind]
    kinds = ((_PERSON, "person"), (_PLACE, "place"), (_TIME, "time"), (_QUANTITY, "number"))
    return next((target for nouns, target in kinds if noun in nouns), "thing")
