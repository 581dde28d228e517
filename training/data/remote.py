"""Asks remote arms every judged question once, keeps their answers, and makes replays of them.

An answer is saved as soon as it arrives, by question, arm and address, in a file that is only
appended to. However a run ends, the next one asks only what is missing. Failures are neither kept
nor learned from.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from time import monotonic, sleep

import numpy as np

from backends.progress import Progress, Silent
from backends.types import Query, RankedHit, Ranking
from router.fusion import FusionSettings, fuse_text
from router.passage_evidence import Returned
from router.remote_arms import ArmAnswer, ArmFacts, ArmQuestion, AskedHit, RemoteAsker
from router.remote_fusion import RemoteList, together
from router.text_evidence import SEEN
from router.types import ArmResults, Route
from training.data.dataset import Dataset, Question
from training.data.json_lines import keep_line, kept_lines
from training.data.replay import RemoteReplay, Replay, Replayed, ReplayKey
from training.data.replaying import contains_any, digest, words
from training.errors import TrainingError

CALLS = 0.01
"""Default cost of asking the remote arms for every question, in nDCG@10."""
DEPTH = 20
"""How many of our own hits are fused with the remote ones."""
_AT_ONCE = 16


class KeptAnswers:
    """Answers in a file of JSON lines; one process writes at a time."""

    def __init__(self, path: Path) -> None:
        """Read the file; lines that cannot be read are skipped."""
        self._path = path
        self._found: dict[str, ArmAnswer] = {}
        for row in kept_lines(path):
            with suppress(KeyError, TypeError):
                hits = tuple(AskedHit(**hit) for hit in row["hits"])
                self._found[row["key"]] = ArmAnswer(hits, row["ms"], row["spent"])

    def get(self, arm: ArmFacts, text: str, filter_: object | None) -> ArmAnswer | None:
        """An arm's answer to a question; None if there is none."""
        return self._found.get(_key(arm, text, filter_))

    def add(self, arm: ArmFacts, text: str, filter_: object | None, answer: ArmAnswer) -> None:
        """Save an answer; it is synced to the disk before this returns."""
        key = _key(arm, text, filter_)
        keep_line(self._path, {"key": key, **asdict(answer)})
        self._found[key] = answer

    def usual_ms(self, arm: ArmFacts) -> float | None:
        """Median time of an arm's answers in milliseconds; None before the first."""
        own = [one.ms for key, one in self._found.items() if key.startswith(_head(arm))]
        return median(own) if own else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the missing answers will cost.

    Attributes:
        calls: Arm -> number of questions to ask it.
        price: Price of all calls, without retries; 0 if the arms file gives none.
        seconds: Time of all calls; None if an arm was never timed.
    """

    calls: Mapping[str, int]
    price: float
    seconds: float | None

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __str__(self) -> str:
        told = " and ".join(f"'{name}' {count} questions" for name, count in self.calls.items())
        time = "an unknown time" if self.seconds is None else f"about {self.seconds:.0f} s"
        price = f"costs {self.price:g}" if self.price else "has no known price"
        return f"Asks {told}: that {price} and takes {time}."


@dataclass
class RemoteAnswers:
    """The answers of a collection's remote arms to judged questions.

    Attributes:
        fusion: How our own text arms are fused.
        ms_per_price: Milliseconds that a unit of price counts as.
        per_second: Most questions asked in a second; 0 sets no limit.
        failed: Arm and reason -> number of questions without an answer.
    """

    asker: RemoteAsker
    kept: KeptAnswers
    fusion: FusionSettings
    ms_per_price: float
    per_second: float
    failed: Counter[str] = field(default_factory=Counter)
    _tried: set[str] = field(default_factory=set)

    @property
    def simple(self) -> ArmFacts | None:
        """The arm that replaces our text arms where there is no index."""
        return next((arm for arm in self.asker.arms if arm.is_simple), None)

    @property
    def usual_weight(self) -> float:
        """Quality per millisecond at which asking for every question costs `CALLS`.

        Arms run side by side, so the slowest counts. It is 0 before the first answer.
        """
        others = [arm for arm in self.asker.arms if not arm.is_simple]
        slowest = max((self.kept.usual_ms(arm) or 0.0 for arm in others), default=0.0)
        cost = slowest + sum(arm.price for arm in others) * self.ms_per_price
        return CALLS / cost if cost else 0.0

    def missing(self, datasets: Iterable[Dataset]) -> list[ArmQuestion]:
        """What is still to be asked, each once; failures of this run are left to the next."""
        wanted = {
            _key(arm, one.text, filter_): ArmQuestion(arm.name, one.text, filter_)
            for data in datasets
            for one in data.questions
            for filter_ in [data.filters.get(one.id)]
            for arm in self.asker.arms
            if self.kept.get(arm, one.text, filter_) is None
        }
        return [one for key, one in wanted.items() if key not in self._tried]

    def estimate(self, missing: Sequence[ArmQuestion]) -> Estimate:
        """Estimate the calls' price and time from the answers so far."""
        calls = Counter(one.arm for one in missing)
        arms = {arm.name: arm for arm in self.asker.arms}
        price = sum(arms[name].price * count for name, count in calls.items())
        usual = {name: self.kept.usual_ms(arms[name]) for name in calls}
        paced = max(calls.values(), default=0) / self.per_second if self.per_second else 0.0
        if any(ms is None for ms in usual.values()):
            return Estimate(calls, price, None)
        each = (count * (usual[name] or 0.0) / 1000 for name, count in calls.items())
        return Estimate(calls, price, max(paced, *each, 0.0))

    def collect(self, missing: Sequence[ArmQuestion], progress: Progress | None = None) -> None:
        """Ask what is missing, and save each answer as it arrives."""
        arms = {arm.name: arm for arm in self.asker.arms}
        progress = progress or Silent()
        progress.start(len(missing), "asking remote arms")
        least = 1 / self.per_second if self.per_second else 0.0
        size = 1 if least else _AT_ONCE
        try:
            for start in range(0, len(missing), size):
                began, part = monotonic(), missing[start : start + size]
                for place, answer in self.asker.ask(part):
                    one = part[place]
                    if answer.reason:
                        self.failed[f"'{one.arm}' {answer.reason}"] += 1
                        self._tried.add(_key(arms[one.arm], one.text, one.filter))
                    else:
                        self.kept.add(arms[one.arm], one.text, one.filter, answer)
                    progress.advance(1)
                left = least - (monotonic() - began)
                if left > 0 and start + size < len(missing):
                    sleep(left)
        finally:
            progress.close()

    def failures(self) -> str:
        """Which questions got no answer and why, in a sentence; "" if all did."""
        if not self.failed:
            return ""
        told = "; ".join(f"{reason} ({count} times)" for reason, count in self.failed.items())
        return (
            f"{self.failed.total()} questions got no answer: {told}. Nothing is learned from them; "
            "run the same command to ask them again."
        )

    def replay(self, dataset: Dataset) -> Replay:
        """Make a replay without an index, of the questions that every arm answered.

        Raises:
            TrainingError: No question was answered.
        """
        found = [one for question in dataset.questions if (one := self._own(dataset, question))]
        if not found:
            raise TrainingError(
                f"No question of '{dataset.name}', {dataset.split}, was answered by every arm. "
                f"{self.failures()}"
            )
        addresses = json.dumps(sorted(arm.address for arm in self.asker.arms)).encode()
        asked = json.dumps([asdict(one.question) for one in found]).encode()
        key = ReplayKey("remote", digest(addresses), 0, "", digest(asked), DEPTH)
        return Replay(dataset.name, dataset.split, key, tuple(found))

    def beside(self, replay: Replay, dataset: Dataset, *, by_scores: bool) -> Replay:
        """Add the remote arms to a replay of our own; questions without their answers go."""
        found = []
        for one in replay.questions:
            answers = self.answers(dataset, one.question)
            if answers is not None:
                (own,) = fuse_text([one.results], self.fusion, DEPTH)
                remote = self._remote(one.question, own, answers, by_scores=by_scores)
                found.append(replace(one, remote=remote, steps=None))
        return replace(replay, questions=tuple(found))

    def _own(self, dataset: Dataset, question: Question) -> Replayed | None:
        answers, simple = self.answers(dataset, question), self.simple
        if answers is None or simple is None:
            return None
        answer = answers[simple.name]
        own = ranking_of(simple, answer)
        remote = self._remote(question, own, answers, by_scores=simple.scores == "cosine")
        shown = [(hit.title, hit.text) for hit in answer.hits[:SEEN]]
        group = question.group or dataset.name
        nothing = Ranking("", ())
        return Replayed(
            question=replace(question, group=group),
            gold=dataset.judgements[question.id],
            results=ArmResults(
                Query(question.text, np.zeros(1, np.float32)),
                rankings={Route.DENSE: own, Route.LEXICAL: nothing, Route.GRAPH: nothing},
            ),
            answered={},
            seconds={},
            remote=replace(
                remote,
                simple=own,
                simple_ms=answer.ms,
                simple_price_ms=simple.price * self.ms_per_price,
                returned=Returned(question.text, shown),
            ),
        )

    def answers(self, dataset: Dataset, question: Question) -> dict[str, ArmAnswer] | None:
        """Every arm's answer; None if one is missing."""
        filter_ = dataset.filters.get(question.id)
        found = {arm.name: self.kept.get(arm, question.text, filter_) for arm in self.asker.arms}
        said = {name: answer for name, answer in found.items() if answer is not None}
        return said if len(said) == len(found) else None

    def _remote(
        self, question: Question, own: Ranking, answers: Mapping[str, ArmAnswer], *, by_scores: bool
    ) -> RemoteReplay:
        others = [arm for arm in self.asker.arms if not arm.is_simple]
        lists = [
            RemoteList(ranking_of(arm, answers[arm.name]), arm.scores, arm.weight) for arm in others
        ]
        fused = together(own, lists, DEPTH, by_scores=by_scores) if lists else own
        wanted = [words(answer) for answer in question.answers]
        return RemoteReplay(
            fused=_judged(fused, [arm.prefix for arm in others if arm.prefix]),
            ms=max((answers[arm.name].ms for arm in others), default=0.0),
            price_ms=sum(arm.price for arm in others) * self.ms_per_price,
            answered={
                hit.id: contains_any(words(f"{hit.title}\n{hit.text}"), wanted)
                for answer in answers.values()
                for hit in answer.hits
            },
        )


