"""Writes a router's card: what it does, its training data, its quality, and when to retrain."""

from collections.abc import Mapping, Sequence

from router.passage_evidence import PASSAGE_NAMES
from router.query_performance import CHEAP_SIGNALS
from training.evaluation.away import MEASURED
from training.evaluation.compare import AUTO, QUALITY
from training.labels import ENOUGH
from training.markdown import code, fill, gain_spread, share, spread, table
from training.report import CROSSFIT, Report
from training.report_text import away_section, gap, probes_markdown, stepping

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


def card(name: str, report: Report, provenance: Mapping[str, Provenance] = PUBLIC) -> str:
    """The text of CARD.md; datasets without provenance are listed as "not stated"."""
    learned_from = [one for one in report.data if one.split != "test"]
    return fill(
        "card.md",
        name=name,
        report=report,
        sees=_sees(report.selection.names),
        members=f", mean of {report.members}" if report.members > 1 else "",
        features=len(report.selection.names),
        steps=stepping(report.policy.thresholds.steps),
        evaluation=_evaluation(report),
        calibration=share(report.calibration[CROSSFIT].ece_mass),
        probes=probes_markdown(report.probes),
        command=code(report.command),
        data=_data(report, provenance),
        away=away_section(report),
        enough=ENOUGH,
        disagreements=sum(one.disagreements for one in learned_from),
    )


def _sees(names: Sequence[str]) -> str:
    """A router's inputs in words, as the end of a sentence."""
    corpus = len(set(CHEAP_SIGNALS) & set(names))
    parse = [] if corpus == len(names) else ["counts and measures of the question's parse"]
    if set(PASSAGE_NAMES) >= set(names):
        return (
            f"{len(names)} numbers on the first passages that a simple search returned: which of "
            "its words and names they hold, and which they are about. So it decides without an "
            "index, whatever search returned them."
        )
    if not corpus:
        return f"{parse[0]}; so it decides without an index."
    found = (
        f"{corpus} numbers on what the corpus has for the question before the graph is walked: how "
        "far the best passages stand out, which of its words and names the corpus knows, and where "
        "these occur."
    )
    return ", and ".join([*parse, found])


def _evaluation(report: Report) -> str:
    if report.evaluation is None:
        return (
            "No dataset has a test split, so it was not evaluated. On train and dev, by "
            f"cross-fitted scores, {report.choices.quality} is {spread(report.stability.quality)}; "
            "the thresholds were chosen on the same questions."
        )
    found = report.evaluation
    rows = [
        (
            system,
            *(spread(cells[measure]) for measure in MEASURED),
            "" if system == AUTO else gain_spread(found.differences[system][QUALITY]),
        )
        for system, cells in found.means.items()
    ]
    said = f"{gap(found)} Its AUC is {share(found.auc)}."
    if found.calibration:
        said += f" ECE on test: {share(found.calibration.ece_mass)}."
    return "\n\n".join(
        [
            f"On {found.questions} test questions, with 95 % bootstrap intervals; * where that of "
            "a paired difference excludes 0.",
            table(("system", *MEASURED, f"auto less it, {QUALITY}"), rows),
            said,
        ]
    )


def _data(report: Report, provenance: Mapping[str, Provenance]) -> str:
    splits = ("train", "dev", "test")
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in report.data):
        own = [one for one in report.data if one.dataset == dataset]
        source = provenance.get(dataset, UNSTATED)
        counts = (sum(one.questions for one in own if one.split == split) for split in splits)
        rows.append((dataset, *source, *map(str, counts)))
    return table(("dataset", "what it is", "licence", "passages", *splits), rows, words=4)
