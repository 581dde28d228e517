"""The base of every kind of remote arm: its settings, and how hits are read from a reply."""

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wye.backends.errors import FilterError
from wye.backends.types import Metadata
from wye.router.remote import Scores
from wye.service.errors import ServiceError

LONGEST_TIMEOUT_MS = 60_000
LONGEST_ID = 2_048
Role = Literal["graph", "list", "simple"]
Encode = Callable[[str], Awaitable[Sequence[float]]]
"""Encodes a question with the collection's encoder."""


class ArmConfig(BaseModel):
    """A table `[arms.NAME]`: the settings that arms of every kind have.

    Attributes:
        kind: A name in `wye.service.arms.KINDS`.
        role: "graph" replaces the graph; "list" adds a list to fusion; "simple" replaces our text
            arms in a collection without an index.
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


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """A passage that a remote arm returned.

    Attributes:
        score: The arm's own score; higher is better.
        metadata: A flat mapping.
    """

    id: str
    text: str
    title: str
    score: float
    metadata: Metadata


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


C = TypeVar("C", bound=ArmConfig)


class Kind(ABC, Generic[C]):
    """How arms of one kind are called; a new kind is a subclass.

    Attributes:
        Config: Schema of its table in the arms file.
        config: The table's settings.
    """

    Config: ClassVar[type[ArmConfig]]

    def __init__(self, config: C) -> None:
        """Keep the settings; the first call connects.

        Raises:
            ServiceError: A variable or package that the table needs is missing.
        """
        self.config = config

    def check_filter(self, filter_: object) -> None:
        """Refuse (`FilterError`) a filter, as parsed JSON, that the service cannot apply."""
        del filter_
        raise FilterError(f"an arm of the kind '{self.config.kind}' cannot filter")

    @abstractmethod
    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, best first.

        Args:
            filter_: Parsed JSON that `check_filter` accepts; the caller checks the hits against it.

        Raises:
            ArmError: There is no answer.
        """

    def use(self, encode: Encode) -> None:
        """Set the collection's encoder, which only kinds that compare vectors need."""

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
    if isinstance(id_, str) and len(id_) > LONGEST_ID:
        raise Garbled(f"an id has more than {LONGEST_ID} characters")
    if not isinstance(text, str) or not text.strip():
        raise Garbled("a passage has no text")
    if score is None:
        number = 0.0
    elif isinstance(score, bool) or not isinstance(score, int | float):
        raise Garbled("a score is not a number")
    else:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise Garbled("a score is not finite")
    title_text = title if isinstance(title, str) else ""
    return RemoteHit(_clean(str(id_)), _clean(text), _clean(title_text), number, flat(metadata))


def flat(metadata: object) -> Metadata:
    """The entries of an object that filters and replies support: scalars and lists of them."""
    if not isinstance(metadata, Mapping):
        return {}
    entries: dict[str, Any] = {}
    for key, value in metadata.items():
        if isinstance(value, list):
            if all(_is_scalar(item) for item in value):
                entries[_clean(str(key))] = [_clean_value(item) for item in value]
        elif _is_scalar(value):
            entries[_clean(str(key))] = _clean_value(value)
    return entries


def parse_json(body: bytes) -> object:
    """Parse a body as JSON; `Garbled` if it is not JSON."""
    try:
        content: object = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbled("it is not JSON") from None
    return content


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int | bool)


def _clean_value(value: object) -> object:
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON may hold but UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


MISSING = object()
"""Result of a pointer that leads nowhere."""
_POINTER = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*")


def check_pointer(pointer: str) -> str:
    """Return the pointer if it is valid, else raise a `ValueError`."""
    if not _POINTER.fullmatch(pointer):
        raise ValueError("write a JSON pointer, such as /data/hits; empty for the whole reply")
    return pointer


Pointer = Annotated[str, AfterValidator(check_pointer)]


def at(value: object, pointer: str) -> object:
    """The value at a pointer in parsed JSON; `MISSING` if there is none."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]*", name):
            value = value[int(name)] if int(name) < len(value) else MISSING
        else:
            return MISSING
    return value


def value_at(value: object, pointer: str) -> object:
    """The value at an optional pointer; None if it is missing or the pointer is empty."""
    target = at(value, pointer) if pointer else None
    return None if target is MISSING else target


def names_in(template: object) -> set[str]:
    """All strings in a template, also those in lists and tables."""
    if isinstance(template, str):
        return {template}
    if isinstance(template, Mapping):
        return set().union(*map(names_in, template.values()))
    if isinstance(template, list):
        return set().union(*map(names_in, template))
    return set()


def fill(template: object, values: Mapping[str, object]) -> object:
    """Fill a template: values replace strings such as "{question}".

    Only whole strings are replaced, and only once, so that text in a question is not taken for
    part of a template. Entries with the value `MISSING` are left out.
    """
    if isinstance(template, str):
        return values.get(template, template)
    if isinstance(template, Mapping):
        entries = ((key, fill(value, values)) for key, value in template.items())
        return {key: value for key, value in entries if value is not MISSING}
    if isinstance(template, list):
        items = (fill(value, values) for value in template)
        return [value for value in items if value is not MISSING]
    return template


_RANK = re.compile(r"/\*(?=/|$)")


class HitConfig(ArmConfig):
    """An arm whose reply has a list of hits; pointers say where the list and its parts are.

    Attributes:
        hits: The list, in the reply.
        empty: What only replies without a list have, where nothing was found; empty for none.
        id: The id, in a hit; as for all below. Empty to make one of the text. A pointer with "/*"
            leads from the reply instead, with the number of the hit, from 0, for the star.
        text: The passage's text.
        title: Its title; empty for none, as for all below.
        score: Its score, where higher is better; without one, only the order counts.
        metadata: A flat object; needed for filters.
    """

    hits: Pointer
    empty: Pointer = ""
    id: Pointer
    text: Pointer
    title: Pointer = ""
    score: Pointer = ""
    metadata: Pointer = ""

    def read(self, reply: object, k: int) -> tuple[RemoteHit, ...]:
        """Read at most k hits of a reply; `Garbled` without a list, or a hit's id or text."""
        if self.empty and at(reply, self.empty) is not MISSING:
            return ()
        hits = at(reply, self.hits)
        if not isinstance(hits, list):
            raise Garbled(f"there is no list at {self.hits or 'its top'}")
        return tuple(self._hit(reply, hit, rank) for rank, hit in enumerate(hits[:k]))

    def _hit(self, reply: object, hit: object, rank: int) -> RemoteHit:
        def field(pointer: str) -> object:
            from_reply, count = _RANK.subn(f"/{rank}", pointer)
            return value_at(reply, from_reply) if count else value_at(hit, pointer)

        text = field(self.text) if self.text else hit
        id_ = field(self.id)
        if not self.id and isinstance(text, str):
            id_ = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        return remote_hit(id_, text, *map(field, (self.title, self.score, self.metadata)))
