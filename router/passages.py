"""Routing for a corpus that is not indexed here, by the passages that another search returned.

A corpus elsewhere gives no vocabulary, no document frequencies and no graph. So all words weigh the
same, and a name is what the question writes with capitals, or a title that is part of its words.
Otherwise the signals are computed like those of `wye.router.evidence`. Their values differ from
those of an index, so they have names of their own, and a router trained on one kind is refused
where there is the other.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from wye.backends.text import content_terms, is_informative, terms, title_names, tokenise
from wye.backends.types import Coverage, Float64, NameCoverage, Query, WordCoverage, bits
from wye.router.evidence import (
    CHEAP_SIGNALS,
    FIRST_PASSAGES,
    LIST_SIGNALS,
    RETURNED_PREFIX,
    TEXT_MEANINGS,
    TEXT_SIGNALS,
    signals,
)
from wye.router.explain import summary
from wye.router.model import RoutingModel, load_router
from wye.router.types import ArmResults, Decision

PASSAGE_SIGNALS_VERSION = 1
"""Incremented when the value of some column changes."""
# Without a graph, a name's confidence and rarity are not known.
_UNKNOWN = LIST_SIGNALS | {
    "names_value_best",
    "names_value_sum",
    "names_specificity",
    "titled_value",
    "titled_uniqueness",
}
_SIGNALS = tuple(name for name in TEXT_SIGNALS if name not in _UNKNOWN)
PASSAGE_COLUMNS: tuple[str, ...] = tuple(f"{RETURNED_PREFIX}{name}" for name in _SIGNALS)
"""The columns that a router without an index may use, in order."""
PASSAGE_MEANINGS: Mapping[str, str] = {
    f"{RETURNED_PREFIX}{name}": TEXT_MEANINGS[name] for name in _SIGNALS
}
INDEX_SIGNALS: tuple[str, ...] = tuple(name for name in CHEAP_SIGNALS if name not in _SIGNALS)
"""Signals that need an index: its vectors, its BM25 weights or its entities."""

_CAPITAL = "A-Z0-9\u00c0-\u00de"
_NAME_WORD = rf"[{_CAPITAL}][\w'\u2019.&-]*"
_CAPITALISED = re.compile(
    rf"{_NAME_WORD}(?:\s+(?:(?:of|the|de|la|van|von|and)\s+){{0,2}}{_NAME_WORD})*"
)
_POSSESSIVE = re.compile(r"['\u2019]s?$")


@dataclass(frozen=True, slots=True)
class ReturnedPassages:
    """What a search returned for a question.

    Attributes:
        passages: Title and text of each, best first; those after the fifth are not looked at.
    """

    question: str
    passages: Sequence[tuple[str, str]] = field(repr=False)


def passage_schema() -> str:
    """Identity of the columns' values; see `wye.router.evidence.schema_id`."""
    content = json.dumps(["passages", PASSAGE_COLUMNS, PASSAGE_SIGNALS_VERSION])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def passage_columns(asked: Sequence[ReturnedPassages]) -> Float64:
    """The router's input, (n, len(PASSAGE_NAMES))."""
    nothing = np.zeros(0, np.float32)
    found = [
        ArmResults(Query(one.question, nothing), coverage=passage_coverage(one)) for one in asked
    ]
    return signals(found, _SIGNALS)


def passage_coverage(asked: ReturnedPassages) -> Coverage:
    """How the first passages cover a question's words and names."""
    shown = asked.passages[:FIRST_PASSAGES]
    heads = [frozenset(terms(title)) for title, _ in shown]
    bodies = [head.union(terms(text)) for head, (_, text) in zip(heads, shown, strict=True)]
    words = tuple(
        WordCoverage(
            word, 1.0, bits([word in one for one in heads]), bits([word in one for one in bodies])
        )
        for word in content_terms(asked.question)
    )
    return Coverage((), words, tuple(_names(asked.question, shown)))


def _names(question: str, shown: Sequence[tuple[str, str]]) -> list[NameCoverage]:
    asked = _spoken(question)
    titles = [[_spoken(name) for name in title_names(title)] for title, _ in shown]
    bodies = [_spoken(f"{title} {text}") for title, text in shown]
    named = {_spoken(name): name for name in _capitalised(question)}
    for own in titles:
        for title in own:
            if title in asked and is_informative(title.strip()):
                named.setdefault(title, title.strip())
    # A name within a longer one does not count.
    found = [one for one in named if not any(one != other and one in other for other in named)]
    covered = []
    for one in found:
        heads, texts = bits([one in own for own in titles]), bits([one in body for body in bodies])
        degree = max(1, texts.bit_count())
        covered.append(NameCoverage(named[one], 1.0, degree, heads.bit_count(), heads, texts))
    return covered


def _capitalised(question: str) -> list[str]:
    """Runs of capitalised words, without words at their ends that are no content words."""
    found = []
    for match in _CAPITALISED.finditer(question):
        words = match.group().rstrip(" .,?!").split()
        while words and not content_terms(words[0]):
            del words[0]
        while words and not content_terms(words[-1]):
            del words[-1]
        if words:
            found.append(_POSSESSIVE.sub("", " ".join(words)))
    return found


def _spoken(text: str) -> str:
    """The words of a text in order, in lower case and without possessives, separated by blanks."""
    words = (token.casefold() for token in tokenise(text) if token[0].isalnum())
    return f" {' '.join(words)} "


def load_passage_router(folder: Path) -> RoutingModel:
    """Read a router that decides by returned passages.

    Raises:
        ModelFileError: The router is missing or damaged, or was trained on signals of an index.
    """
    return load_router(folder, schema_id=passage_schema(), names=PASSAGE_COLUMNS)


def decide_by_passages(
    model: RoutingModel,
    asked: ReturnedPassages,
    *,
    explain: bool = False,
    point: str = "",
) -> Decision:
    """Decide whether the simple arm's passages suffice or other arms are asked too.

    Args:
        model: A router from `load_passage_router`.

    Raises:
        QuestionError: There is no such operating point.
    """
    columns = passage_columns([asked])
    own = model.at(point)
    (decision,) = own.decide(columns, explain=explain)
    return replace(decision, summary=summary(decision)) if explain else decision
