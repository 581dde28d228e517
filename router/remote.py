"""Corpora elsewhere: remote arms, how their lists are fused, and routing by what they return.

A corpus elsewhere gives no vocabulary, no document frequencies and no graph. So all words weigh the
same, and a name is what the question writes with capitals, or a title that is part of its words.
Otherwise the signals are computed like those of `wye.router.evidence`. Their values differ from
those of an index, so they have other names, and a router trained on one kind is refused
where there is the other.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from wye.backends.text import content_terms, is_informative, terms, title_names, tokenise
from wye.backends.types import (
    Coverage,
    Float64,
    Metadata,
    NameCoverage,
    Query,
    RankedHit,
    Ranking,
    Source,
    WordCoverage,
    bits,
)
from wye.router.evidence import (
    FIRST_PASSAGES,
    LIST_SIGNALS,
    RETURNED_PREFIX,
    TEXT_MEANINGS,
    TEXT_SIGNALS,
    signals,
)
from wye.router.explain import summary
from wye.router.fusion import fuse, rank_sums, scaled
from wye.router.model_files import load_router, with_thresholds
from wye.router.policy import RoutingModel
from wye.router.settings import RoutingSettings
from wye.router.types import ArmResults, Decision, Route

Scores = Literal["rank", "cosine", "bm25", "mass"]
"""Meaning of an arm's scores: an order only, cosines or sums on their scale, BM25, or shares of a
walk's mass."""


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What is known of a remote arm before it is called.

    Attributes:
        role: "simple", "graph" or "list".
        address: Digest of all that its answers depend on: where it is and how it is called.
        depth: Hits that a call requests.
        weight: Weight of its list in fusion.
        prefix: Prefix of its ids in an answer; "" if they are ids of the collection.
    """

    name: str
    role: str
    address: str
    price: float
    depth: int
    scores: Scores
    weight: float
    prefix: str


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """A passage that a remote arm returned, under the arm's id of it.

    Attributes:
        score: The arm's own score; higher is better.
        metadata: A flat mapping.
    """

    id: str
    text: str
    title: str
    score: float
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """A remote arm's answer, best hits first, or the reason why there is none.

    Attributes:
        ms: Time that the call took.
        spent: Cost of the call.
    """

    hits: tuple[RemoteHit, ...]
    ms: float
    spent: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ArmQuestion:
    """One question for one arm; the filter is parsed JSON."""

    arm: str
    text: str
    filter: object | None = None


Save = Callable[[ArmQuestion, ArmAnswer], None]


class RemoteAsker(Protocol):
    """The remote arms of one collection, called as the service calls them."""

    arms: Sequence[ArmFacts]

    def ask(self, questions: Sequence[ArmQuestion], save: Save) -> None:
        """Ask all questions within each arm's limits, and save each answer as it arrives."""
        ...


OpenArms = Callable[[Path, bool], AbstractContextManager[RemoteAsker]]
"""Opens the arms of the first collection of an arms file, which has an index or none."""


OURS = "local"

# The arm of ours that has such scores, and their weight relative to a cosine. That of mass was
# chosen on train and dev questions of 2wiki, popqa and nq, together with our text arms: nDCG@10
# .938; .3 and 1 have .934 and .936, and reciprocal ranks .848. That of BM25 is fusion's.
_SCALES: Mapping[Scores, tuple[Route, float]] = {
    "cosine": (Route.DENSE, 1.0),
    "bm25": (Route.LEXICAL, 0.35),
    "mass": (Route.GRAPH, 0.6),
}
_OF_OURS: Mapping[str, Scores] = {Route.GRAPH: "mass", Route.LEXICAL: "bm25"}


@dataclass(frozen=True, slots=True)
class RemoteList:
    """A remote arm's list, to be fused."""

    ranking: Ranking
    scores: Scores
    weight: float

    @property
    def is_addable(self) -> bool:
        """Whether its scores can be what they are declared as: never rising, BM25 and mass > 0."""
        scores = [hit.score for hit in self.ranking.hits]
        if self.scores == "rank" or any(upper < lower for upper, lower in pairwise(scores)):
            return False
        return self.scores == "cosine" or min(scores, default=1.0) > 0


def remote_ranking(name: str, prefix: str, hits: Sequence[RemoteHit], note: str = "") -> Ranking:
    """An arm's hits as a ranking, by ids that are unique in the answer."""
    ranked = (RankedHit(prefix + hit.id, hit.score, rank) for rank, hit in enumerate(hits, start=1))
    return Ranking(name, tuple(ranked), len(hits), note)


