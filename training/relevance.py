"""`python -m wye.training.relevance DATASET=INDEX … --out FOLDER`: fits and evaluates relevance.

Every route answers three kinds of questions from each index: the train and dev questions of its
dataset; the same from a copy without their relevant passages, half of the questions at a time; and
questions of other datasets. Only the first kind has answers in the corpus. `--test` evaluates a
fitted model on the test splits. `wye train --relevance` fits one for a user's own questions.
"""

import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich import print as say
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from wye.backends.files import write_atomically
from wye.backends.store.documents import Removal, remove
from wye.backends.types import Float64, Mask
from wye.router.relevance import (
    ANSWER_EVIDENCE,
    FIRST,
    PASSAGE_EVIDENCE,
    RELEVANCE,
    CurveSum,
    RelevanceModel,
    RouteRanking,
    evidence_on,
    fingerprint,
    load_relevance,
    relevance_json,
)
from wye.router.session import ModelCache, Session
from wye.router.settings import Settings, load_settings
from wye.router.types import USUAL, Ask, Route
from wye.training.data.dataset import read_dataset
from wye.training.data.replaying import lacking
from wye.training.errors import FitError
from wye.training.fit.calibration import BINS, fit_curves, reliability
from wye.training.markdown import table

HITS = 10
FOLDS = 5
BATCH = 32
_CARD = """\
# Relevance: {name}

It gives every passage of a reply the probability that it is relevant, and every reply the
probability that the corpus has an answer, on every route. Each is a sum of non-decreasing curves on
the logit scale. A passage is judged by its score on its route, its rank, its cosine if the dense
arm found it too, and the shares of the question's words that it has and of its title's that the
question has; an answer by the best of these and by what the first {first} passages have together.

Routes that fuse lists take the first {depth} passages of each. If the index has no more, a filter
leaves no more, or more hits are asked for, a reply is judged as one of the dense route. With
another encoder or parser, or other settings of the arms than the curves were fitted with
(`{made_with}`), there is no relevance.

## How good it is

Fitted on questions of the train and dev splits of {families}. Each was asked of its index, and of a
copy without its relevant passages (removed). {foreign} All families have the same weight, and so
have questions with an answer and those without one.

For `fusion`, by curves that were fitted on all other families or, if only one has answers, on four
fifths of the questions. Calibration error (ECE) is over {bins} groups of equal weight.

{quality}

Answers, if those below a probability are not given:

{risks}

## Limits

- A passage that holds the answer and was not judged counts as not relevant.
- Half of the questions had no answer. If nearly all of yours have one, probabilities are too low.
- Without titles, probabilities are less reliable.

Made by `wye train --relevance`, or by
`python -m wye.training.relevance DATASET=INDEX … --out models/{name}`.
"""
_FOREIGN = "So were the indexes of other families (foreign). Only its own index has an answer."
_NO_FOREIGN = (
    "No questions of other corpora were asked, so how well they are told apart is not known."
)
FEWEST = 100
"""An index is asked about as many questions of other families as of its own, at least this many."""
ROUTES = tuple(route for route in USUAL if route != Route.AUTO)
MEASURES = ("AUC", "ECE", "Brier")
KINDS = ("own", "removed", "foreign")
UNANSWERED = 0.5
"""Weight, within a family, of each kind of question without an answer; the others have 1."""


@dataclass(frozen=True, slots=True)
class Example:
    """One route's answer to one question, as evidence.

    Attributes:
        route: The route.
        family: The dataset that the question comes from.
        kind: One of `KINDS`; only "own" questions have an answer in the corpus.
        passages: (m, d) evidence of the first hits.
        relevant: (m,) 1 where the passage is relevant.
        answer: (d,) evidence for an answer.
    """

    route: str
    family: str
    kind: str
    passages: Float64
    relevant: Float64
    answer: Float64


