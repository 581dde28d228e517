"""Writes a router's card: what it does, its training data, its quality, and when to retrain."""

import math
from collections.abc import Mapping, Sequence

from wye.router.evidence import CHEAP_SIGNALS
from wye.router.policy import SURE
from wye.router.remote import PASSAGE_COLUMNS
from wye.training.evaluation.away import MEASURED, Away
from wye.training.evaluation.compare import AUTO, QUALITY
from wye.training.evaluation.held_out import Summary
from wye.training.labels import ENOUGH
from wye.training.markdown import escape, gain_spread, percent, share, spread, table
from wye.training.report import CROSSFIT, FRONT, RELIABILITY, Report

Provenance = tuple[str, str, str]
"""A dataset's title, the licence of its questions, and the source of its passages."""
_WIKIPEDIA = "Wikipedia, CC BY-SA"
PUBLIC: Mapping[str, Provenance] = {
    "2wiki": ("2WikiMultiHopQA", "Apache-2.0", _WIKIPEDIA),
    "hotpot-small": ("HotpotQA, sample", "CC BY-SA 4.0", _WIKIPEDIA),
    "musique-small": ("MuSiQue, sample", "CC BY 4.0", _WIKIPEDIA),
    "popqa": ("PopQA, sample", "MIT", _WIKIPEDIA),
    "nq": ("Natural Questions, sample", "Apache-2.0 / CC BY-SA 3.0", _WIKIPEDIA),
    "squad": ("SQuAD 2.0, sample of half of its dev set", "CC BY-SA 4.0", _WIKIPEDIA),
    "covid": ("COVID-QA, sample", "Apache-2.0", "articles of CORD-19"),
    "cranfield": ("Cranfield, all", "not stated", "abstracts on aerodynamics"),
    "pubmedqa": ("PubMedQA, sample of its labelled questions", "MIT", "PubMed's abstracts"),
}
"""The public datasets that the shipped router is trained on, by folder name."""
UNSTATED = ("own data", "not stated", "not stated")

_CARD = """\
# Router: {name}

It gives a question a score from 0 to 1: how likely it is that graph retrieval is needed and
{simple} retrieval is not enough. It uses no words of the question or of passages, but {sees}

- Scorer: {kind} on {features} features of schema `{schema}`, learned from {success}.
- Thresholds, solved for {quality}: up to a score of {low:.4f} {simple}, from {high:.4f} on the
  graph, between them fusion by {fusion}. In steps: {steps}.

## How good it is

{evaluation}

ECE of cross-fitted scores on train and dev: {calibration}.{away}

![What thresholds give on train and dev, and what these give.]({front})
![How often the label is the graph, by score; calibrated on the dotted line.]({reliability})

This command makes the router, this card and `metrics.json`, which has every number:

    {command}

## Data and licences

A question that is asked of two indexes counts twice. Test questions were only scored.

{data}

The files in this folder contain weights and statistics, but no passage or question of these
datasets.

## Limits, and when to retrain

English questions only: the parser is English, and so are the stop words. `wye tune` solves the
thresholds again for other questions, passages or arms. Retrain if the index has texts of another
kind, if the settings of an arm change, if Wye computes other features (it then refuses this
router), or if you have some hundred judged questions of your own:

    wye train --index INDEX --questions FOLDER --name NAME

A router needs about {enough} disagreements, which are questions on which one of the two routes that
it compares is better; this one had {disagreements}.
"""


def card(name: str, report: Report, provenance: Mapping[str, Provenance] = PUBLIC) -> str:
    """The text of CARD.md; datasets without provenance are listed as "not stated"."""
    choices, thresholds = report.choices, report.policy.thresholds
    return _CARD.format(
        name=name,
        simple=report.policy.simple,
        sees=_sees(report.selection.names),
        kind=report.recipe.kind + (f", mean of {report.members}," if report.members > 1 else ""),
        features=len(report.selection.names),
        schema=report.schema_id,
        success=choices.success,
        quality=choices.quality,
        low=thresholds.low,
        high=thresholds.high,
        fusion=choices.fusion.method,
        steps=stepping(thresholds.steps),
        evaluation=_unjudged(report) if report.evaluation is None else judged(report.evaluation),
        calibration=share(report.calibration[CROSSFIT].ece_mass),
        away="".join(f" {sentence}" for sentence in _away(report)),
        front=FRONT,
        reliability=RELIABILITY,
        command=report.command.replace("\n", " "),
        data=_data(report, provenance),
        enough=ENOUGH,
        disagreements=sum(row.disagreements for row in report.data if row.split != "test"),
    )


