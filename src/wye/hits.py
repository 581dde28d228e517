"""What a search returns: hits with their passages, and how they came about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from wye.backends.types import Metadata, Passage, RankedHit
from wye.router.types import Answered, Decision, Reply, Route, answered

if TYPE_CHECKING:
    from wye.backends.trigraph.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found.

    Attributes:
        id: Id of the passage. It is the document's id, followed by "#" and a number if the document
            has several passages or its id ends like that.
        rank: 1 for the best.
        score: Higher is better; scores of different routes are not comparable.
        title: Title of the document.
        text: Text of the passage.
        metadata: Metadata of the document.
        relevance: Probability that it is relevant, 0 to 1; None if it is unknown, since the curves
            were fitted for other models or settings.
        why: Its rank in each arm that was asked and in the searches of steps, the active entities
            that it names, and the names that it gave to steps; empty unless `explain` was set.
        duplicates: Ids of its near-duplicates, which come after all other passages.
    """

    id: str
    rank: int
    score: float
    title: str
    text: str
    metadata: Metadata
    relevance: float | None = None
    why: str = ""
    duplicates: tuple[str, ...] = ()


class Hits(tuple[Hit, ...]):
    """The hits of one question, best first, and the `reply`, with the ranking of each arm."""

    reply: Reply

    def __new__(cls, hits: Iterable[Hit], reply: Reply) -> Self:
        """Make a tuple of hits with the reply that they come from."""
        self = super().__new__(cls, hits)
        self.reply = reply
        return self

    def __repr__(self) -> str:
        return f"Hits({self.question!r}, route={self.route!s}, {list(self)})"

    @property
    def question(self) -> str:
        """The question, unchanged."""
        return self.reply.question

    @property
    def route(self) -> Route:
        """The route that was taken; never `Route.AUTO`."""
        return self.reply.route

    @property
    def answerability(self) -> float | None:
        """Probability that the index has an answer, 0 to 1; None if it is unknown."""
        return self.reply.answerability

    @property
    def answered(self) -> Answered | None:
        """Whether the index has an answer: "yes", "unsure" or "no"; None if it is unknown."""
        return answered(self.answerability)

    @property
    def decision(self) -> Decision:
        """The router's decision; if the route was named, that one, with the reason "forced"."""
        named = Decision(self.route, score=None, logit=None, thresholds=None, reason="forced")
        return self.reply.decision or named

    @property
    def degraded(self) -> str:
        """Why the reply is less than was asked for, such as an empty index; normally ""."""
        return self.reply.ranking.degraded

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time by stage; questions of one batch share it equally."""
        return self.reply.seconds

    @property
    def explanation(self) -> "Explanation | None":
        """How the graph ranked; None unless `explain` was set and the graph was asked."""
        return self.reply.explanation


def hits_of(reply: Reply, passages: Mapping[str, Passage], *, explain: bool) -> Hits:
    """The hits of a reply, with their passages by id."""
    hits = []
    relevance = reply.relevance or [None] * len(reply.ranking.hits)
    for ranked, probability in zip(reply.ranking.hits, relevance, strict=True):
        passage = passages[ranked.id]
        content = passage.title, passage.text, passage.metadata
        why = _why(ranked, reply) if explain else ""
        twins = reply.duplicates.get(ranked.id, ())
        hits.append(Hit(ranked.id, ranked.rank, ranked.score, *content, probability, why, twins))
    return Hits(hits, reply)


def _why(ranked: RankedHit, reply: Reply) -> str:
    ranks = [
        f"{name} {hit.rank}"
        for name, ranking in reply.arms.items()
        for hit in ranking.hits
        if hit.id == ranked.id
    ]
    sources = ranked.sources
    ranks += [f"{Route.STEPS} {each.rank}" for each in sources if each.retriever == Route.STEPS]
    notes = reply.explanation.passages if reply.explanation else ()
    entities = [entity for note in notes if note.id == ranked.id for entity in note.entities]
    candidates = [name for step in reply.chain for name in step.candidates if name.put_in]
    names = [candidate.name for candidate in candidates if candidate.passage == ranked.id]
    return (
        ", ".join(ranks)
        + (f"; names {', '.join(entities)}" if entities else "")
        + (f"; gave {', '.join(dict.fromkeys(names))}" if names else "")
    )