class Questions:
    """The questions of some splits of a dataset, with the index that answers them."""

    def __init__(self, pair: str, splits: Sequence[str]) -> None:
        """Read the questions; a dataset with none of the splits has none, but its index is asked.

        Args:
            pair: "DATASET=INDEX", or "DATASET" for questions that only other indexes are asked.

        Raises:
            DatasetError: The dataset cannot be read, or the index has no passage that is relevant.
        """
        folder, _, index = pair.partition("=")
        self.index = Path(index)
        names = [split for split in splits if Path(folder, "qrels", f"{split}.tsv").exists()]
        data = [read_dataset(Path(folder), split) for split in names]
        for part in data if index else ():
            lacking(part, self.index)
        self.texts = {q.id: q.text for part in data for q in part.questions}
        self.families = {q.id: q.group or part.name for part in data for q in part.questions}
        self.gold = {
            id_: frozenset(key for key, value in grades.items() if value > 0)
            for part in data
            for id_, grades in part.judgements.items()
        }

    def half(self, which: int) -> list[str]:
        """Ids of one half of the questions, chosen by their hash."""
        return [id_ for id_ in self.texts if zlib.crc32(id_.encode()) % 2 == which]


def ask(  # noqa: PLR0917 - one for each thing that varies
    settings: Settings,
    models: ModelCache,
    index: Path,
    source: Questions,
    ids: Sequence[str],
    kind: str,
) -> Iterator[Example]:
    """Yield examples of every route for some questions."""
    with Session.open(settings, index, models) as session:
        for route in ROUTES:
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                replies = session.gateway.search(
                    [source.texts[id_] for id_ in batch], Ask(route, HITS)
                )
                for id_, reply in zip(batch, replies, strict=True):
                    if not reply.ranking.hits:
                        continue
                    hits = reply.ranking.ids()
                    texts, dense = session.snapshot.texts(hits), reply.arms.get(Route.DENSE)
                    ranking = RouteRanking(reply.question, route, reply.ranking, texts, dense)
                    judged_route, evidence = evidence_on(ranking, settings.fusion.depth)
                    gold = source.gold[id_] if kind == "own" else frozenset[str]()
                    relevant = np.array([float(hit in gold) for hit in hits])
                    if judged_route != route:
                        continue
                    family = source.families[id_]
                    yield Example(route, family, kind, evidence.passages, relevant, evidence.answer)


