"""Relevance and answerability of rankings that remote arms took part in.

The curves of `router.relevance` were fitted to the scores of an index. These were fitted to the
lists of certain remote arms and hold for those arms only. Each way, a combination of lists, has
curves of its own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from backends.files import canonical_json
from backends.types import Ranking
from router.errors import ModelFileError
from router.relevance import (
    ANSWER_EVIDENCE,
    PASSAGE_EVIDENCE,
    CurveSum,
    Evidence,
    Judged,
    curves_json,
    fingerprint,
    read_curves,
)
from router.remote_arms import ArmFacts
from router.settings import Settings

FORMAT = 1
REMOTE_RELEVANCE = "remote-relevance.json"
_SUMMED = " summed"


def way_of(lists: Iterable[str], *, summed: bool = False) -> str:
    """Name of the way a ranking was made: whose lists, and whether their scores were added up.

    Args:
        lists: Names of arms. Our own arms, or the simple arm instead of them, go by their route.
    """
    return "+".join(sorted(lists)) + (_SUMMED if summed else "")


@dataclass(frozen=True, slots=True)
class RemoteRelevance:
    """The curves of each way.

    Attributes:
        depth: Most hits of a request that the curves hold for.
        made_with: Digest of the arms; see `made_with_arms`.
        passages: Way -> curves for the relevance of a passage.
        answers: Way -> curves for the answerability of a question.
    """

    depth: int
    made_with: str
    passages: Mapping[str, CurveSum]
    answers: Mapping[str, CurveSum]

    def judge(
        self,
        question: str,
        way: str,
        ranking: Ranking,
        texts: Sequence[tuple[str, str]],
        *,
        filtered: bool,
    ) -> Judged:
        """Probabilities of a ranking; empty if there are no curves for its way.

        Args:
            texts: Title and text of each hit.
            filtered: Whether a filter shortened the lists. A sum of scores says how far a passage
                is above the last of each list, so its scale is another then and it is not used.
        """
        if not ranking.hits or way not in self.passages:
            return Judged()
        scores = np.array([hit.score for hit in ranking.hits])
        if filtered and way.endswith(_SUMMED):
            scores = np.full(len(scores), np.nan)
        found = Evidence(question, scores, texts)
        relevance = self.passages[way](found.passages)
        return Judged(tuple(relevance.tolist()), float(self.answers[way](found.answer[None, :])[0]))


def made_with_arms(arms: Sequence[ArmFacts], settings: Settings, *, has_index: bool) -> str:
    """Digest of the arms and of how their lists are fused; addresses and prices do not count.

    Args:
        has_index: Whether there is also an index.
    """
    told = {arm.name: canonical_json({**asdict(arm), "address": "", "price": 0}) for arm in arms}
    encoder = settings.analyser.encoder.model if has_index else ""
    return fingerprint({**told, "": encoder}, settings)


def load_remote_relevance(folder: Path) -> RemoteRelevance:
    """Load the model in a folder.

    Raises:
        ModelFileError: The file is missing or damaged.
    """
    path = folder / REMOTE_RELEVANCE
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != FORMAT:
            raise ModelFileError(
                f"{path} has format {content['format']}; this build reads {FORMAT}. Fit it anew."
            )
        passages, answers = content["passages"], content["answers"]
        return RemoteRelevance(
            int(content["depth"]),
            str(content["made_with"]),
            {way: read_curves(own, PASSAGE_EVIDENCE) for way, own in passages.items()},
            {way: read_curves(answers[way], ANSWER_EVIDENCE) for way in passages},
        )
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} is damaged: {error!r}. Fit it anew.") from error


def remote_relevance_json(model: RemoteRelevance) -> str:
    """The content of a model's file."""
    content = {
        "format": FORMAT,
        "depth": model.depth,
        "made_with": model.made_with,
        "passages": {way: curves_json(own) for way, own in model.passages.items()},
        "answers": {way: curves_json(own) for way, own in model.answers.items()},
    }
    return canonical_json(content, indent=1) + "\n"
