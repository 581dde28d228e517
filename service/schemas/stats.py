"""`/v1/stats`."""

from typing import Literal

from pydantic import BaseModel, Field

from wye.router.types import Route


class RouteTimesValue(BaseModel):
    """Remembered answers of one route."""

    count: int
    share: float = Field(description="Share of the remembered answers, from 0 to 1.")
    p50_ms: float = Field(description="Median time from queueing to the passages.")
    p95_ms: float = Field(description="95th percentile of that time.")


class FilesValue(BaseModel):
    """Files of an index."""

    fragments: dict[str, int] = Field(
        description="Fragments of the searched version: `count`, `rows`, `deleted rows` of these."
    )
    derived: dict[str, int] = Field(
        description=(
            "Derived files, which every process that opens the index maps: `of version` is the "
            "version they belong to, `bytes` their size, and the rest the size of each part. Empty "
            "if none are kept."
        )
    )
    mapped_bytes: int | None = Field(
        description=(
            "Bytes of derived files that this server maps, and shares with other processes. Null "
            "if the system does not tell."
        )
    )
    waits: dict[str, str] = Field(
        description="What a new `base`, a `merge` of fragments and a `write` wait for, in words."
    )


class ScoresValue(BaseModel):
    """Routes, scores and thresholds of one collection."""

    collection: str
    router: str = Field(description="Name and version of its model; empty without a router.")
    routes: dict[Route, RouteTimesValue] = Field(
        description="The collection's remembered answers, by the route that answered."
    )
    scores: list[float] = Field(description="Scores of the remembered answers, oldest first.")
    thresholds: dict[str, float] | None = Field(
        description=(
            "The present `low`, `high` and `steps`; they change when the thresholds file does. "
            "Null without a router."
        )
    )
    simple: Route | None = Field(
        description="The route for scores up to `low`; null without a router."
    )
    latency_ms: dict[str, float] = Field(
        description=(
            "Milliseconds that each route takes according to the thresholds file; "
            "`max_latency_ms` is compared with them."
        )
    )
    files: FilesValue | None = Field(
        description="Files of the index; null if this server has no index, or the key a filter."
    )
    error: str = Field(
        description=(
            "What is wrong with the newest index or thresholds file, so that the former one stays "
            "in use; empty if nothing is wrong."
        )
    )


class RemoteArmValue(BaseModel):
    """A remote arm and what it cost."""

    arm: str
    collection: str
    state: Literal["closed", "open", "half-open"] = Field(
        description="State of its circuit breaker."
    )
    usual_ms: float = Field(description="Median time of its last answers; 0 before the first.")
    spent: float = Field(description="What this server's calls of it cost since it started.")
    saved: float = Field(
        description="What the calls that the router avoided in that time would have cost."
    )


class RecentQuestion(BaseModel):
    """One of the last questions."""

    time: float = Field(description="Time of the answer, in seconds since 1970.")
    question: str
    collection: str
    asked: Route
    route: Route
    score: float | None
    ms: float
    degraded: str = Field(description="Kind of degradation; empty if there was none.")


class StatsReply(BaseModel):
    """Figures of the server that answers this request, and of no other."""

    worker: int = Field(description="Process id of this server.")
    own_bytes: int | None = Field(
        description=(
            "Bytes of memory that this server shares with no other process: models, and arrays "
            "that are not mapped. Null if the system does not tell."
        )
    )
    uptime_seconds: int
    answered: int = Field(description="Questions that this server answered since it started.")
    remembered: int = Field(
        description="Number of latest answers, at most a thousand, that routes and scores cover."
    )
    last_minute: int = Field(description="Remembered answers of the last minute.")
    queue_depth: int = Field(description="Questions that are waiting.")
    routes: dict[Route, RouteTimesValue] = Field(
        description="Remembered answers, by the route that answered."
    )
    degraded: dict[str, int] = Field(
        description=(
            "Remembered answers that were not what was asked for, by kind: `failed`, `late`, or "
            "`arm` for any other, such as one of a single arm that had nothing to go by."
        )
    )
    collections: list[ScoresValue]
    remote_arms: list[RemoteArmValue] = Field(description="Remote arms in the arms file.")
    spent: float = Field(
        description="What this worker's calls of remote arms cost since it started."
    )
    saved: float = Field(
        description="What the calls of remote arms that the router avoided would have cost."
    )
    max_cost_per_day: float | None = Field(
        description="Most that the asking key may spend on remote arms in a day; null if unlimited."
    )
    spent_today: float | None = Field(
        description=(
            "What the asking key has spent with all servers since midnight UTC; null if it is "
            "unlimited or if the file of budgets cannot be read."
        )
    )
    keys_error: str = Field(
        description="What is wrong with the keys file, so that some keys do not work; or empty."
    )
    questions: list[RecentQuestion] | None = Field(
        description=(
            "The last questions, newest first. Null unless the server keeps a request log and the "
            "key has the scope `admin` or no keys are needed."
        )
    )
