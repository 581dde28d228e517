"""Success by a reader: each arm's context is given to an endpoint, and its answer is looked up.

Answers are kept, so a run that is killed, and the next run over the same questions, asks only what
was not asked before.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from backends.progress import Progress
from backends.types import Ranking
from training.disagreement import CUTOFF, Mask
from training.judge import Judge
from training.replay import Replay, Replayed

JUDGED = "judge"
"""Name of this --success."""

Texts = Callable[[Replay, Sequence[str]], Mapping[str, str]]
"""Texts of passages of the index that a replay is of, by id."""


class Reader:
    """Lets a judge read what arms found."""

    def __init__(
        self, judge: Judge, texts: Texts, kept: Path, progress: Callable[[], Progress]
    ) -> None:
        """Read the answers that are known already.

        Args:
            judge: That answers.
            texts: Where passages are.
            kept: File of answers, made when it is missing.
            progress: Makes what long work is shown with.
        """
        self._judge = judge
        self._texts = texts
        self._kept = kept
        self._progress = progress
        self._known: dict[str, bool] = {}
        if kept.is_file():
            for line in kept.read_text(encoding="utf-8").splitlines():
                # A run that was killed may have left half a line.
                if line.endswith("}"):
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry["right"]

    def succeeds(self, replays: Sequence[Replay], rankings: Sequence[Ranking]) -> Mask:
        """(n,) whether the answer from the first five passages of each ranking is right.

        Args:
            replays: Of n questions, one after the other.
            rankings: One for each question.

        Raises:
            JudgeError: A question has no answer to compare with, or the endpoint does not answer.
        """
        progress = self._progress()
        progress.start(len(rankings), "judging")
        found, start = [], 0
        try:
            for replay in replays:
                own = rankings[start : start + len(replay)]
                start += len(replay)
                ids = sorted({hit.id for ranking in own for hit in ranking.hits[:CUTOFF]})
                texts = self._texts(replay, ids)
                for one, ranking in zip(replay.questions, own, strict=True):
                    found.append(self._right(one, [texts[h.id] for h in ranking.hits[:CUTOFF]]))
                    progress.advance(1)
        finally:
            progress.close()
        return np.array(found, dtype=bool)

    def _right(self, one: Replayed, context: Sequence[str]) -> bool:
        question = one.question
        asked = [self._judge.identity, question.text, list(context), list(question.answers)]
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        if key not in self._known:
            right = self._judge.succeeds(question.text, context, question.answers)
            self._known[key] = right
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            with self._kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "right": right}) + "\n")
        return self._known[key]
