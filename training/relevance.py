"""`python -m wye.training.relevance DATASET=INDEX … --out FOLDER`: fits relevance.

Every route answers the train questions of each dataset, and questions that have no answer; see
`wye.training.relevance_questions`. `wye train --relevance` fits a user's own train and dev
questions.
"""

from collections.abc import Sequence
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
from wye.backends.store.index import PassageStore
from wye.backends.types import Float64, Mask
from wye.router.match import FIRST
from wye.router.relevance import ANSWER_EVIDENCE, FEW, PASSAGE_EVIDENCE, CurveSum, RelevanceModel
from wye.router.relevance_files import RELEVANCE, fingerprint, relevance_json
from wye.router.settings import Settings, load_settings
from wye.router.types import ABSTAIN_BELOW, SURE_FROM, Route
from wye.training.data import QuestionSource, parse_source
from wye.training.errors import FitError
from wye.training.fit.calibration import BINS, fit_curves, reliability
from wye.training.markdown import table
from wye.training.relevance_questions import HITS, ROUTES, SIZES, Example, Questions, gather

FOLDS = 5
_FOREIGN = "So were the indexes of other families (foreign)."
_NO_FOREIGN = (
    "No questions of other corpora were asked, so how well they are told apart is not known."
)
UNANSWERED = {"removed": 0.35, "foreign": 0.15, "near": 1.0}  # weights within a family; own: 1
PASSAGES_UNANSWERED = 1 / 6  # factor on these weights where passages are fitted
KINDS = ("own", *UNANSWERED)
REPORTED = (Route.FUSION, FEW)


@dataclass(frozen=True, slots=True)
class Observations:
    """The examples of one route as arrays, with a row for each passage or for each question."""

    names: tuple[str, ...]
    evidence: Float64
    outcomes: Float64  # (n,) 0 or 1
    weights: Float64  # (n,) weights: families count the same, and their kinds as `UNANSWERED` says
    families: NDArray[np.str_]
    kinds: NDArray[np.str_]

    def fit(self, rows: Mask | None = None) -> CurveSum:
        """Fit curves to all rows, or to some."""
        mask = np.ones(len(self.outcomes), bool) if rows is None else rows
        return fit_curves(self.evidence[mask], self.outcomes[mask], self.weights[mask], self.names)

    def crossfit(self) -> Float64:
        """(n,) probabilities, each from curves that were fitted on all other families.

        If only one family has answers, they are fitted on the other four fifths of the questions.
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
    factors = np.where(kinds == "own", 1.0, PASSAGES_UNANSWERED)
    evidence = np.concatenate([example.passages for example in examples])
    outcomes = np.concatenate([example.relevant for example in examples])
    weights = factors * _weights(families, kinds)
    return Observations(PASSAGE_EVIDENCE, evidence, outcomes, weights, families, kinds)


def of_answers(examples: Sequence[Example]) -> Observations:
    """Observations with a row for each question; its outcome is whether it has an answer."""
    families = np.array([example.family for example in examples])
    kinds = np.array([example.kind for example in examples])
    evidence, outcomes = np.array([e.answer for e in examples]), (kinds == "own").astype(float)
    weights = _weights(families, kinds)
    return Observations(ANSWER_EVIDENCE, evidence, outcomes, weights, families, kinds)


def _weights(families: NDArray[np.str_], kinds: NDArray[np.str_]) -> Float64:
    weights = np.zeros(len(families))
    for family in np.unique(families):
        for kind in KINDS:
            rows = (families == family) & (kinds == kind)
            weights[rows] = UNANSWERED.get(kind, 1.0) / max(rows.sum(), 1)
    return weights


def fit_model(examples: Sequence[Example], depth: int, made_with: str) -> RelevanceModel:
    """Fit the curves of every route; a `FitError` if one has no examples."""
    by_route = {route: [row for row in examples if row.route == route] for route in (*ROUTES, FEW)}
    if none := [route for route, route_examples in by_route.items() if not route_examples]:
        raise FitError(
            f"Nothing was found by {', '.join(none)} in lists of {depth}; use indexes with more "
            f"passages than that ({FEW}: and copies with fewer)."
        )
    return RelevanceModel(
        depth,
        made_with,
        {route: of_passages(route_examples).fit() for route, route_examples in by_route.items()},
        {route: of_answers(route_examples).fit() for route, route_examples in by_route.items()},
    )


def quality(data: Observations, chances: Float64, rows: Mask) -> list[str]:
    """AUC and calibration error over bins of equal weight, as text.

    Weights are those of the fit, since a probability is only right for the share of questions
    without an answer that it was fitted for.
    """
    outcomes, chance = data.outcomes[rows].astype(np.int64), np.clip(chances[rows], 1e-9, 1 - 1e-9)
    if not len(outcomes) or outcomes.min() == outcomes.max():
        return ["-", "-"]
    weights = data.weights[rows]
    calibration = reliability(logit(chance), outcomes, weights=weights)
    area = roc_auc_score(outcomes, chance, sample_weight=weights)
    return [f"{area:.3f}", f"{calibration.ece:.3f}"]


def quality_table(examples: Sequence[Example]) -> str:
    """How good the cross-fitted probabilities of `REPORTED` are, for each family of questions."""
    lines = []
    for route in REPORTED:
        of_route = [example for example in examples if example.route == route]
        passages, answers = of_passages(of_route), of_answers(of_route)
        likely, answered = passages.crossfit(), answers.crossfit()
        for family in np.unique(answers.families[answers.outcomes > 0]):
            ours = answers.families == family
            refused = (_refused(answered[ours & (answers.kinds == kind)]) for kind in KINDS)
            of_passage = quality(passages, likely, passages.families == family)
            lines.append([route, family, *of_passage, *quality(answers, answered, ours), *refused])
    measures = [f"{name}, {what}" for what in ("passages", "answers") for name in ("AUC", "ECE")]
    return table(["route", "family", *measures, *KINDS], lines, 2)


def _refused(chances: Float64) -> str:
    """The shares of questions that are answered with "no" and with "unsure"."""
    if not len(chances):
        return "-"
    no, below = ((chances < bound).mean() for bound in (ABSTAIN_BELOW, SURE_FROM))
    return f"{no:.3f} + {below - no:.3f}"


def fit_relevance(settings: Settings, data: Sequence[Questions], out: Path) -> str:
    """Fit relevance to the answers of indexes, the first of `data`, and write it with its card.

    Returns the card. A `FitError` if there is too little to fit.
    """
    examples = gather(settings, data)
    made_with = fingerprint(PassageStore.open(data[0].index or Path()).fingerprint, settings)
    model = fit_model(examples, settings.fusion.depth, made_with)
    is_foreign = any(example.kind == "foreign" for example in examples)
    depth, sizes, no, sure = model.depth, ", ".join(map(str, SIZES)), ABSTAIN_BELOW, SURE_FROM
    card = f"""\
