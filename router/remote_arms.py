"""Remote arms as those see them who ask many questions at leisure, to learn from the answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from router.remote_fusion import Scores


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What is known of a remote arm before it is asked.

    Attributes:
        role: "simple", "graph" or "list".
        address: Digest of all that its answers depend on: where it is, and how it is asked.
        price: Of a call.
        depth: Hits that it is asked for.
        scores: What its scores are.
        weight: Of its list in fusion.
        prefix: What its ids begin with in an answer; "" where they are those of the collection.
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
        """Whether it stands for our text arms."""
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
    """What became of asking.

    Attributes:
        hits: Best first.
        ms: That it took.
        spent: What it cost.
        reason: Why there is no answer; "" where there is one.
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
    """Arms of one collection, asked in the manners of the gateway."""

    arms: Sequence[ArmFacts]

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def ask(self, questions: Sequence[ArmQuestion]) -> Iterator[tuple[int, ArmAnswer]]:
        """Place and answer of each, as they come; an arm is asked no faster than it may be."""
        ...


class OpenArms(Protocol):
    """Reads an arms file."""

    def __call__(self, path: Path, *, collection: str, has_index: bool) -> RemoteAsker:
        """The arms of a collection; the first where it is ""."""
        ...
