"""What a job is, and what is stored of it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from pydantic import FiniteFloat, TypeAdapter

from backends.types import Passage


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of one; times are seconds since 1970.

    Attributes:
        passages: That its documents were cut into.
        done: Passages that are committed.
        removed: Former chunks that their documents no longer have.
        index_version: Of its newest commit; None before the first.
        attempts: How often it was begun since anything was committed.
        waits_for: Who is writing, while it waits for them.
        error: Why it failed, or "".
    """

    id: str
    collection: str
    documents: int
    passages: int
    created: FiniteFloat
    state: State = State.QUEUED
    done: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    started: FiniteFloat | None = None
    finished: FiniteFloat | None = None
    index_version: int | None = None
    attempts: int = 0
    waits_for: str = ""
    error: str = ""

    def rate(self, now: float) -> float | None:
        """Passages a second since it began; None before."""
        if self.started is None:
            return None
        return self.done / max((self.finished or now) - self.started, 1e-3)


FIELDS = tuple(field.name for field in fields(Job) if field.name != "collection")
"""What is stored; the name of the collection is the server's."""

_JOB = TypeAdapter(Job)
_PASSAGE = TypeAdapter(Passage)


def parse_job(values: Sequence[object], collection: str = "") -> Job:
    """A job as it is stored, field by field.

    Raises:
        ValueError: It is none.
    """
    return _JOB.validate_python(
        {**dict(zip(FIELDS, values, strict=True)), "collection": collection}
    )


def parse_passage(line: str | bytes) -> Passage:
    """A passage as it is stored.

    Raises:
        ValueError: It is none.
    """
    return _PASSAGE.validate_json(line)


def unreadable(id_: str, now: float, reason: str, collection: str = "") -> Job:
    """What is listed in the place of a job that cannot be read."""
    error = f"It cannot be read ({reason}). Send its documents again."
    return Job(id_, collection, 0, 0, now, State.FAILED, finished=now, error=error)