# Relevance: {out.name}

It gives every passage of a reply its relevance, the probability that a judge would mark the passage
(or the document that it is part of) as evidence for the question, wherever in a chain of steps it
was found; and every reply its answerability, the probability that the corpus has an answer. Each is
a sum of non-decreasing curves on the logit scale, one for each kind of evidence:

- for a passage: {", ".join(PASSAGE_EVIDENCE)};
- for an answer, from the first {FIRST} passages: {", ".join(ANSWER_EVIDENCE)}.

`wye.router.relevance` says what these are. Routes that fuse lists take the first {depth} passages
of each. If the index has no more, a filter leaves no more, or more hits are asked for, other curves
judge (`few`). With another encoder or parser, or other settings of the arms than the curves were
fitted with (`{made_with}`), there is no relevance.

## How good it is

Fitted on questions of {", ".join(sorted({example.family for example in examples}))}.
Each was asked of its index, of a copy without its relevant passages (removed), and of copies with
{sizes} passages. Near misses (near) put a name of one question into another, so that no passage has
both the name and what is asked about it. {_FOREIGN if is_foreign else _NO_FOREIGN}
All families have the same weight. Questions without an answer, two thirds of which are near misses,
have half as much again as those with one; among passages, they have a quarter of it.

For `fusion` and `few`, by curves fitted on all other families (or, if only one has answers, on four
fifths of the questions): AUC and calibration error (ECE, over {BINS} groups of equal weight) of
passages and of answers; and of questions with an answer (own) and of the kinds without one, how
many are answered with `no` (answerability below {no}) and with `unsure` (below {sure}).

{quality_table(examples)}

## Limits

- A passage that holds the answer and was not judged counts as not relevant.
- Three fifths of the weight had no answer. If nearly all of yours have one, answerability is low.
- Without titles, probabilities are less reliable.

Made by `wye train --relevance`, or by
`python -m wye.training.relevance DATASET=INDEX … --out models/{out.name}`.
"""
    out.mkdir(parents=True, exist_ok=True)
    for name, content in ((RELEVANCE, relevance_json(model)), ("CARD.md", card)):
        with write_atomically(out / name) as file:
            file.write(content.encode())
    return card


def fit_for_user(settings: Settings, sources: Sequence[QuestionSource], out: Path) -> str:
    """Fit relevance to a user's questions; the demo's serve as ones without an answer."""
    splits = ("train", "dev")
    with as_file(files("wye.service") / "demo") as demo:
        data = [Questions(source.dataset, source.index, splits) for source in sources]
        return fit_relevance(settings, [*data, Questions(demo, None, splits)], out)


def main(
    pairs: Annotated[list[str], typer.Argument(help="Dataset and index.", metavar="DATASET=INDEX")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the model.")],
) -> None:
    """Fit relevance and answerability to train questions, and write them with a card."""
    sources = [parse_source(pair, None) for pair in pairs]
    data = [Questions(source.dataset, source.index, ("train",)) for source in sources]
    say(fit_relevance(load_settings(), data, out))


if __name__ == "__main__":
    typer.run(main)
