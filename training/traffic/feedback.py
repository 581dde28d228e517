"""What people said about requests, read from request logs before the requests themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from router.request_log import FEEDBACK, parse_line, read_texts

_SIGN = f'"{FEEDBACK}"'


@dataclass(slots=True)
class Said:
    """All feedback on one request.

    Attributes:
        good: How often it was rated good.
        bad: How often it was rated bad.
        passages: Ids that were said to answer the question, each once, in the order of the log.
    """

    good: int = 0
    bad: int = 0
    passages: dict[str, None] = field(default_factory=dict)


def read_feedback(paths: Sequence[Path]) -> Mapping[str, Said]:
    """Request id -> what was said about it, in whichever of the files.

    Feedback comes later than the request, perhaps after the log was rotated, so it is read first:
    then the requests can be read one line at a time. Lines that are none are passed over here;
    `training.traffic.log` counts them.

    Args:
        paths: Request logs.

    Raises:
        JournalError: A file cannot be read.
    """
    found: dict[str, Said] = {}
    for path in paths:
        for _, text in read_texts(path):
            # What lacks the word need not be parsed, and most lines lack it.
            line = parse_line(text) if _SIGN in text and text.endswith("\n") else None
            if line is None or line["kind"] != FEEDBACK:
                continue
            said = found.setdefault(line["request_id"], Said())
            said.good += line.get("rating") == "good"
            said.bad += line.get("rating") == "bad"
            named = line.get("passages")
            if isinstance(named, list):
                said.passages.update((id_, None) for id_ in named if isinstance(id_, str))
    return found
