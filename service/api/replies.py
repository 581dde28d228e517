"""What replies with passages have: of each passage, the route, the arms and the index."""

from collections.abc import Sequence
from functools import partial
from operator import is_, not_
from typing import Any, Literal

from pydantic import Field

from wye.backends.trigraph.explanation import Explanation
from wye.router.types import ChainStep, Contribution, Route
from wye.service.http.openapi import Described

_is_none = partial(is_, None)


class SourceValue(Described):
    """The rank and score of a passage in one arm's list."""

    arm: str
    """Name of the arm, such as `dense` or that of a remote arm. `steps` stands for all searches
    with names found by steps; the rank is the best in any of them. `code`, `newest` and `described`
    say what in the question's wording moved a passage up: a rare code or day, the latest of
    versions, a description of one of several namesakes. `duplicate` moved it behind the others; the
    rank is that of the passage it repeats."""
    rank: int
    """Rank in the arm's list, from 1."""
    score: float
    """The arm's own score: a cosine, BM25, or a share of the walk's mass. Scores of two arms are
    not comparable; fusion by scores first brings them to a common scale."""
    share: float | None = None
    """What the list added to the passage's score, which is the sum of all shares. In fusion by
    scores, the default, it is the list's weight times the difference between the score, on a common
    scale, and the last score of the list. In fusion by ranks (`rrf`) it is weight / (rrf_k + rank).
    Null if nothing was fused."""


class PassageValue(Described):
    """A passage that was found."""

    id: str
    rank: int
    """Rank in the reply, from 1."""
    score: float
    """Higher is better; comparable within one reply only."""
    relevance: float | None = None
    """Probability that the passage is relevant, 0 to 1, comparable between replies and routes. Null
    if unknown: it was fitted for the default models and settings."""
    title: str
    text: str
    metadata: dict[str, Any]
    document: str
    """Id of its document; equal to `id` if the passage is a whole document."""
    sources: list[SourceValue]
    """The arms that found it, with their ranks."""
    duplicates: list[str] = Field(default=[], exclude_if=not_)
    """Its near-duplicates."""


def shares_of_one(passages: Sequence[PassageValue]) -> list[float]:
    """Each passage's relevance or, where that is unknown, its share of the best one's score."""
    best = max((passage.score for passage in passages), default=0.0)
    return [
        (passage.score / best if best > 0 else 0.0)
        if passage.relevance is None
        else passage.relevance
        for passage in passages
    ]


class RouteValue(Described):
    """The route that a question took, and why."""

    path: Route
    """The route that answered."""
    asked: Route
    """The route that was requested."""
    reason: str
    """What decided: `score`; `plan: …` if the question can be taken apart; `forced` if the request
    named the route; `unfamiliar: …` if the router learned from no question like it; `budget: …` for
    a limit on cost; `degraded: …` if something failed or was late."""
    score: float | None = None
    """Complexity of the question, from 0 to 1; null if it was not scored."""
    summary: str = ""
    """The reason in a sentence or two; with `explain` only."""
    simple: Route | None = None
    """The route for scores up to `low`; null if the question was not scored."""
    thresholds: dict[str, float] | None = None
    """A question whose score is at most `low` takes the simple route, one with at least `high` the
    graph. One with a plan that is not surely simple goes in steps if the first passages are about a
    smaller share of what it needs than `steps`. These are the collection's thresholds at the time
    of scoring."""
    model: str = ""
    """Name and version of the router's model."""
    contributions: list[Contribution] | None = None
    """What each feature added to the logit; with `explain` only."""
    trees: list[str] | None = None
    """Constituency trees in brackets, one for each sentence of a question that was scored; with
    `explain` only."""


class ArmHitValue(Described):
    """A passage in one arm's list."""

    id: str
    title: str
    rank: int
    """Rank in the arm's list, from 1."""
    score: float
    """The arm's own score; comparable within its list only."""


class RemoteValue(Described):
    """How a call of a remote arm went."""

    kind: str
    """Kind of service, such as `http`."""
    state: Literal["closed", "open", "half-open"]
    """State of its circuit breaker: `open` while it is not called after failures, `half-open` once
    a single call may test whether it has recovered."""
    calls: int
    """How many calls with a price were made for this question."""
    ms: float
    """Milliseconds that the calls took, retries included."""
    spent: float
    """What the calls cost."""


class MissingArm(Described):
    """A remote arm that returned nothing."""

    arm: str
    reason: str
    """The reason in words; `budget: …` if a limit kept an arm out."""


class ArmValue(Described):
    """What one arm contributed."""

    candidates: int
    """How many passages it could have returned, after filters."""
    returned: int
    note: str = ""
    """What the arm lacked; not a fault if other arms were searched as well."""
    hits: list[ArmHitValue] | None = None
    """The arm's first `k` hits, best first; with `explain` only."""
    remote: RemoteValue | None = Field(default=None, exclude_if=_is_none)
    """How the call of a remote arm went; omitted for the server's own arms."""


class IndexValue(Described):
    """The collection and version that were searched."""

    collection: str
    version: int
    """Version of the index; it grows with every write."""


class RetrieveReply(Described):
    """Passages and how they were found."""

    request_id: str
    """Id to give in feedback and when you report a problem."""
    question: str
    passages: list[PassageValue]
    """The passages, best first."""
    answerability: float | None = None
    """Probability that the collection has an answer, 0 to 1; null if unknown or if nothing was
    found."""
    relevance_note: str | None = Field(default=None, exclude_if=_is_none)
    """Why the relevance of these passages is unknown; omitted otherwise."""
    searched: str = Field(default="", exclude_if=not_)
    """What was searched for instead of the question: the question in a long text, with misspelt
    words as the corpus writes them; omitted if it is the question itself."""
    folded: int = Field(default=0, exclude_if=not_)
    """How many near-duplicates were put behind other passages; omitted if none were."""
    route: RouteValue
    arms: dict[str, ArmValue]
    """The arms that were searched, by name."""
    timings_ms: dict[str, float]
    """Milliseconds by stage. `queue` is the time spent waiting. Questions of one batch get equal
    shares of its time. `total` is the time that really passed."""
    batch: int
    """Number of questions in the batch."""
    index: IndexValue
    degraded: str = ""
    """Why this is not what was asked for; empty if it is."""
    missing: list[MissingArm] | None = Field(default=None, exclude_if=_is_none)
    """Remote arms that the route wanted and that returned nothing. Omitted if the route has no
    remote arm, and so are `spent` and `saved`."""
    spent: float | None = Field(default=None, exclude_if=_is_none)
    """What this question's remote calls cost."""
    saved: float | None = Field(default=None, exclude_if=_is_none)
    """What the calls that the router avoided would have cost."""
    explanation: Explanation | None = None
    """How the graph arm came to its ranking; with `explain` only."""
    steps: tuple[ChainStep, ...] | None = None
    """Phrases of the question that were resolved first, innermost first, with the names found for
    them; only for the route `steps` with `explain`."""
