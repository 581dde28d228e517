"""A log with the router that decided it: what serves now, and what else could."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from router.model_files import read_policy, read_stated, save_policy
from router.policy import Policy
from router.settings import Settings
from router.types import Thresholds
from training.errors import LogError
from training.thresholds.outcomes import ThresholdObjective
from training.traffic.bounds import within
from training.traffic.log import Log, read_log
from training.traffic.redecide import Effect, as_served, effect, flips


@dataclass(frozen=True)
class Traffic:
    """What was asked, and the policy that serves.

    Attributes:
        log: What was asked.
        now: What becomes of scores now.
    """

    log: Log
    now: Policy

    @classmethod
    def load(cls, paths: Sequence[Path], settings: Settings, collection: str = "") -> "Traffic":
        """Read logs, and the router of the settings with its thresholds.

        Args:
            paths: Request logs, each once.
            settings: Name the router; no model is loaded.
            collection: To look at; may be left out where there is only one.

        Raises:
            JournalError: A log cannot be read.
            LogError: See `training.traffic.log.read_log`.
            ModelFileError: The router or its thresholds cannot be read.
        """
        own = settings.router
        router = read_stated(own.folder())
        policy = read_policy(Path(own.thresholds)) if own.thresholds else router.policy
        return cls(read_log(paths, router, collection), policy)

    @cached_property
    def served(self) -> Effect:
        """The routes that were taken."""
        return as_served(self.log.requests)

    @cached_property
    def present(self) -> Effect:
        """What the present policy makes of the same requests."""
        return effect(self.log.requests, self.now)

    def effect(self, policy: Policy) -> Effect:
        """What another policy makes of them."""
        return effect(self.log.requests, policy)

    def within(self, goal: ThresholdObjective) -> Policy:
        """See `training.traffic.bounds.within`."""
        return within(self.log.requests, self.now, goal)

    def candidate(self, text: str) -> Policy:
        """A policy as the command line has it: a thresholds file, or LOW,HIGH.

        Raises:
            ModelFileError: The file cannot be read, or is none.
            PolicyError: The numbers are not in order, or not from 0 to 1.
            LogError: These are other than two numbers.
        """
        if "," not in text or Path(text).exists():
            return read_policy(Path(text))
        try:
            low, high = map(float, text.split(","))
        except ValueError:
            raise LogError(
                f"'{text}' are no thresholds; give a file, or two numbers such as 0.3,0.8."
            ) from None
        return replace(self.now, thresholds=Thresholds(low, high))

    def notes(self) -> dict[str, Any]:
        """Where thresholds come from, for their file; no question is in it."""
        log = self.log
        return {
            "collection": log.collection,
            "router": log.model,
            "requests": len(log.requests),
            "questions": log.questions,
            "questions with marked passages": len(log.marked.questions),
            "first": log.first.isoformat(timespec="seconds"),
            "last": log.last.isoformat(timespec="seconds"),
            "index versions": list(log.versions),
        }

    def save(self, path: Path, policy: Policy, notes: Mapping[str, Any]) -> None:
        """Write a thresholds file that no judgement stands behind, to be reviewed.

        Args:
            path: Of the file; an older one is replaced.
            policy: To write.
            notes: What it was made for.
        """
        found = self.effect(policy)
        said = {
            "from": "a request log; no answer was judged",
            "log": self.notes(),
            "expected mean_ms": found.mean_ms if not found.unknown else None,
            "shares": {str(route): share for route, share in found.shares.items()},
            "requests that change route": sum(flips(self.present.routes, found.routes).values()),
            "instead_of": asdict(self.now.thresholds),
        }
        policy = replace(policy, router=self.log.model)
        save_policy(path, policy, {**said, **notes})
