"""Replays made by hand, and examples to learn from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.fakes import line
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Mention, Query, RankedHit, Ranking
from wye.router.scorer import Scorer, Standard
from wye.router.types import ARMS, FURTHER, ArmResults, Route, TimedArmResults
from wye.training.data import Question
from wye.training.evaluation_set import EvaluationSet
from wye.training.fit.scorers import RouterRecipe
from wye.training.fit.trainer import Pool
from wye.training.replay import Replay, Replayed, TrainingReplay

D, L, G, S = Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.STEPS


def ranking(arm: Route, pairs: Sequence[tuple[str, float]]) -> Ranking:
    hits = tuple(RankedHit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, 100)


def replayed(
    id_: str,
    gold: str,
    found: Mapping[Route, str],
    *,
    group: str = "here",
    vector: Sequence[float] = (1.0, 0.0),
    titles: int = 0,
    text: str = "",
) -> Replayed:
    """A question from what each arm found ("abc" for passages a, b, c) and what is relevant.

    Scores fall from 1. Steps were taken where `found` has what they gave.
    """
    lists = {
        route: ranking(route, [(p, 1 / n) for n, p in enumerate(found.get(route, ""), start=1)])
        for route in (*ARMS, *FURTHER, Route.STEPS)
        if route in ARMS or route in found
    }
    rankings = {Route(arm): own for arm, own in lists.items() if arm != Route.STEPS}
    mentions = (Mention("Ada", "entity"),)
    query = Query(text or f"question {id_}?", np.array(vector, np.float32), mentions=mentions)
    return Replayed(
        Question(id_, query.text, (), group),
        dict.fromkeys(gold, 1),
        TimedArmResults(
            ArmResults(query, (SeedStats("Ada", 1.0, "name", 5, titles),), rankings),
            {"parsing": 0.01, "graph": 0.002, **({"steps": 0.03} if Route.STEPS in found else {})},
            lists.get(Route.STEPS),
            planned=Route.STEPS in lists,
        ),
    )


def replay_of(*questions: Replayed, split: str = "train", dataset: str = "here") -> TrainingReplay:
    return TrainingReplay(dataset, split, questions)


def one_feature(name: str = "f0", column: int = 0) -> Scorer:
    return Scorer(
        names=(name,),
        columns=np.array([column]),
        standard=Standard(np.zeros(1), np.ones(1), 5.0),
        members=(line([1], 0),),
    )


QUICK = RouterRecipe(hidden=(4,), seeds=(0,), pieces=0, taught=0.0, epochs=9, batch=32)
"""Fits in no time, and still learns which way a feature points."""
NAMES = tuple(f"f{column}" for column in range(14))


def pool_of(features: np.ndarray, labels: np.ndarray, *groups: str) -> Pool:
    """Questions that each are asked of one index, and weigh the same, of datasets in turn."""
    rows = np.arange(len(labels))
    return Pool(
        features, labels, np.array(groups)[rows % len(groups)], np.ones(len(rows)), rows.astype(str)
    )


def examples(n: int, seed: int) -> Pool:
    """Labels by a product, a bend and a slope, with noise; the last features say nothing.

    Feature 12 never changes, and feature 13 is feature 2 in other units.
    """
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 14))
    x[:, 2] = draw.poisson(3, n)
    x[:, 12] = 7
    x[:, 13] = 1000 - 5 * x[:, 2]
    rule = 3 * x[:, 0] * x[:, 1] + 0.4 * (x[:, 2] - 3) + 1.5 * (np.abs(x[:, 3]) - 0.8)
    labels = (draw.random(n) < 1 / (1 + np.exp(-1.5 * rule))).astype(np.float64)
    return pool_of(x, labels, "one")


def write_dataset(
    folder: Path,
    passages: Iterable[tuple[str, str, str]],
    questions: Iterable[tuple[str, str]],
    judged: Mapping[str, Iterable[str]],
) -> Path:
    """A folder in BEIR's layout of (id, title, text), (id, text) and split -> lines of qrels."""
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": i, "title": t, "text": x}) for i, t, x in passages]
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    lines = [json.dumps({"_id": i, "text": x}) for i, x in questions]
    (folder / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for split, rows in judged.items():
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(rows), encoding="utf-8")
    return folder


SYLLABLES = ("ba", "ko", "mi", "ru", "te", "zo", "la", "vi", "su", "ne")
SPLITS = ("train", "train", "dev", "test")


def name(number: int, ending: str) -> str:
    return (SYLLABLES[number // 10] + SYLLABLES[number % 10]).capitalize() + ending


def write_town(folder: Path, streets: int = 48) -> Path:
    """A dataset in BEIR's layout, with two questions for each street of a small town.

    One is answered by words alone, and one only by walking from a name over the passage that names
    the next one. Where hashes stand for vectors, the simple route has to be lexical.
    """
    passages, questions = [], []
    judged: dict[str, list[str]] = {split: [] for split in SPLITS}
    for at in range(streets):
        baker, pupil, word = name(at, "rt"), name(at, "nd"), name(at, "").lower()
        passages += [
            (f"a{at}", baker, f"{baker} the baker taught {pupil} for years."),
            (f"b{at}", pupil, f"{pupil} moved to the coast and sold {word}s there."),
            (f"c{at}", "", f"The {word} gate was painted green by a gardener one winter."),
            *((f"d{at}-{n}", "", f"{baker} sold bread on day {n}.") for n in range(5)),
        ]
        questions += [
            (f"hop{at}", f"Where did the person whom {baker} taught go?"),
            (f"word{at}", f"was the {word} gate painted green near {baker}"),
        ]
        judged[SPLITS[at % 4]] += [
            f"hop{at}\ta{at}\t1",
            f"hop{at}\tb{at}\t1",
            f"word{at}\tc{at}\t1",
        ]
    return write_dataset(folder, passages, questions, judged)


class CountingProgress:
    def __init__(self) -> None:
        self.total: int | None = None
        self.steps = 0
        self.closed = False

    def start(self, total: int | None, label: str) -> None:
        self.total = total

    def advance(self, steps: int) -> None:
        self.steps += steps

    def close(self) -> None:
        self.closed = True


FOUND = {1: {D: "bcdefa", L: "bcdefa", G: "ab"}, 0: {D: "ab", L: "ba", G: "bcdefa"}}
AGREE = {D: "ab", L: "ab", G: "ba"}
WIDTH = 6


def questions_of(sizes: dict[str, int], *splits: str, seed: int = 0) -> EvaluationSet:
    """So many of each dataset and split; two features tell which arm they need, but for noise."""
    draw = np.random.default_rng(seed)
    replays: list[Replay] = []
    features = []
    for split in splits:
        for dataset, count in sizes.items():
            x = draw.normal(size=(count, WIDTH))
            label = (x[:, 0] - x[:, 1] + draw.normal(size=count) > 0).astype(int)
            agree = draw.random(count) < 0.3
            questions = [
                replayed(
                    f"{dataset}-{split}-{at}",
                    "a",
                    AGREE if agree[at] else FOUND[label[at]],
                    group=dataset,
                )
                for at in range(count)
            ]
            made = replay_of(*questions, dataset=dataset)
            # Only the final evaluation may hold a test split, so it is no TrainingReplay.
            replays.append(Replay(dataset, split, made.questions))
            features.append(x)
    return EvaluationSet(tuple(replays), np.concatenate(features))
