"""What the service needs of those below it; `router.container.Container` is the real one."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from backends.types import Passage
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
        explain: bool = False,
    ) -> list[Reply]:
        """One reply per question, in order."""
        ...


@runtime_checkable
class Deciding(Protocol):
    """A gateway that can say which route a question would take."""

    def route(self, questions: Sequence[str]) -> Sequence[Any]:
        """One decision per question, in order."""
        ...


class Engine(Protocol):
    """One version of an index with all that searching it takes."""

    @property
    def gateway(self) -> Searching:
        """What answers questions."""
        ...

    @property
    def version(self) -> int:
        """Of the index, that is searched."""
        ...

    @property
    def count(self) -> int:
        """How many passages that version has."""
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

    def close(self) -> None:
        """End what the models started."""
        ...