def gather(settings: Settings, data: Sequence[Questions], scratch: Path) -> list[Example]:
    """Collect examples of all kinds from all datasets.

    Args:
        scratch: Folder for copies of the indexes.
    """
    examples: list[Example] = []
    with ModelCache() as models:
        for source in data:
            if source.index == Path():
                continue
            say(f"{source.index}: {len(source.texts)} questions")
            examples += ask(settings, models, source.index, source, list(source.texts), "own")
            for which in (0, 1):
                without = scratch / f"without-{which}"
                shutil.copytree(source.index, without)
                ids = source.half(which)
                gone = sorted(set().union(*(source.gold[id_] for id_ in ids)))
                remove(without, Removal(ids=tuple(gone)))
                examples += ask(settings, models, without, source, ids, "removed")
                shutil.rmtree(without)
            for other in data:
                if set(other.families.values()).isdisjoint(source.families.values()):
                    step = -(-len(other.texts) // max(len(source.texts), FEWEST)) or 1
                    sample = list(other.texts)[::step]
                    examples += ask(settings, models, source.index, other, sample, "foreign")
    return examples


@dataclass(frozen=True, slots=True)
class Observations:
    """The examples of one route as arrays, with a row for each passage or for each question.

    Attributes:
        outcomes: (n,) 0 or 1.
        weights: (n,) weights: families count the same, and their kinds as `UNANSWERED` says.
    """

    names: tuple[str, ...]
    evidence: Float64
    outcomes: Float64
    weights: Float64
    families: NDArray[np.str_]
    kinds: NDArray[np.str_]

    def fit(self, rows: Mask | None = None) -> CurveSum:
        """Fit curves to all rows, or to some."""
        mask = np.ones(len(self.outcomes), bool) if rows is None else rows
        return fit_curves(self.evidence[mask], self.outcomes[mask], self.weights[mask], self.names)

    def crossfit(self) -> Float64:
        """(n,) probabilities, each from curves that were fitted on all other families.

        If only one family has answers, they are from curves of the other four fifths instead.
        """
        groups: NDArray[np.generic] = self.families
        if len(np.unique(self.families[self.outcomes > 0])) < 2:
            groups = np.arange(len(self.outcomes)) // HITS % FOLDS  # keeps its hits together
        chances = np.empty(len(self.outcomes))
        for group in np.unique(groups):
            rows = groups == group
            chances[rows] = self.fit(~rows)(self.evidence[rows])
        return chances


def of_passages(examples: Sequence[Example]) -> Observations:
    """Observations with a row for each passage."""
    sizes = [len(example.relevant) for example in examples]
    families = np.repeat([example.family for example in examples], sizes)
    kinds = np.repeat([example.kind for example in examples], sizes)
    return Observations(
        PASSAGE_EVIDENCE,
        np.concatenate([example.passages for example in examples]),
        np.concatenate([example.relevant for example in examples]),
        _weights(families, kinds),
        families,
        kinds,
    )


def of_answers(examples: Sequence[Example]) -> Observations:
    """Observations with a row for each question; its outcome is whether it has an answer."""
    families = np.array([example.family for example in examples])
    kinds = np.array([example.kind for example in examples])
    return Observations(
        ANSWER_EVIDENCE,
        np.array([example.answer for example in examples]),
        (kinds == "own").astype(np.float64),
        _weights(families, kinds),
        families,
        kinds,
    )


def _weights(families: NDArray[np.str_], kinds: NDArray[np.str_]) -> Float64:
    weights = np.zeros(len(families))
    for family in np.unique(families):
        for kind in KINDS:
            rows = (families == family) & (kinds == kind)
            weights[rows] = (1.0 if kind == "own" else UNANSWERED) / max(rows.sum(), 1)
    return weights


def fit_model(examples: Sequence[Example], depth: int, made_with: str) -> RelevanceModel:
    """Fit the curves of every route.

    Raises:
        FitError: A route has no examples.
    """
    by_route = {route: [row for row in examples if row.route == route] for route in ROUTES}
    if none := [route for route, route_examples in by_route.items() if not route_examples]:
        raise FitError(
            f"Nothing was found by {', '.join(none)} in lists of {depth}; use indexes with more "
            "passages than that."
        )
    return RelevanceModel(
        depth,
        made_with,
        {route: of_passages(route_examples).fit() for route, route_examples in by_route.items()},
        {route: of_answers(route_examples).fit() for route, route_examples in by_route.items()},
    )


def quality(data: Observations, chances: Float64, rows: Mask) -> list[str]:
    """AUC, calibration error over bins of equal weight, and Brier score, as text.

    Weights are those of the fit, since a probability is only right for the share of questions
    without an answer that it was fitted for.
    """
    outcomes, chance = data.outcomes[rows].astype(np.int64), np.clip(chances[rows], 1e-9, 1 - 1e-9)
    if not len(outcomes) or outcomes.min() == outcomes.max():
        return ["-"] * 3
    weights = data.weights[rows]
    calibration = reliability(logit(chance), outcomes, weights=weights)
    area = roc_auc_score(outcomes, chance, sample_weight=weights)
    return [f"{area:.3f}", f"{calibration.ece:.3f}", f"{calibration.brier:.3f}"]


def quality_table(
    examples: Sequence[Example],
    model: RelevanceModel | None = None,
    routes: Sequence[Route] = ROUTES,
) -> str:
    """Table of how good the probabilities of passages and of answers are, by route and family.

    Args:
        model: The model to evaluate; None fits curves on all other families.
    """
    rows = []
    for route in routes:
        route_examples = [example for example in examples if example.route == route]
        passages, answers = of_passages(route_examples), of_answers(route_examples)
        chances = [
            observations.crossfit() if model is None else curves[route](observations.evidence)
            for observations, curves in (
                (passages, model.passages if model else {}),
                (answers, model.answers if model else {}),
            )
        ]
        for family in np.unique(answers.families[answers.outcomes > 0]):
            in_family = answers.families == family
            against = (in_family & np.isin(answers.kinds, ["own", kind]) for kind in KINDS[1:])
            cells = (
                *quality(passages, chances[0], passages.families == family),
                *quality(answers, chances[1], in_family),
                *(quality(answers, chances[1], rows)[0] for rows in against),
            )
            rows.append([route.value, family, *cells])
    header = [f"{name}, {what}" for what in ("passages", "answers") for name in MEASURES]
    header += [f"AUC, {kind}" for kind in KINDS[1:]]
    return table(["route", "family", *header], rows, 2)


def risk_table(observations: Observations, chances: Float64) -> str:
    """Table of the shares of answerable and unanswerable questions answered, by threshold.

    A dash stands where there is no such question, or no answer is as likely as the threshold.
    """
    right, rows = observations.outcomes == 1, []
    for least in (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9):
        answered = chances >= least
        cells = answered[right], answered[~right], right[answered]
        rows.append([f"{least:g}", *(f"{cell.mean():.3f}" if len(cell) else "-" for cell in cells)])
    return table(["abstain_below", "of those with", "of those without", "right to"], rows)


def fit_for_user(settings: Settings, pairs: Sequence[str], out: Path) -> str:
    """Fit relevance to a user's questions; the demo's serve as ones without an answer.

    Args:
        pairs: Each "DATASET=INDEX".

    Returns:
        The text of the card, which is written beside the model.

    Raises:
        FitError: There is too little to fit.
        DatasetError: A dataset cannot be read.
    """
    with as_file(files("wye.service") / "demo") as demo, tempfile.TemporaryDirectory() as scratch:
        data = [Questions(pair, ("train", "dev")) for pair in (*pairs, str(demo))]
        return write(settings, data[0].index, gather(settings, data, Path(scratch)), out)


def write(settings: Settings, index: Path, examples: Sequence[Example], out: Path) -> str:
    """Fit a model, write it with its card, and return the card.

    Args:
        index: One of the indexes that were asked, for the model's fingerprint.
    """
    with Session.open(settings, index) as session:
        made_with = fingerprint(session.index.fingerprint, settings)
    model = fit_model(examples, settings.fusion.depth, made_with)
    fusion = of_answers([example for example in examples if example.route == Route.FUSION])
    is_foreign = any(example.kind == "foreign" for example in examples)
    card = _CARD.format(
        name=out.name,
        first=FIRST,
        depth=model.depth,
        made_with=made_with,
        bins=BINS,
        families=", ".join(sorted({example.family for example in examples})),
        foreign=_FOREIGN if is_foreign else _NO_FOREIGN,
        quality=quality_table(examples, routes=[Route.FUSION]),
        risks=risk_table(fusion, fusion.crossfit()),
    )
    out.mkdir(parents=True, exist_ok=True)
    for name, content in ((RELEVANCE, relevance_json(model)), ("CARD.md", card)):
        with write_atomically(out / name) as file:
            file.write(content.encode())
    return card


app = typer.Typer()


@app.command()
def main(
    pairs: Annotated[list[str], typer.Argument(help="Dataset and index.", metavar="DATASET=INDEX")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the model.")],
    test: Annotated[
        bool, typer.Option("--test", help="Only evaluate the model in --out on the test splits.")
    ] = False,
) -> None:
    """Fit relevance and answerability, and write them with a card."""
    settings = load_settings()
    data = [Questions(pair, ("test",) if test else ("train", "dev")) for pair in pairs]
    with tempfile.TemporaryDirectory() as scratch:
        examples = gather(settings, data, Path(scratch))
    if test:
        model = load_relevance(out)
        say(quality_table(examples, model))
        return
    say(write(settings, data[0].index, examples, out))


if __name__ == "__main__":
    app()
