"""Fits relevance for remote arms, to their answers to judged questions.

Every way to combine their lists has curves of its own. Questions without an answer are the same
questions, with the relevant passages removed from every list.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from backends.types import RankedHit, Ranking
from router.fusion import fuse_text
from router.relevance import (
    FIRST,
    REMOTE_RELEVANCE,
    Evidence,
    RelevanceModel,
    made_with_arms,
    way_of,
)
from router.remote_arms import ArmAnswer, ArmFacts
from router.remote_fusion import RemoteList, adds_up, together
from router.settings import Settings
from router.types import Route
from training.data.dataset import Dataset, Question, read_dataset
from training.data.remote import DEPTH, RemoteAnswers, ranking_of
from training.data.replay import Replayed
from training.data.sources import QuestionSource, Replays
from training.errors import FitError
from training.fit.calibration import BINS
from training.markdown import fill, table
from training.relevance import (
    HITS,
    MEASURES,
    Example,
    of_answers,
    of_passages,
    quality,
    write_model,
)

FEWEST = 40
"""Fewest answered questions to fit."""
MOST = 5
"""Most arms beside the simple one, since every subset of them is a way of its own."""
_SPLITS = ("train", "dev")

Texts = Mapping[str, tuple[str, str]]
"""Id -> title and text."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with the arms' answers.

    Attributes:
        family: The dataset that it comes from.
        gold: Ids of its relevant passages.
        ours: Gives our own list without the passages of given ids.
        answers: The arms' answers, by name.
    """

    question: Question
    family: str
    gold: frozenset[str]
    ours: Callable[[Collection[str]], Ranking]
    answers: Mapping[str, ArmAnswer]
    texts: Texts


def fit_arms(
    remote: RemoteAnswers,
    settings: Settings,
    sources: Sequence[QuestionSource],
    replays: Replays,
    out: Path,
) -> str:
    """Fit relevance to the arms' answers, write it with its card, and return the card.

    Args:
        remote: The answers to the train and dev questions.
        sources: All with an index, or all without one.
        replays: Replays of our own arms, if there is an index.

    Raises:
        FitError: There is too little to fit, or there are too many arms.
    """
    has_index = remote.simple is None
    others = [arm for arm in remote.asker.arms if not arm.is_simple]
    if len(others) > MOST:
        raise FitError(f"There are {len(others)} arms; relevance is fitted for {MOST} at most.")
    asked = [
        one
        for source in sources
        for split in _SPLITS
        if source.has(split)
        for one in _asked(remote, settings, source, split, replays)
    ]
    if len(asked) < FEWEST:
        raise FitError(
            f"{len(asked)} questions were answered by every arm; relevance takes {FEWEST}."
        )
    simple = remote.simple
    by_scores = settings.fusion.method != "rrf" if simple is None else simple.scores == "cosine"
    found: dict[str, list[Example]] = {}
    for one in asked:
        for example in _examples(one, others, alone=not has_index, by_scores=by_scores):
            found.setdefault(example.route, []).append(example)
    fitted = {way: own for way, own in found.items() if _can_be_fitted(own)}
    if not fitted:
        raise FitError("No arm found a relevant passage, so there is nothing to fit.")
    model = RelevanceModel(
        min((DEPTH, *(arm.depth for arm in remote.asker.arms))),
        made_with_arms(remote.asker.arms, settings, has_index=has_index),
        {way: of_passages(own).fit() for way, own in fitted.items()},
        {way: of_answers(own).fit() for way, own in fitted.items()},
    )
    card = fill(
        "remote-relevance.md",
        name=out.name,
        first=FIRST,
        depth=model.depth,
        bins=BINS,
        questions=len(asked),
        families=", ".join(sorted({one.family for one in asked})),
        table=_table(fitted),
        unfitted=", ".join(sorted(set(found) - set(fitted))) or "none",
    )
    write_model(out, REMOTE_RELEVANCE, model, card)
    return card


def _asked(
    remote: RemoteAnswers,
    settings: Settings,
    source: QuestionSource,
    split: str,
    replays: Replays,
) -> Iterator[_Asked]:
    """The questions of a split that every arm answered."""
    dataset, simple = read_dataset(source.dataset, split), remote.simple
    if simple is not None:
        for question in dataset.questions:
            if (answers := remote.answers(dataset, question)) is not None:
                ours = partial(_without, ranking_of(simple, answers[simple.name]))
                yield _one(remote, dataset, question, answers, ours, texts={})
        return
    for replay in replays.training([source], split):
        lists = [one.rankings for own in replay.questions for one in [own.results]]
        ids = {hit.id for own in lists for ranking in own.values() for hit in ranking.hits}
        passages = replays.passages(replay, sorted(ids))
        texts = {id_: (one.title, one.text) for id_, one in passages.items()}
        for replayed in replay.questions:
            answers = remote.answers(dataset, replayed.question)
            if answers is not None:
                ours = partial(_fused_without, replayed, settings)
                yield _one(remote, dataset, replayed.question, answers, ours, texts=texts)


def _one(
    remote: RemoteAnswers,
    dataset: Dataset,
    question: Question,
    answers: Mapping[str, ArmAnswer],
    ours: Callable[[Collection[str]], Ranking],
    *,
    texts: Texts,
) -> _Asked:
    return _Asked(
        question,
        question.group or dataset.name,
        frozenset(id_ for id_, value in dataset.judgements[question.id].items() if value > 0),
        ours,
        answers,
        {
            **{
                arm.prefix + hit.id: (hit.title, hit.text)
                for arm in remote.asker.arms
                for hit in answers[arm.name].hits
            },
            **texts,
        },
    )


def _fused_without(replayed: Replayed, settings: Settings, gone: Collection[str]) -> Ranking:
    results = replayed.results
    lists = {arm: _without(own, gone) for arm, own in results.rankings.items()}
    (found,) = fuse_text([replace(results, rankings=lists)], settings.fusion, DEPTH)
    return found


def _examples(
    asked: _Asked, others: Sequence[ArmFacts], *, alone: bool, by_scores: bool
) -> Iterator[Example]:
    """Yield an example of every way, each also with the relevant passages removed.

    Args:
        alone: Whether our own list by itself is one of the ways.
    """
    prefixed = {
        prefix + id_ for prefix in ("", *(arm.prefix for arm in others)) for id_ in asked.gold
    }
    for kind, gone in (("own", frozenset[str]()), ("removed", prefixed)):
        ours = asked.ours(gone)
        lists = {
            arm.name: RemoteList(
                _without(ranking_of(arm, asked.answers[arm.name]), gone), arm.scores, arm.weight
            )
            for arm in others
        }
        ways = [
            (way_of([arm.name]), lists[arm.name].ranking) for arm in others if arm.role == "graph"
        ]
        if alone:
            ways.append((way_of([Route.HYBRID]), ours))
        for size in range(1, len(others) + 1):
            for names in combinations(lists, size):
                chosen = [lists[name] for name in names]
                summed = adds_up(chosen, by_scores=by_scores)
                fused = together(ours, chosen, HITS, by_scores=by_scores)
                if ours.hits:
                    ways.append((way_of([Route.HYBRID, *names], summed=summed), fused))
        for way, ranking in ways:
            if hits := ranking.hits[:HITS]:
                found = Evidence(
                    asked.question.text,
                    np.array([hit.score for hit in hits]),
                    [asked.texts[hit.id] for hit in hits],
                )
                relevant = np.array([float(hit.id in prefixed and not gone) for hit in hits])
                yield Example(way, asked.family, kind, found.passages, relevant, found.answer)


def _without(ranking: Ranking, gone: Collection[str]) -> Ranking:
    kept = (hit for hit in ranking.hits if hit.id not in gone)
    hits = tuple(RankedHit(hit.id, hit.score, rank) for rank, hit in enumerate(kept, start=1))
    return replace(ranking, hits=hits)


def _can_be_fitted(examples: Sequence[Example]) -> bool:
    """Whether there are enough questions, and examples of both outcomes."""
    relevant = np.concatenate([one.relevant for one in examples])
    enough = sum(one.kind == "own" for one in examples) >= FEWEST
    return enough and 0 < relevant.sum() < len(relevant) and len({e.kind for e in examples}) > 1


def _table(fitted: Mapping[str, Sequence[Example]]) -> str:
    """Table of the quality of the probabilities, by way, from cross-fitted curves."""
    rows = []
    for way, own in sorted(fitted.items()):
        cells = [way, str(sum(one.kind == "own" for one in own))]
        for seen in (of_passages(own), of_answers(own)):
            cells += quality(seen, seen.left_out(), np.ones(len(seen.outcomes), bool))
        rows.append(cells)
    measures = (f"{name}, {what}" for what in ("passages", "answers") for name in MEASURES)
    return table(["lists", "questions", *measures], rows)