def ranking_of(arm: ArmFacts, answer: ArmAnswer) -> Ranking:
    """An answer as a ranking, its ids with the arm's prefix."""
    hits = tuple(
        RankedHit(arm.prefix + hit.id, hit.score, rank)
        for rank, hit in enumerate(answer.hits, start=1)
    )
    return Ranking(arm.name, hits, len(hits))


def without_prefix(id_: str, prefixes: Sequence[str]) -> str:
    """An id without its arm's prefix, as judgements name passages."""
    return id_.removeprefix(next((one for one in prefixes if id_.startswith(one)), ""))


def _judged(ranking: Ranking, prefixes: Sequence[str]) -> Ranking:
    """The ranking without prefixes; of duplicates the first stays."""
    first: dict[str, RankedHit] = {}
    for hit in ranking.hits:
        first.setdefault(without_prefix(hit.id, prefixes), hit)
    hits = tuple(
        RankedHit(id_, hit.score, rank) for rank, (id_, hit) in enumerate(first.items(), start=1)
    )
    return replace(ranking, hits=hits)


def _key(arm: ArmFacts, text: str, filter_: object | None) -> str:
    return _head(arm) + digest(json.dumps([text, filter_], sort_keys=True).encode())


def _head(arm: ArmFacts) -> str:
    return f"{arm.name} {arm.address} {arm.depth} "
