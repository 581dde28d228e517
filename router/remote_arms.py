"""Interface to remote arms for offline work, which learns from the answers to many questions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from wye.router.remote_fusion import Scores


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What is known of a remote arm before it is asked.

    Attributes:
        role: "simple", "graph" or "list".
        address: Digest of all that its answers depend on: where it is and how it is asked.
        price: Price of a call.
        depth: Hits that it is asked for.
        scores: Meaning of its scores.
        weight: Weight of its list in fusion.
        prefix: Prefix of its ids in an answer; "" if they are the collection's own ids.
    """

    name: str
    role: str
    address: str
    price: float
    depth: int
    scores: Scores
    weight: float
    prefix: str

    @property
    def is_simple(self) -> bool:
        """Whether it replaces our text arms."""
        return self.role == "simple"


@dataclass(frozen=True, slots=True)
class AskedHit:
    """A passage, under the arm's own id."""

    id: str
    title: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """A remote arm's answer, or why there is none.

    Attributes:
        hits: Hits, best first.
        ms: Time that the call took.
        spent: Cost of the call.
        reason: Why there is no answer; "" if there is one.
    """

    hits: tuple[AskedHit, ...]
    ms: float
    spent: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ArmQuestion:
    """One question for one arm; the filter is parsed JSON."""

    arm: str
    text: str
    filter: object | None = None


class RemoteAsker(Protocol):
    """The remote arms of one collection, called as the service calls them."""

    arms: Sequence[ArmFacts]

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def ask(self, questions: Sequence[ArmQuestion]) -> Iterator[tuple[int, ArmAnswer]]:
        """Position and answer of each question, as they come, within each arm's rate limit."""
        ...


class OpenArms(Protocol):
    """Reads an arms file."""

    def __call__(self, path: Path, *, collection: str, has_index: bool) -> RemoteAsker:
        """The arms of a collection; of the first one if it is ""."""
        ...
