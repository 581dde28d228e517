"""A job: an upload that is written while nobody waits for it."""

from dataclasses import dataclass
from enum import StrEnum


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
        id: Ids of later jobs are greater.
        collection: That it is written to.
        documents: Of the upload.
        passages: That they were cut into.
        created: When the upload was accepted.
        state: Where it stands.
        done: Passages that are committed.
        added: Of these, those that are new.
        updated: Those that replaced others.
        unchanged: Those that were there like this already.
        removed: Former chunks that their documents no longer have.
        started: When writing began; None before.
        finished: When it ended; None before.
        index_version: Of its newest commit; None before the first.
        attempts: How often it was begun since anything was committed.
        waits_for: Who is writing, while it waits for them.
        error: Why it failed, or "".
    """

    id: str
    collection: str
    documents: int
    passages: int
    created: float
    state: State = State.QUEUED
    done: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    started: float | None = None
    finished: float | None = None
    index_version: int | None = None
    attempts: int = 0
    waits_for: str = ""
    error: str = ""

    def rate(self, now: float) -> float | None:
        """Passages a second since it began; None before."""
        if self.started is None:
            return None
        return self.done / max((self.finished or now) - self.started, 1e-3)
