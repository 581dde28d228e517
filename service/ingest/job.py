"""A job: its fields, and how they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated

from pydantic import FiniteFloat, Strict, TypeAdapter


class State(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether the state is final."""
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """A job and its progress; times are seconds since 1970.

    Attributes:
        documents: How many documents it has.
        passages: How many passages these were cut into.
        done: Passages that are committed.
        removed: Former chunks that the documents no longer have.
        index_version: Version of its newest commit; None before the first.
        attempts: How often it was begun since its last commit.
        waits_for: The writer, the models or the next try that it is waiting for, or "".
        error: What in its documents made it fail, or "".
    """

    id: Annotated[str, Strict()]  # a blob would be no row that can be changed
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
        """Passages a second since it began; None before that."""
        if self.started is None:
            return None
        return self.done / max((self.finished or now) - self.started, 1e-3)


FIELDS = tuple(field.name for field in fields(Job) if field.name != "collection")
"""Stored fields; a collection's name is the server's own and is not stored."""

_JOB = TypeAdapter(Job)


def parse_job(values: Sequence[object], collection: str = "") -> Job:
    """Make a job of its stored values, in the order of `FIELDS`, or raise a `ValueError`."""
    return _JOB.validate_python(
        {**dict(zip(FIELDS, values, strict=True)), "collection": collection}
    )


def unreadable(id_: str, now: float, reason: str, collection: str = "") -> Job:
    """A failed job, listed in place of one that cannot be read."""
    error = f"It cannot be read ({reason}). Send its documents again."
    return Job(id_, collection, 0, 0, now, State.FAILED, finished=now, error=error)
