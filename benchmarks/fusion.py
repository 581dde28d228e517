"""What each way of fusing gives, and whether it holds on questions unlike those it was fitted on.

`python -m benchmarks fusion REPLAYS --fit union3 [--dataset NAME ...]` reads the replays of
train and dev splits that `training.data.replaying` has made; no test split can be read here.
Whatever
has something to fit is fitted on the train split of `--fit`. The first tables are of dev splits;
the last is of all questions of `--fit`, each dataset in it fused by what was fitted on the others.
Means have 95 % bootstrap intervals; * marks a difference to the graph arm that excludes 0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path

import numpy as np

from backends.types import Float64, Ranking
from benchmarks import report
from benchmarks.graph_weight import Gains, fit_graph_weight
from benchmarks.listwise import fit_listwise, fuse_listwise
from router.fusion import (
    GRAPH_WEIGHT_SIGNALS,
    FusionSettings,
    combine_scores,
    fuse,
    fuse_all,
    fuse_text,
    graph_weights,
)
from router.query_performance import signals
from router.types import ARMS, ArmResults, Route
from training.data.replay import Replayed, TrainingReplay, file_name, read_training
from training.evaluation.bootstrap import interval, resampled_means
from training.evaluation.measures import MEASURES, score
from training.fit.baselines import Questions, embedding_lr

K = 10
SHOWN = ("nDCG@10", "R@5", "Success@1")
COLUMNS = [MEASURES.index(name) for name in SHOWN]
SETTINGS = FusionSettings()
RRF_KS = (0.0, 1.0, 5.0, 20.0, 60.0)
RRF_WEIGHTS = (0.0, 0.1, 0.3, 1.0)
BLEND_SCALES = (0.1, 0.3, 1.0, 3.0)
LEXICAL_SHARES = (0.0, 0.2, 0.5)

Fused = Callable[[Sequence[Replayed]], list[Ranking]]
Form = Callable[[Sequence[Replayed]], Fused]
"""Questions to fit on, to what answers others."""


def fixed(answer: Callable[[ArmResults], Ranking]) -> Form:
    """A form that has nothing to fit."""
    return lambda _: lambda asked: [answer(one.evidence) for one in asked]


def by_settings(settings: FusionSettings) -> Form:
    """What the fusion route does under some settings."""
    return lambda _: lambda asked: fuse_all(_evidence(asked), settings, [None] * len(asked), K)


def text_arms(_: Sequence[Replayed]) -> Fused:
    """The hybrid route."""
    return lambda asked: fuse_text(_evidence(asked), SETTINGS, K)


def best_rrf(fit: Sequence[Replayed]) -> Fused:
    """Reciprocal ranks of the three lists, with the best k and weights of a grid."""

    def with_(k: float, weights: tuple[float, float, float]) -> Fused:
        return lambda asked: [fuse(_lists(one.evidence), weights, rrf_k=k, k=K) for one in asked]

    grid = [
        with_(k, (dense, lexical, 1.0))
        for k, dense, lexical in product(RRF_KS, RRF_WEIGHTS, RRF_WEIGHTS)
    ]
    return _best(grid, fit)


def best_convex(fit: Sequence[Replayed]) -> Fused:
    """Scores in log-PageRank space with the best two weights of a grid, the same for all."""

    def with_(scale: float, share: float) -> Fused:
        weights = (1.0, share, scale)
        return lambda asked: [combine_scores(_lists(one.evidence), weights, k=K) for one in asked]

    return _best([with_(*pair) for pair in product(BLEND_SCALES, LEXICAL_SHARES)], fit)


def convex_by_embedding(fit: Sequence[Replayed]) -> Fused:
    """Convex combination with s from logistic regression on the question's vector."""
    scored = _embedding_scores(fit)
    settings = replace(SETTINGS, method="convex")
    return lambda asked: fuse_all(_evidence(asked), settings, scored(asked), K)