def fuse_remote(ours: Ranking, lists: Sequence[RemoteList], k: int, *, by_scores: bool) -> Ranking:
    """Fuse the local ranking, whose weight is 1, with at least one remote list.

    Scores of known meaning are added up on the scale of cosines, as in `fusion.combine_scores`. If
    a list has no such scores, all are fused by reciprocal rank. What our ranking gives to a passage
    is divided among those of our lists that have it.

    Args:
        by_scores: Whether the local scores are on the scale of cosines.
    """
    local = replace(ours, retriever=OURS)
    if by_scores and all(remote.is_addable for remote in lists):
        parts = [(local, _values(ours, _OF_OURS.get(ours.retriever, "cosine")))]
        parts += [
            (each.ranking, each.weight * _values(each.ranking, each.scores)) for each in lists
        ]
        ranking = rank_sums(parts, k)
    else:
        weights = [1.0, *(remote.weight for remote in lists)]
        ranking = fuse([local, *(remote.ranking for remote in lists)], weights, k=k)
    our_hits = {hit.id: hit for hit in ours.hits}
    return replace(
        ranking,
        hits=tuple(
            hit._replace(sources=_split(hit.sources, our_hits.get(hit.id), ours.retriever))
            for hit in ranking.hits
        ),
        degraded="",
    )


def _values(ranking: Ranking, meaning: Scores) -> Float64:
    """Scores of a ranking (m,) on the scale of cosines, minus the last one.

    A passage that is not in the list has at most the last score.
    """
    if not ranking.hits:
        return np.zeros(0)
    scale, worth = _SCALES[meaning]
    values = worth * scaled(replace(ranking, retriever=scale))
    return np.asarray(values - values[-1])


def _split(sources: Sequence[Source], our_hit: RankedHit | None, name: str) -> tuple[Source, ...]:
    """Replace the local ranking among the sources by the lists that it was fused from."""
    result: list[Source] = []
    for source in sources:
        if source.retriever != OURS or our_hit is None:
            result.append(source)
        elif not our_hit.sources:
            result.append(source._replace(retriever=name))
        else:
            total = math.fsum(part.share for part in our_hit.sources)
            result += [
                part._replace(
                    share=source.share * (part.share / total if total else 1 / len(our_hit.sources))
                )
                for part in our_hit.sources
            ]
    return tuple(sorted(result))


PASSAGE_SIGNALS_VERSION = 1
"""Incremented when the value of some column changes."""
# Without a graph, the confidence and the rarity of a name are not known.
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


def passage_columns(returned: Sequence[ReturnedPassages]) -> Float64:
    """The router's input, (n, len(PASSAGE_COLUMNS))."""
    results = [
        ArmResults(Query(each.question, np.zeros(0, np.float32)), coverage=passage_coverage(each))
        for each in returned
    ]
    return signals(results, _SIGNALS)


def passage_coverage(returned: ReturnedPassages) -> Coverage:
    """How the first passages cover a question's words and names."""
    first = returned.passages[:FIRST_PASSAGES]
    titles = [frozenset(terms(title)) for title, _ in first]
    texts = [title.union(terms(text)) for title, (_, text) in zip(titles, first, strict=True)]
    covered = tuple(
        WordCoverage(
            word, 1.0, bits([word in t for t in titles]), bits([word in text for text in texts])
        )
        for word in content_terms(returned.question)
    )
    return Coverage((), covered, tuple(_names(returned.question, first)))


def _names(question: str, passages: Sequence[tuple[str, str]]) -> list[NameCoverage]:
    words = _spoken(question)
    titles = [[_spoken(name) for name in title_names(title)] for title, _ in passages]
    texts = [_spoken(f"{title} {text}") for title, text in passages]
    mentions = {_spoken(name): name for name in _capitalised(question)}
    for title in (title for names in titles for title in names):
        if title in words and is_informative(title.strip()):
            mentions.setdefault(title, title.strip())
    coverage = []
    for name, mention in mentions.items():
        # A name within a longer one does not count.
        if not any(name != longer and name in longer for longer in mentions):
            in_titles = bits([name in names for names in titles])
            in_texts = bits([name in text for text in texts])
            degree, titled = max(1, in_texts.bit_count()), in_titles.bit_count()
            coverage.append(NameCoverage(mention, 1.0, degree, titled, in_titles, in_texts))
    return coverage


def _capitalised(question: str) -> list[str]:
    """Runs of capitalised words, without words at their ends that are no content words."""
    names = []
    for match in _CAPITALISED.finditer(question):
        words = match.group().rstrip(" .,?!").split()
        while words and not content_terms(words[0]):
            del words[0]
        while words and not content_terms(words[-1]):
            del words[-1]
        if words:
            names.append(_POSSESSIVE.sub("", " ".join(words)))
    return names


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
    returned: ReturnedPassages,
    *,
    explain: bool = False,
    point: str = "",
) -> Decision:
    """Decide whether the simple arm's passages suffice or other arms are called too.

    Raises:
        QuestionError: There is no such operating point.
    """
    (decision,) = model.at(point).decide(passage_columns([returned]), explain=explain)
    return replace(decision, summary=summary(decision)) if explain else decision


def read_passage_router(routing: RoutingSettings) -> RoutingModel | None:
    """Read the router that decides by returned passages, if the settings name one; else None.

    None ships, since what it would learn on one corpus does not hold on another.

    Raises:
        RouterError: The router is missing, damaged or made for an index, or its thresholds cannot
            be used.
    """
    if routing.model == RoutingSettings().model:
        return None
    return with_thresholds(load_passage_router(routing.folder()), routing.thresholds)
