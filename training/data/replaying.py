"""Makes a replay: asks the arms and steps every question once, through the serving gateway.

A run that is killed loses at most one block of questions; the next run resumes after the others.
"""

import hashlib
import json
import re
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from wye.backends.papers.extracted import ExtractedStore
from wye.backends.progress import Progress, Silent
from wye.backends.sources import DocumentSource
from wye.backends.types import Ranking
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.steps import STEPS
from wye.router.types import Route, TimedArmResults
from wye.training.data.dataset import Dataset, Question, read_dataset
from wye.training.data.replay import (
    SCHEMA,
    TRAINING_SPLITS,
    Replayed,
    ReplayKey,
    file_name,
    read_key,
    read_replay,
    write_rows,
)

DEPTH = 100
BLOCK = 64
"""Questions per part file."""
_WORD = re.compile(r"\w+")


def replay_dataset(
    session: Session,
    dataset: Dataset,
    folder: Path,
    *,
    depth: int = DEPTH,
    progress: Progress | None = None,
) -> Path:
    """Make the replay of a split, unless the folder has one with the same key.

    Args:
        depth: Most hits of an arm or of steps.

    Returns:
        The file, for `wye.training.data.replay`.

    Raises:
        QuestionError: A question is empty.
    """
    key = key_of(session, dataset, depth)
    path = folder / file_name(dataset.name, dataset.split)
    if read_key(path) == key:
        return path
    blocks = path.with_suffix(".parts") / digest(json.dumps(asdict(key), sort_keys=True).encode())
    warm = False
    progress = progress or Silent()
    progress.start(len(dataset.questions), f"replaying {dataset.name}, {dataset.split}")
    try:
        replayed: list[Replayed] = []
        for start in range(0, len(dataset.questions), BLOCK):
            block = blocks / f"{start:08d}.parquet"
            if read_key(block) == key:
                replayed += read_replay(block, {dataset.split}).questions
            else:
                questions = dataset.questions[start : start + BLOCK]
                if not warm:  # so the first question's time has nothing that is built on first use
                    session.gateway.retrieve_all([questions[0].text], 1)
                    warm = True
                answers = _ask(session, dataset, questions, depth)
                write_rows(block, answers, dataset=dataset.name, split=dataset.split, key=key)
                replayed += answers
            progress.advance(len(replayed) - start)
    finally:
        progress.close()
    write_rows(path, replayed, dataset=dataset.name, split=dataset.split, key=key)
    shutil.rmtree(blocks.parent)
    return path


def key_of(session: Session, dataset: Dataset, depth: int = DEPTH) -> ReplayKey:
    """The key of the replay that this session would make."""
    settings = session.settings
    rows = session.index.snapshot().to_table(columns=["id", "content_hash"]).to_pylist()
    passages = sorted((row["id"], row["content_hash"]) for row in rows)
    arm_settings = (settings.dense, settings.lexical, settings.graph, settings.fusion)
    options: list[object] = [asdict(part) for part in (*arm_settings, STEPS)]
    # Nothing is added where these are unused, so older replays keep their keys.
    options += [asdict(settings.reranker)] if settings.reranker.model else []
    extracted = ExtractedStore(session.folder, session.index.fingerprint).digest()
    options += [extracted] if extracted else []
    judged_questions: list[object] = [
        [asdict(q), sorted(dataset.judgements[q.id].items())] for q in dataset.questions
    ]
    if dataset.filters:  # likewise
        judged_questions.append(sorted(dataset.filters.items()))
    return ReplayKey(
        schema=SCHEMA,
        index=digest(json.dumps(passages).encode()),
        version=session.index.version,
        settings=digest(json.dumps([session.index.fingerprint, options], sort_keys=True).encode()),
        questions=digest(json.dumps(judged_questions).encode()),
        depth=depth,
    )


def _ask(
    session: Session, dataset: Dataset, questions: Sequence[Question], depth: int
) -> list[Replayed]:
    """Ask questions one by one, so that each is timed alone."""
    timed = [
        session.gateway.retrieve_all([question.text], depth, dataset.filters.get(question.id))[0]
        for question in questions
    ]
    ids = sorted({hit.id for run in timed for r in _lists(run).values() for hit in r.hits})
    texts = {
        id_: words(f"{title}\n{text}")
        for id_, (title, text) in zip(ids, session.snapshot.texts(ids), strict=True)
    }
    replayed = []
    for question, run in zip(questions, timed, strict=True):
        answers = [words(answer) for answer in question.answers]
        replayed.append(
            Replayed(
                question=replace(question, group=question.group or dataset.name),
                gold=dataset.judgements[question.id],
                results=run.results,
                answered={
                    route: np.array(
                        [contains_any(texts[hit.id], answers) for hit in ranking.hits], bool
                    )
                    for route, ranking in _lists(run).items()
                },
                seconds=run.seconds,
                steps=run.steps,
                open=run.open,
            )
        )
    return replayed


def _lists(timed: TimedArmResults) -> dict[Route, Ranking]:
    """Rankings by arm, and of steps if they ran."""
    steps = {} if timed.steps is None else {Route.STEPS: timed.steps}
    return {**timed.results.rankings, **steps}


def words(text: str) -> str:
    """The case-folded words of a text, in order, with a blank before and after each.

    The blanks make substrings match whole words: "Ur" does not match "Uruguay".
    """
    tokens = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(tokens)} "


def contains_any(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains one of the answers, word for word; both are results of `words`.

    This is how retrieval for open-domain questions is judged: Karpukhin et al., Dense Passage
    Retrieval (EMNLP 2020), section 5.1. An answer without a word is in no text.
    """
    return any(answer.strip() and answer in text for answer in answers)


def digest(content: bytes) -> str:
    """Hexadecimal digest of 128 bits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def replay_demo(folder: Path) -> list[Path]:
    """Index the demo corpus, and replay its train and dev splits.

    Args:
        folder: Where the index and the replays go; existing ones are used again.

    Returns:
        The replay files, dev first.
    """
    settings = load_settings()
    index = folder / "index"
    with as_file(files("wye.service") / "demo") as corpus:
        with Session.create(settings, index) as session:
            session.ingest(DocumentSource(corpus).passages())
        with Session.open(settings, index) as session:
            return [
                replay_dataset(session, read_dataset(corpus, split), folder / "replays")
                for split in sorted(TRAINING_SPLITS)
            ]
