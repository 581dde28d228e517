"""Asks remote arms every judged question once, keeps their answers, and makes replays of them.

An answer is saved as soon as it arrives, by question, arm and address, in a file that is only
appended to. However a run ends, the next one asks only what is missing. Failures are neither kept
nor learned from.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from wye.backends.types import Progress, RankedHit, Ranking
from wye.router.fusion import FusionSettings, fuse_text
from wye.router.remote import (
    ArmAnswer,
    ArmFacts,
    ArmQuestion,
    RemoteAsker,
    RemoteHit,
    RemoteList,
    fuse_remote,
    remote_ranking,
)
from wye.training.data import Dataset, keep_line
from wye.training.replay import RemoteReplay, Replay, digest

CALLS = 0.01  # default cost of asking the remote arms for every question, in nDCG@10
MS_PER_PRICE = 100_000.0  # milliseconds that a unit of price counts as
DEPTH = 20  # how many of our own hits are fused with the remote ones
_AT_ONCE = 16


class RemoteAnswers:
    """The answers of a collection's remote arms to judged questions.

    Attributes:
        price: Price of asking each arm once.
        failed: Arm and reason -> number of questions without an answer.
    """

    def __init__(self, asker: RemoteAsker, file: Path, fusion: FusionSettings) -> None:
        """Read the answers in a file of JSON lines; lines that cannot be read are skipped.

        One process writes the file at a time. `fusion` says how our own text arms are fused.
        """
        self._asker, self._file, self._fusion = asker, file, fusion
        self.price = sum(arm.price for arm in asker.arms)
        self.failed: Counter[str] = Counter()
        self._answers: dict[str, ArmAnswer] = {}
        for line in file.read_bytes().split(b"\n") if file.is_file() else ():
            with suppress(ValueError, KeyError, TypeError, RecursionError):  # as of half a line
                row = json.loads(line)
                hits = tuple(RemoteHit(**hit) for hit in row["hits"])
                self._answers[row["key"]] = ArmAnswer(hits, row["ms"])

    @property
    def usual_weight(self) -> float:
        """Quality per millisecond at which asking always costs `CALLS`; 0 before an answer."""
        times = [
            [answer.ms for key, answer in self._answers.items() if key.startswith(_head(arm))]
            for arm in self._asker.arms
        ]
        slowest = max((median(of_arm) for of_arm in times if of_arm), default=0.0)
        cost = slowest + self.price * MS_PER_PRICE
        return CALLS / cost if cost else 0.0

    def missing(self, datasets: Iterable[Dataset]) -> list[ArmQuestion]:
        """What is still to be asked, each once."""
        missing = {}
        for data in datasets:
            for question in data.questions:
                for arm in self._asker.arms:
                    key = _key(arm, question.text)
                    if key not in self._answers:
                        missing[key] = ArmQuestion(arm.name, question.text)
        return list(missing.values())

    def announcement(self, missing: Sequence[ArmQuestion]) -> str:
        """Say how many calls the missing answers take, and their price; "" if none is missing."""
        if not missing:
            return ""
        counts = Counter(question.arm for question in missing)
        price = sum(arm.price * counts[arm.name] for arm in self._asker.arms)
        arms = " and ".join(f"'{name}' {count} questions" for name, count in counts.items())
        cost = f"costs {price:g}" if price else "has no known price"
        return f"Asks {arms}: that {cost}."

    def collect(self, missing: Sequence[ArmQuestion], progress: Progress) -> None:
        """Ask what is missing, and save each answer as it arrives, synced to the disk."""
        arms = {arm.name: arm for arm in self._asker.arms}

        def save(question: ArmQuestion, answer: ArmAnswer) -> None:
            if answer.reason:
                self.failed[f"'{question.arm}' {answer.reason}"] += 1
            else:
                key = _key(arms[question.arm], question.text)
                keep_line(self._file, {"key": key, **asdict(answer)})
                self._answers[key] = answer
            progress.advance(1)

        progress.start(len(missing), "asking remote arms")
        try:
            for start in range(0, len(missing), _AT_ONCE):
                self._asker.ask(missing[start : start + _AT_ONCE], save)
        finally:
            progress.close()

    def failures(self) -> str:
        """Which questions got no answer and why, in a sentence; "" if all did."""
        if not self.failed:
            return ""
        reasons = "; ".join(f"{reason} ({count} times)" for reason, count in self.failed.items())
        return (
            f"{self.failed.total()} questions got no answer: {reasons}. Nothing is learned from "
            "them; run the same command to ask them again."
        )

    def beside(self, replay: Replay, *, by_scores: bool) -> Replay:
        """Add the remote arms to a replay of our own; questions without their answers go."""
        replayed = []
        for row in replay.questions:
            keys = {arm.name: _key(arm, row.question.text) for arm in self._asker.arms}
            if self._answers.keys() >= {*keys.values()}:
                answers = {name: self._answers[key] for name, key in keys.items()}
                (ranking,) = fuse_text([row.run.results], self._fusion, DEPTH)
                remote = self._remote(ranking, answers, by_scores=by_scores)
                replayed.append(replace(row, remote=remote, run=replace(row.run, steps=None)))
        return replace(replay, questions=tuple(replayed))

    def _remote(
        self, top: Ranking, answers: Mapping[str, ArmAnswer], *, by_scores: bool
    ) -> RemoteReplay:
        lists = [
            RemoteList(
                remote_ranking(arm.name, arm.prefix, answers[arm.name].hits), arm.scores, arm.weight
            )
            for arm in self._asker.arms
        ]
        fused = fuse_remote(top, lists, DEPTH, by_scores=by_scores)
        return RemoteReplay(
            fused=_judged(fused, [arm.prefix for arm in self._asker.arms if arm.prefix]),
            # Arms run side by side, so the slowest counts.
            ms=max(answer.ms for answer in answers.values()) + self.price * MS_PER_PRICE,
        )


def _judged(ranking: Ranking, prefixes: Sequence[str]) -> Ranking:
    """The ranking without prefixes, as judgements name passages; of duplicates the first stays."""
    first: dict[str, RankedHit] = {}
    for hit in ranking.hits:
        prefix = next((one for one in prefixes if hit.id.startswith(one)), "")
        first.setdefault(hit.id.removeprefix(prefix), hit)
    hits = tuple(
        RankedHit(id_, hit.score, rank) for rank, (id_, hit) in enumerate(first.items(), start=1)
    )
    return replace(ranking, hits=hits)


def _key(arm: ArmFacts, text: str) -> str:
    return _head(arm) + digest([text, None])


def _head(arm: ArmFacts) -> str:
    return f"{arm.name} {arm.address} {arm.depth} "
