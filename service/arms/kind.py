"""The base of every kind of remote arm: its settings, and how hits are read from a reply."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from wye.backends.types import Metadata
from wye.router.remote import RemoteHit, Scores
from wye.service.errors import ServiceError

LONGEST_TIMEOUT_MS = 60_000
LONGEST_ID = 2_048
Role = Literal["graph", "list"]
Encode = Callable[[str], Awaitable[Sequence[float]]]
"""Encodes a question with the collection's encoder."""


class ArmError(ServiceError):
    """A failed call; the message is for clients, and names neither address nor secret.

    Attributes:
        outcome: A word for metrics.
        retry: Whether another attempt is safe and may help.
        charged: Whether the call probably has to be paid for.
        fault: Whether the arm is at fault, rather than the question.
        wait: Seconds after which the arm wants to be asked again; None if it does not say.
    """

    def __init__(
        self,
        reason: str,
        *,
        outcome: str = "failed",
        retry: bool = False,
        charged: bool = True,
        fault: bool = True,
        wait: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.retry = retry
        self.charged = charged
        self.fault = fault
        self.wait = wait


class Garbled(ArmError):  # noqa: N818 - it describes the reply
    """A reply that cannot be read."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"sent an unreadable reply: {fault}", outcome="garbled")


class Kind(BaseModel, ABC):
    """A table `[arms.NAME]`: the settings that arms of every kind have, and how one is called.

    A subclass is a kind; its first call connects. Making one raises a `ServiceError` if a variable
    or package that the table needs is missing.

    Attributes:
        kind: A name in `wye.service.arms.KINDS`.
        role: "graph" replaces the graph; "list" adds a list to fusion.
        collection: The collection it belongs to; by default the first.
        timeout_ms: Longest time for a call, including retries; a request's deadline may be nearer.
        price: Price of a call, in any currency; the greatest if calls differ.
        max_concurrency: Most concurrent calls of each worker.
        retries: Most further attempts after errors that make another one safe; a call that has
            its price is not repeated.
        scores: The kind of its scores: "cosine", "bm25" or "mass" are added to our own scores; with
            "rank" only the order counts.
        weight: Weight of its list in fusion; our own lists have 1.
        depth: Hits to ask for, unless a request wants more.
        same_ids: Whether it has the ids of the collection, so that equal ids are one passage.
        open_after: Failures in a row after which it is not called for a while.
        open_seconds: How long it is not called; then a single call tries again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: str
    role: Role
    collection: str = ""
    timeout_ms: Annotated[int, Field(ge=1, le=LONGEST_TIMEOUT_MS)] = 3_000
    price: Annotated[float, Field(ge=0)] = 0.0
    max_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 8
    retries: Annotated[int, Field(ge=0, le=5)] = 1
    scores: Scores = "rank"
    weight: Annotated[float, Field(gt=0, le=100)] = 1.0
    depth: Annotated[int, Field(ge=1, le=200)] = 20
    same_ids: bool = False
    open_after: Annotated[int, Field(ge=1)] = 5
    open_seconds: Annotated[float, Field(gt=0)] = 10.0
    _encode: Encode | None = PrivateAttr(None)

    @property
    def filter_fault(self) -> str:
        """Why the service cannot apply filters; "" if it can."""
        return f"an arm of the kind '{self.kind}' cannot filter"

    @abstractmethod
    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, best first.

        Args:
            filter_: Parsed JSON, only if it can be applied; the caller checks hits against it.

        Raises:
            ArmError: There is no answer.
        """

    def use(self, encode: Encode) -> None:
        """Set the collection's encoder, which only kinds that compare vectors need."""
        self._encode = encode

    async def close(self) -> None:
        """Close its connections."""


def remote_hit(
    id_: object, text: object, title: object = "", score: object = None, metadata: object = None
) -> RemoteHit:
    """Make a hit of parts of parsed JSON.

    Raises:
        Garbled: The text or the id is missing, the id is too long, or the score is not a number.
    """
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        raise Garbled("a passage has no id")
    if len(str(id_)) > LONGEST_ID:
        raise Garbled(f"an id has more than {LONGEST_ID} characters")
    if not isinstance(text, str) or not text.strip():
        raise Garbled("a passage has no text")
    score = 0.0 if score is None else score
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not abs(score) <= sys.float_info.max:  # type: ignore[arg-type]
        raise Garbled("a score is not a finite number")
    title = title if isinstance(title, str) else ""
    return RemoteHit(_clean(str(id_)), _clean(text), _clean(title), float(score), flat(metadata))  # type: ignore[arg-type]


def flat(metadata: object) -> Metadata:
    """The entries of an object that filters and replies support: scalars and lists of them."""
    entries: dict[str, Any] = {}
    for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
        scalars = value if isinstance(value, list) else [value]
        if all(map(_is_scalar, scalars)):
            cleaned = [_clean(each) if isinstance(each, str) else each for each in scalars]
            entries[_clean(str(key))] = cleaned if isinstance(value, list) else cleaned[0]
    return entries


def _is_scalar(value: object) -> bool:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, str | int | float) and is_finite


def _clean(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON may hold but UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
