"""Calls to the shards of an index: to all at once, several as one, within the time of a question.

A shard that fails is left out until `revive` reaches it again. One that is too late for a question
is left out of that question.
"""

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from time import monotonic
from typing import Any, Protocol, TypeVar

from router.errors import ShardError

FOREIGN = "was written with other models than this server's"
"""Why a shard is not asked."""
LATE = "did not answer within the time of the question"
"""Why a shard is left out of a batch."""
LOST = "(its shard is lost)"
"""Placeholder for the text of a passage whose shard does not answer."""

T = TypeVar("T")
Call = tuple[str, Mapping[str, Any]]
"""One of `shard.CALLS` and its arguments."""
Answers = dict[str, Any]
"""Name of a shard -> its answer to a call."""
Work = Generator[Sequence[Call], Sequence[Answers], T]
"""What is to be found out with some calls, which it yields; it is sent their answers."""


class ShardClient(Protocol):
    """A connection to a shard."""

    @property
    def name(self) -> str:
        """Name to show to people."""
        ...

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """The answers to some calls, in order; may be called in two threads.

        Raises:
            ShardError: There is no answer in time; the message says why.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(slots=True)
class _Known:
    """What is known of the shards; dicts are replaced, never changed."""

    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Shards:
    """All shards of an index, asked in parallel.

    Attributes:
        lost: Shards left out of a batch -> why; see `within`.
    """

    def __init__(
        self, clients: Sequence[ShardClient], pins: Mapping[str, str] | None = None
    ) -> None:
        """Ask each shard about itself.

        Args:
            clients: The shards.
            pins: Models that each must have been written with; None to skip the check.

        Raises:
            ShardError: No shard answers.
        """
        self._clients, self._pins = clients, pins
        # Two threads each, so that a call that was given up does not hold up the next one.
        self._pools = {one.name: ThreadPoolExecutor(2, "wye-shard") for one in clients}
        self._known, self._lock = _Known(), Lock()
        self._until: float | None = None
        self.lost: dict[str, str] = {}
        self.revive()

    @property
    def about(self) -> Mapping[str, Mapping[str, Any]]:
        """Name of a shard -> its answer to "about"."""
        return self._known.about

    @property
    def missing(self) -> dict[str, str]:
        """Name of a shard that is left out -> why, in the order of the shards."""
        both = {**self._known.missing, **self.lost}
        return {one.name: both[one.name] for one in self._clients if one.name in both}

    def within(self, until: float) -> "Shards":
        """The same shards for one batch, whose calls all end by `until`, a time of `monotonic`.

        A call may take half of the time that is left, so that some is left for the others. A shard
        that takes longer, or is missing at any time, is left out of the rest of the batch: it would
        not know the batch's walks.
        """
        own = copy(self)
        own._until, own.lost = until, self.missing
        return own

    def revive(self) -> bool:
        """Ask each shard about itself again.

        Returns:
            Whether anything has changed.

        Raises:
            ShardError: No shard answers.
        """
        before = self.about, self._known.missing
        found = {
            name: one for name, (one,) in self._answers(self._clients, [("about", {})]).items()
        }
        own = {name for name, one in found.items() if self._pins in (None, one.get("pins"))}
        foreign = dict.fromkeys(found.keys() - own, FOREIGN)
        with self._lock:
            failed = {name: why for name, why in self._known.missing.items() if name not in found}
            self._known.missing = failed | foreign
            self._known.about = {name: one for name, one in found.items() if name in own}
        self._require(own)
        return before != (self.about, self._known.missing)

    def ask(
        self,
        name: str,
        own: Mapping[str, Mapping[str, Any]] | None = None,
        **arguments: Any,  # noqa: ANN401
    ) -> Answers:
        """Ask all shards that are not missing.

        Args:
            name: Name of the call.
            own: Name of a shard -> further arguments for it alone.
            arguments: Arguments for all.

        Raises:
            ShardError: No shard answers.
        """
        return self._ask([(name, arguments)], own)[0]

    def together(self, works: Sequence[Work[T]]) -> list[T]:
        """Do some works side by side: what they ask for next goes to each shard as one call.

        Raises:
            ShardError: No shard answers.
        """
        done: dict[int, T] = {}
        told: dict[int, Any] = dict.fromkeys(range(len(works)))
        while told:
            asked: dict[int, Sequence[Call]] = {}
            for place, answers in told.items():
                try:
                    asked[place] = works[place].send(answers)
                except StopIteration as end:
                    done[place] = end.value
            calls = [call for own in asked.values() for call in own]
            found = iter(self._ask(calls) if calls else ())
            told = {place: [*islice(found, len(own))] for place, own in asked.items()}
        return [done[place] for place in range(len(works))]

    def total(self, what: str) -> int:
        """Sum of "passages", "terms" or "version" over the shards that are not missing."""
        missing = self.missing
        return sum(own[what] for name, own in self.about.items() if name not in missing)

    @property
    def has_phrases(self) -> bool:
        """Whether noun phrases are entities on any shard."""
        return any(own["phrases"] for own in self.about.values())

    def close(self) -> None:
        """Close the connections to all shards."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            self._pools[client.name].shutdown()
            client.close()

    def _ask(
        self, calls: Sequence[Call], own: Mapping[str, Mapping[str, Any]] | None = None
    ) -> list[Answers]:
        """For each call, the answers of the shards that are not missing."""
        missing = self.missing
        asked = [client for client in self._clients if client.name not in missing]
        found = self._answers(asked, calls, own)
        if self._until is not None:
            self.lost = self.missing
        self._require(found)
        return [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]

    def _answers(
        self,
        clients: Sequence[ShardClient],
        calls: Sequence[Call],
        own: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, list[Any]]:
        """Answers by name of shard; why others have none is in `missing`."""

        def ask(client: ShardClient) -> list[Any] | None:
            mine = (own or {}).get(client.name, {})
            try:
                return client.call([(name, {**given, **mine}) for name, given in calls])
            except ShardError as error:
                with self._lock:
                    failed = {client.name: str(error)}
                    self._known.missing = {**self._known.missing, **failed}
                return None

        asked = {one.name: self._pools[one.name].submit(ask, one) for one in clients}
        left = None if self._until is None else max(0.0, (self._until - monotonic()) / 2)
        late = wait(asked.values(), left).not_done
        for future in late:
            future.cancel()
        self.lost |= {name: LATE for name, future in asked.items() if future in late}
        answers = {name: one.result() for name, one in asked.items() if one not in late}
        return {name: one for name, one in answers.items() if one is not None}

    def _require(self, answers: object) -> None:
        if not answers:
            why = "; ".join(f"{name} {reason}" for name, reason in self.missing.items())
            raise ShardError(f"No shard answers: {why}.")


def call(name: str, **arguments: Any) -> Work[Answers]:  # noqa: ANN401
    """A call to all shards as work."""
    (found,) = yield [(name, arguments)]
    return found
