"""Makes training data of a request log: feedback as judgements, and logged answers of arms.

In shadow mode a log has what the arm in the graph's place found, whether or not the router asked it
(`service.arms.shadow`). The passages that feedback names serve as judgements, though they are
incomplete.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backends.documents import is_blank
from backends.files import write_atomically
from router.remote_arms import ArmAnswer, ArmFacts, AskedHit
from router.request_log import RETRIEVAL, SHADOW, parse_line, read_texts
from training.data.remote import KeptAnswers, without_prefix
from training.errors import LogError
from training.log_replay.reading import Asked, FeedbackQuestion, asked_by, read_feedback

_DEV = 3
"""Of ten questions, so many go to dev."""


def logged_questions(paths: Sequence[Path], collection: str = "") -> list[FeedbackQuestion]:
    """Questions whose feedback names passages, with the arms' logged answers.

    Args:
        collection: The collection to read; "" for all.

    Raises:
        RequestLogError: A file cannot be read.
        LogError: No question has such feedback.
    """
    feedback = read_feedback(paths)
    found: dict[str, FeedbackQuestion] = {}
    for path in paths:
        for _, text in read_texts(path):
            line = parse_line(text)
            if line is None or line["kind"] not in {RETRIEVAL, SHADOW}:
                continue
            if collection and line.get("collection") != collection:
                continue
            _take(found, line, feedback)
    judged = [one for one in found.values() if one.passages]
    if not judged:
        raise LogError("No question of this log has feedback that names passages that answer it.")
    return judged


def _take(
    found: dict[str, FeedbackQuestion],
    line: Mapping[str, Any],
    feedback: Mapping[Asked, Mapping[str, None]],
) -> None:
    question = line.get("question")
    if not isinstance(question, str) or is_blank(question):
        return
    one = FeedbackQuestion(question, line.get("filter"))
    one = found.setdefault(one.id, one)
    said = feedback.get(asked_by(line), {})
    one.passages |= dict.fromkeys(said)
    lists = [line] if line["kind"] == SHADOW else line.get("ranked", [])
    for each in lists if isinstance(lists, list) else []:
        if isinstance(each, dict) and isinstance(each.get("arm"), str):
            one.found[each["arm"]] = each


def write_logged(
    questions: Sequence[FeedbackQuestion], arms: Sequence[ArmFacts], folder: Path
) -> Path:
    """Write a dataset in BEIR's layout; a question's id decides between train and dev.

    Questions with a filter are left out, since the layout has no place for it.

    Returns:
        The folder.

    Raises:
        LogError: All questions have a filter.
    """
    kept = [one for one in questions if one.filter is None]
    if not kept:
        raise LogError("All questions with feedback were asked with a filter; none is left.")
    prefixes = [arm.prefix for arm in arms if arm.prefix]
    (folder / "qrels").mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = [json.dumps({"_id": one.id, "text": one.text}) for one in kept]
    _write(folder / "queries.jsonl", rows)
    for split in ("train", "dev"):
        lines = [
            f"{one.id}\t{without_prefix(id_, prefixes)}\t1"
            for one in kept
            if (int(one.id, 16) % 10 < _DEV) == (split == "dev")
            for id_ in one.passages
        ]
        _write(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *lines])
    return folder


def keep_logged(
    questions: Sequence[FeedbackQuestion], arms: Sequence[ArmFacts], kept: KeptAnswers
) -> int:
    """Keep the logged answers of all but simple arms, whose texts the log lacks.

    Returns:
        How many answers were new.
    """
    count = 0
    for arm in arms:
        for one in questions:
            said = one.found.get(arm.name)
            answer = None if said is None or arm.is_simple else _answer(said)
            if answer is not None and kept.get(arm, one.text, one.filter) is None:
                kept.add(arm, one.text, one.filter, answer)
                count += 1
    return count


def _answer(said: Mapping[str, Any]) -> ArmAnswer | None:
    try:
        hits = tuple(AskedHit(str(id_), "", "", float(score)) for id_, score in said["found"])
        return ArmAnswer(hits, float(said["ms"]), float(said["spent"]))
    except (KeyError, TypeError, ValueError):
        return None


def _write(path: Path, lines: Sequence[str]) -> None:
    with write_atomically(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