def route_by_embedding(fit: Sequence[Replayed]) -> Fused:
    """Hybrid or graph, by the same score."""
    scored = _embedding_scores(fit)

    def answer(asked: Sequence[Replayed]) -> list[Ranking]:
        return _routed(asked, [score >= 0.5 for score in scored(asked)])

    return answer


def route_by_graph_weight(fit: Sequence[Replayed]) -> Fused:
    """Hybrid or graph, by the graph weight."""
    weights = fit_graph_weight(_gains(fit))

    def answer(asked: Sequence[Replayed]) -> list[Ranking]:
        found = graph_weights(_evidence(asked), weights)
        return _routed(asked, (found >= 0.5).tolist())

    return answer


def fitted_adaptive(fit: Sequence[Replayed]) -> Fused:
    """The adaptive method with its weights fitted here."""
    settings = replace(SETTINGS, graph_weight=fit_graph_weight(_gains(fit)))
    return lambda asked: fuse_all(_evidence(asked), settings, [None] * len(asked), K)


def listwise(fit: Sequence[Replayed]) -> Fused:
    """A weight for score and rank in every arm."""
    weights = fit_listwise(fit)
    return lambda asked: [fuse_listwise(one.evidence, weights, K) for one in asked]


def oracle(_: Sequence[Replayed]) -> Fused:
    """The better of hybrid and graph, known afterwards."""

    def answer(asked: Sequence[Replayed]) -> list[Ranking]:
        return _routed(asked, (_gains(asked).gains >= 0).tolist())

    return answer


