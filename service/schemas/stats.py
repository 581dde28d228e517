"""`/v1/stats`."""

from typing import Literal

from pydantic import BaseModel, Field

from router.types import Route


class RouteTimesValue(BaseModel):
    """Answers over one route."""

    count: int
    share: float = Field(description="Of the answers remembered.")
    p50_ms: float = Field(description="Median time from queueing to the passages.")
    p95_ms: float


class FilesValue(BaseModel):
    """What an index has on the disk."""

    fragments: dict[str, int] = Field(
        description="Of the version searched: their `count`, their `rows`, `deleted rows` of them."
    )
    derived: dict[str, int] = Field(
        description=(
            "What is kept that was derived, and mapped by who opens the index: `of version`, "
            "`bytes`, and those of each part. Empty where nothing is kept."
        )
    )
    mapped_bytes: int | None = Field(
        description=(
            "Of derived files that this worker maps, and shares with all who do. Null where the "
            "system does not tell."
        )
    )
    waits: dict[str, str] = Field(
        description="What a new `base`, a `merge` of fragments and a `write` wait for, in words."
    )


class ScoresValue(BaseModel):
    """What the router made of one collection's questions, and how it comes to routes."""

    collection: str
    router: str = Field(description="Name and version of its model; empty without a router.")
    routes: dict[Route, RouteTimesValue] = Field(
        description="This collection's answers, by the route that gave them."
    )
    scores: list[float] = Field(description="Of the answers remembered, oldest first.")
    thresholds: dict[str, float] | None = Field(
        description=(
            "`low`, `high` and `steps`, as they are now: a thresholds file that is replaced counts "
            "from then on. Null without a router."
        )
    )
    simple: Route | None = Field(description="The route of scores up to `low`.")
    latency_ms: dict[str, float] = Field(
        description="What the thresholds file says each route takes, for `max_latency_ms`."
    )
    files: FilesValue | None = Field(description="Null where there is no index here.")
    error: str = Field(
        description=(
            "What is wrong with the newest index or with the thresholds file, so that those before "
            "are still in use; empty while nothing is."
        )
    )


class RemoteArmValue(BaseModel):
    """A remote arm, and what it cost."""

    arm: str
    collection: str
    state: Literal["closed", "open", "half-open"] = Field(description="Of its circuit breaker.")
    usual_ms: float = Field(description="Median of its last answers; 0 before the first.")
    spent: float = Field(description="On its calls, by this worker since it began.")
    saved: float = Field(
        description="What calls would have cost that the router did without; likewise."
    )


class RecentQuestion(BaseModel):
    """One of the last questions."""

    time: float = Field(description="Seconds since 1970.")
    question: str
    collection: str
    asked: Route
    route: Route
    score: float | None
    ms: float
    degraded: str = Field(description="Kind of degradation; empty for none.")


class StatsReply(BaseModel):
    """The last answers of the process that answers this, and of no other."""

    worker: int = Field(description="Process id of the worker whose figures these are.")
    workers: int = Field(description="How many there are; `/metrics` has the counts of all.")
    own_bytes: int | None = Field(
        description=(
            "Memory that this worker shares with nobody: models, and arrays that are not mapped. "
            "Null where the system does not tell."
        )
    )
    uptime_seconds: int
    answered: int = Field(description="By this worker since it began.")
    remembered: int = Field(description="Of these, the last; all below is about them.")
    last_minute: int = Field(description="Of the answers remembered, those of the last minute.")
    queue_depth: int
    routes: dict[Route, RouteTimesValue] = Field(description="By the route that answered.")
    degraded: dict[str, int] = Field(
        description=(
            "By kind: failed, late, or arm where a single arm was asked, and had nothing to go by."
        )
    )
    collections: list[ScoresValue]
    remote_arms: list[RemoteArmValue] = Field(description="Those of the arms file.")
    spent: float = Field(description="On calls of remote arms, by this worker since it began.")
    saved: float = Field(
        description="What calls of remote arms would have cost that the router did without."
    )
    max_cost_per_day: float | None = Field(
        description="Most that the key which asks this may spend on them; null without a bound."
    )
    spent_today: float | None = Field(
        description=(
            "Of that, by all workers since midnight UTC; null without a bound, and where the file "
            "that keeps it cannot be read."
        )
    )
    keys_error: str = Field(
        description="What is wrong with the keys file, so that some keys open nothing, or empty."
    )
    questions: list[RecentQuestion] | None = Field(
        description=(
            "The last questions, newest first; null unless the server keeps a request log and the "
            "key, where keys are needed, has the scope `admin`."
        )
    )
