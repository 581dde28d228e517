"""What every kind of remote arm has in common."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from backends.errors import FilterError
from backends.types import Metadata
from router.remote_fusion import Scores
from service.errors import ServiceError

if TYPE_CHECKING:
    from service.arms.embedding import Embedder

LONGEST_TIMEOUT_MS = 60_000
LONGEST_ID = 2_048
Role = Literal["graph", "list", "simple"]


class ArmConfig(BaseModel):
    """A table `[arms.NAME]`: what there is to say of an arm, whatever its kind.

    Attributes:
        kind: Of `service.arms.kinds.KINDS`.
        role: "graph" takes the graph's place; "list" is one more list in fusion; "simple" stands
            for our text arms in a collection without an index.
        collection: That it belongs to; the first without it.
        timeout_ms: Longest time for a call, retries included; a request's deadline may be nearer.
        price: Of one call, in whatever currency the operator counts; the most that it may be
            where a reply tells what it was.
        max_concurrency: Calls at the same time, from each worker.
        retries: Further tries where the first cannot have done anything.
        hedge_ms: Without an answer for so long, a second call is made, and the first to answer
            counts; 0 makes none.
        cache_seconds: How long an answer is kept for who asks the same; 0 keeps none.
        cache_entries: Kept at most, by each worker.
        cache_mb: Of memory that they may take, about.
        scores: What its scores are: "cosine", "bm25" or "mass" are added to our own scores, while
            of "rank" the order alone counts.
        weight: Of its list in fusion, beside 1 for our own.
        depth: Hits to ask for; more where a request wants more.
        same_ids: Whether its ids are those of the collection, so that a passage of both is one.
        open_after: Failures in a row after which it is not asked for a while.
        open_seconds: How long that is; then a single call tries whether it is back.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: str
    role: Role
    collection: str = ""
    timeout_ms: Annotated[int, Field(ge=1, le=LONGEST_TIMEOUT_MS)] = 3_000
    price: Annotated[float, Field(ge=0)] = 0.0
    max_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 8
    retries: Annotated[int, Field(ge=0, le=5)] = 1
    hedge_ms: Annotated[int, Field(ge=0)] = 0
    cache_seconds: Annotated[float, Field(ge=0)] = 0.0
    cache_entries: Annotated[int, Field(ge=1)] = 1_000
    cache_mb: Annotated[int, Field(ge=1)] = 16
    scores: Scores = "rank"
    weight: Annotated[float, Field(gt=0, le=100)] = 1.0
    depth: Annotated[int, Field(ge=1, le=200)] = 20
    same_ids: bool = False
    open_after: Annotated[int, Field(ge=1)] = 5
    open_seconds: Annotated[float, Field(gt=0)] = 10.0

    @model_validator(mode="after")
    def _hedges_in_time(self) -> Self:
        if self.hedge_ms >= self.timeout_ms:
            raise ValueError("hedge_ms: take less than timeout_ms")
        return self


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """A passage that a remote arm gave, with its text.

    Attributes:
        score: The arm's own; higher is better.
        metadata: Flat.
    """

    id: str
    text: str
    title: str
    score: float
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class RemoteHits:
    """What a remote arm gave.

    Attributes:
        hits: Best first.
        note: What it had to do without, or "".
        cost: What the call cost, where the arm tells; None where it is the price.
    """

    hits: tuple[RemoteHit, ...]
    note: str = ""
    cost: float | None = None


class ArmError(ServiceError):
    """A call that gave nothing; the message is for clients, and names neither address nor secret.

    Attributes:
        outcome: A word for metrics.
        retry: Whether another try is safe: this one cannot have done anything.
        charged: Whether the call has to be paid for, as far as one can tell.
        fault: Whether it speaks against the arm, and not against the question.
        wait: Seconds after which it wants to be asked again; None where it does not say.
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


class Garbled(ArmError):  # noqa: N818 - what came, not what went wrong here
    """A reply that cannot be read."""

    def __init__(self, what: str) -> None:
        super().__init__(f"sent what cannot be read: {what}", outcome="garbled")


C = TypeVar("C", bound=ArmConfig)


class Kind(ABC, Generic[C]):
    """How arms of one kind are asked; a subclass is all that a new kind takes.

    Attributes:
        Config: What its table in the file may say.
        config: What it says.
        embedder: Makes vectors of questions, if it compares vectors.
    """

    Config: ClassVar[type[ArmConfig]]
    embedder: "Embedder | None" = None

    def __init__(self, config: C) -> None:
        """Connect to nothing yet.

        Raises:
            ServiceError: What the table asks for is not there, such as a variable or a package.
        """
        self.config = config

    def translate(self, filter_: object) -> Any:  # noqa: ANN401 - as the service wants it
        """A filter in the words of the service, exactly.

        Args:
            filter_: Parsed JSON, well formed.

        Raises:
            FilterError: It cannot be said there; says why.
        """
        del filter_
        raise FilterError(f"an arm of the kind '{self.config.kind}' cannot filter")

    @abstractmethod
    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """At most k hits, best first.

        Args:
            filter_: Parsed JSON that `translate` takes; hits without the metadata that it asks for
                are dropped.

        Raises:
            ArmError: There is no answer.
        """

    async def close(self) -> None:
        """Let go of connections."""
        if self.embedder is not None:
            await self.embedder.close()


def remote_hit(
    id_: object, text: object, title: object = "", score: object = None, metadata: object = None
) -> RemoteHit:
    """A hit from parts of parsed JSON.

    Raises:
        Garbled: There is no text, no id or one that is far too long, or the score is no number.
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
        raise Garbled("a score is no number")
    else:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise Garbled("a score is not finite")
    said = title if isinstance(title, str) else ""
    return RemoteHit(_clean(str(id_)), _clean(text), _clean(said), number, flat(metadata))


def flat(metadata: object) -> Metadata:
    """What of an object filters and replies know: values, and lists of them."""
    if not isinstance(metadata, Mapping):
        return {}
    found: dict[str, Any] = {}
    for key, value in metadata.items():
        if isinstance(value, list):
            if all(_is_scalar(one) for one in value):
                found[_clean(str(key))] = [_cleaned(one) for one in value]
        elif _is_scalar(value):
            found[_clean(str(key))] = _cleaned(value)
    return found


def parsed(body: bytes) -> object:
    """A body as JSON.

    Raises:
        Garbled: It is none.
    """
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbled("it is no JSON") from None
    return found


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int | bool)


def _cleaned(value: object) -> object:
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode("utf-8")