def _sees(names: Sequence[str]) -> str:
    """A router's inputs in words, as the end of a sentence."""
    corpus = len(set(CHEAP_SIGNALS) & set(names))
    parse = [] if corpus == len(names) else ["counts and measures of the question's parse"]
    if set(PASSAGE_COLUMNS) >= set(names):
        return (
            f"{len(names)} numbers on the first passages that a simple search returned: which of "
            "its words and names they hold, and which they are about. So it decides without an "
            "index, whatever search returned them."
        )
    if not corpus:
        return f"{parse[0]}; so it decides without an index."
    corpus_text = (
        f"{corpus} numbers on what the corpus has for the question before the graph is walked: how "
        "far the best passages stand out, which of its words and names the corpus knows, and where "
        "these occur."
    )
    return ", and ".join([*parse, corpus_text])


def stepping(threshold: float) -> str:
    """Which questions go in steps, in words."""
    if not threshold:
        return "no question"
    few = f" where the first passages are about less than {percent(threshold)} of what they need"
    return (
        f"from a score of {SURE:g} on, or where words nest descriptions, questions with a plan"
        f"{'' if threshold == 1 else few}"
    )


def _unjudged(report: Report) -> str:
    return (
        "No dataset has a test split, so it was not evaluated. On train and dev, by cross-fitted "
        f"scores, {report.choices.quality} is {spread(report.stability.quality)}; the thresholds "
        "were chosen on the same questions."
    )


def judged(summary: Summary) -> str:
    """The final evaluation: a table with a row for each system, and what follows from it."""
    rows = [
        (
            system,
            *(spread(cells[measure]) for measure in MEASURED),
            "" if system == AUTO else gain_spread(summary.differences[system][QUALITY]),
        )
        for system, cells in summary.means.items()
    ]
    closed = summary.gap_closed[QUALITY]
    sentences = [
        f"No choice of routes beats the best fixed route in {QUALITY}."
        if math.isnan(closed)
        else f"The router closes {percent(closed)} of the gap between the best fixed route and the "
        f"oracle in {QUALITY}."
    ]
    if not math.isnan(summary.auc):
        sentences.append(f"Its AUC is {share(summary.auc)}.")
    if summary.calibration:
        sentences.append(f"ECE on test: {share(summary.calibration.ece_mass)}.")
    simple, fusion, graph, steps = map(percent, summary.shares[AUTO])
    sentences.append(f"Routes: {simple} simple, {fusion} fusion, {graph} graph, {steps} steps.")
    return "\n\n".join(
        [
            f"On {summary.questions} test questions, with 95 % bootstrap intervals; * where that "
            "of a paired difference excludes 0.",
            table(("system", *MEASURED, f"auto less it, {QUALITY}"), rows),
            " ".join(sentences),
        ]
    )


def _away(report: Report) -> list[str]:
    """How the router does on datasets that were not trained on, at its own operating point."""
    thresholds, points = report.policy.thresholds, report.policy.points

    def range_of(outcomes: Sequence[Away]) -> str:
        rows = [row for row in outcomes if points.get(row.point, thresholds) == thresholds]
        worst, best = (pick(rows, key=lambda row: row.less_best.mean) for pick in (min, max))
        return (
            f"{QUALITY} less that of the best fixed route is from {gain_spread(worst.less_best)} "
            f"({escape(worst.dataset)}) to {gain_spread(best.less_best)} ({escape(best.dataset)})"
        )

    sentences = []
    if report.left_out:
        sentences.append(
            "With each dataset routed by a router that learned from the others, "
            f"{range_of(report.left_out)}."
        )
    if report.strangers:
        sentences.append(
            "On datasets and spellings that nothing was learned from, "
            f"{range_of(report.strangers)}."
        )
    return sentences


def _data(report: Report, provenance: Mapping[str, Provenance]) -> str:
    lines = []
    for dataset in dict.fromkeys(row.dataset for row in report.data):
        rows = [row for row in report.data if row.dataset == dataset]
        title, licence, passages = provenance.get(dataset, UNSTATED)
        counts = ", ".join(
            f"{sum(one.questions for one in rows if one.split == split)} {split}"
            for split in ("train", "dev", "test")
        )
        lines.append(f"- {escape(dataset)}: {title} ({licence}; passages: {passages}): {counts}")
    return "\n".join(lines)
