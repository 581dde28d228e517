"""What the service needs of those below it; `router.container.Container` is the real one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from backends.types import Passage, PassageAnalyser
from router.decision import Decision
from router.policy import Policy
from router.types import Reply, Route


class Searching(Protocol):
    """What answers questions; `router.gateway.Gateway` is the real one."""

    def search(
        self,
        questions: Sequence[str],
        route: Route,
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Reply]:
        """One reply per question, in order."""
        ...

    def decide(
        self,
        questions: Sequence[str],
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        """Which route each question would take, in order."""
        ...


class Engine(Protocol):
    """One version of an index with all that searching it takes."""

    @property
    def gateway(self) -> Searching:
        """What answers questions."""
        ...

    @property
    def folder(self) -> Path:
        """Of the index."""
        ...

    @property
    def reader(self) -> PassageAnalyser:
        """The models for passages that are to be added; asked in the thread that searches."""
        ...

    @property
    def version(self) -> int:
        """Of the index, that is searched."""
        ...

    @property
    def count(self) -> int:
        """How many passages that version has."""
        ...

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" without one."""
        ...

    @property
    def policy(self) -> Policy | None:
        """What becomes of scores; None without a router."""
        ...

    def build(self) -> None:
        """Build all arms now rather than when a question first needs one."""
        ...

    def passages(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        """Id -> passage in the version that is searched."""
        ...

    def successor(self) -> "Engine | None":
        """The newest version, or None when this is it."""
        ...

    def retuned(self) -> "Engine | None":
        """The same version under the newest thresholds, or None when these are they."""
        ...

    def release(self) -> None:
        """Let go of the version and its arms at once; nothing may be asked any more."""
        ...

    def close(self) -> None:
        """End what the models started."""
        ...