FORMS: Mapping[str, Form] = {
    **{str(arm): fixed(lambda one, arm=arm: one.rankings[arm]) for arm in ARMS},  # type: ignore[misc]
    "hybrid": text_arms,
    "rrf, as published": by_settings(replace(SETTINGS, method="rrf")),
    "rrf, best of grid": best_rrf,
    "convex, best of grid": best_convex,
    "listwise": listwise,
    "route by embedding": route_by_embedding,
    "convex by embedding": convex_by_embedding,
    "route by graph weight": route_by_graph_weight,
    "adaptive, fitted": fitted_adaptive,
    "adaptive, default": by_settings(SETTINGS),
    "oracle": oracle,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = report.parser(__doc__)
    parser.add_argument("replays", type=Path, help="folder of replays")
    parser.add_argument("--fit", required=True, help="dataset to fit on; a union")
    parser.add_argument("--dataset", action="append", default=[], help="further ones to score")
    arguments = parser.parse_args(argv)
    fit = _read(arguments.replays, arguments.fit)
    report.print_header(
        "Fusion",
        seed=arguments.seed,
        data=", ".join(f"{r.dataset} ({r.split}, {len(r)})" for r in fit),
    )
    tables = _Tables(arguments.seed)
    made = {name: form(fit[0].questions) for name, form in FORMS.items()}
    dev = fit[1].questions
    tables.print(f"{arguments.fit}, dev", dev, {name: fused(dev) for name, fused in made.items()})
    for name in dict.fromkeys(arguments.dataset):
        asked = read_training(_path(arguments.replays, name, "dev")).questions
        tables.print(f"{name}, dev", asked, {form: made[form](asked) for form in FORMS})
    everything = tuple(chain.from_iterable(replay.questions for replay in fit))
    tables.print(
        f"{arguments.fit}, train and dev, each dataset fused as the others taught",
        everything,
        {name: _transferred(form, everything) for name, form in FORMS.items()},
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """Prints with one seed."""

    seed: int

    def print(
        self, title: str, asked: Sequence[Replayed], answers: Mapping[str, list[Ranking]]
    ) -> None:
        """One row a form, one column a dataset and measure."""
        groups = np.array([one.question.group for one in asked])
        names = sorted(set(groups.tolist()))
        print(f"\n# {title}: {len(asked)} questions")
        apart = [f"{SHOWN[0]} {name}" for name in names] if len(names) > 1 else []
        table = report.Table(["form", *(name.rjust(22) for name in SHOWN), *apart], width=20)
        values = {name: _measure(asked, found)[:, COLUMNS] for name, found in answers.items()}
        for name, found in values.items():
            sure = self._cells(found, found - values[Route.GRAPH])
            alone = [float(found[groups == group, 0].mean()) for group in names if apart]
            table.row(name, *sure, *alone)

    def _cells(self, values: Float64, differences: Float64) -> Iterator[str]:
        drawn = resampled_means(np.hstack([values, differences]), seed=self.seed)
        width = values.shape[1]
        for column in range(width):
            mean = interval(values[:, column], drawn[:, column])
            gain = interval(differences[:, column], drawn[:, width + column])
            mark = "*" if gain.low > 0 or gain.high < 0 else " "
            yield f"{mean.mean:.3f} [{mean.low:.3f} {mean.high:.3f}]{mark}"


def _transferred(form: Form, asked: Sequence[Replayed]) -> list[Ranking]:
    """Each dataset's questions answered by the form as fitted on the other datasets."""
    found: dict[int, Ranking] = {}
    for group in sorted({one.question.group for one in asked}):
        others = [one for one in asked if one.question.group != group]
        places = [place for place, one in enumerate(asked) if one.question.group == group]
        answers = form(others)([asked[place] for place in places])
        found.update(zip(places, answers, strict=True))
    return [found[place] for place in range(len(asked))]


def _best(grid: Sequence[Fused], fit: Sequence[Replayed]) -> Fused:
    return max(grid, key=lambda fused: float(_measure(fit, fused(fit))[:, COLUMNS[0]].mean()))


def _routed(asked: Sequence[Replayed], to_graph: Sequence[bool]) -> list[Ranking]:
    text = fuse_text(_evidence(asked), SETTINGS, K)
    return [
        one.evidence.rankings[Route.GRAPH] if graph else hybrid
        for one, graph, hybrid in zip(asked, to_graph, text, strict=True)
    ]


def _gains(asked: Sequence[Replayed]) -> Gains:
    """What the graph gains over the hybrid route, in the first of the measures."""
    evidence = _evidence(asked)
    graph = _measure(asked, [one.rankings[Route.GRAPH] for one in evidence])
    text = _measure(asked, fuse_text(evidence, SETTINGS, K))
    return Gains(signals(evidence, GRAPH_WEIGHT_SIGNALS), (graph - text)[:, COLUMNS[0]])


def _embedding_scores(fit: Sequence[Replayed]) -> Callable[[Sequence[Replayed]], list[float]]:
    gains = _gains(fit).gains
    told = np.flatnonzero(gains)
    scores = embedding_lr(
        _questions([fit[place] for place in told.tolist()]), (gains[told] > 0).astype(np.int64)
    )
    return lambda asked: scores(_questions(asked)).tolist()


def _questions(asked: Sequence[Replayed]) -> Questions:
    vectors = np.array([one.evidence.query.vector for one in asked])
    return Questions([one.question.text for one in asked], vectors)


def _measure(asked: Sequence[Replayed], answers: Sequence[Ranking]) -> Float64:
    """(n, m) every measure; questions of several datasets may be asked together."""
    run = {
        str(place): [hit.id for hit in ranking.hits[:K]] for place, ranking in enumerate(answers)
    }
    return score({str(place): one.gold for place, one in enumerate(asked)}, run)


def _evidence(asked: Sequence[Replayed]) -> list[ArmResults]:
    return [one.evidence for one in asked]


def _lists(evidence: ArmResults) -> list[Ranking]:
    return [evidence.rankings[arm] for arm in ARMS]


def _path(folder: Path, dataset: str, split: str) -> Path:
    return folder / file_name(dataset, split)


def _read(folder: Path, dataset: str) -> tuple[TrainingReplay, TrainingReplay]:
    train, dev = (read_training(_path(folder, dataset, split)) for split in ("train", "dev"))
    return train, dev


if __name__ == "__main__":
    main()
