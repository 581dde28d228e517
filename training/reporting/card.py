"""The card of a router: what it does, what it learned from, how good it is, and when to retrain."""

from collections.abc import Mapping, Sequence

from router.query_performance import CHEAP_SIGNALS
from training.evaluation.held_out import AUTO
from training.reporting.blocks import Block, Code, Section, Table
from training.reporting.contents import RouterReport
from training.reporting.final_sections import gap
from training.reporting.formats import share, signed_spread, spread
from training.reporting.markdown import markdown
from training.reporting.provenance import PUBLIC, UNSTATED, Provenance
from training.reporting.scores import CROSSFIT, calibrations
from training.reporting.summary import summarise

MEASURED = ("nDCG@10", "R@5", "Success@1")


def card(
    name: str,
    report: RouterReport,
    schema: str,
    provenance: Mapping[str, Provenance] = PUBLIC,
) -> str:
    """The text of CARD.md.

    Args:
        name: Of the router.
        report: Of its training run.
        schema: Id of the features that it looks at.
        provenance: By name of the dataset; one that is not there is said to be not stated.
    """
    sections = [
        _what(report, schema),
        _figures(report),
        _data(report, provenance),
        _limits(report),
        _retrain(report),
    ]
    return markdown(f"Router: {name}", sections)


def _what(report: RouterReport, schema: str) -> Section:
    fitted = report.fitted
    policy, scorer = fitted.policy, fitted.scorer
    low, high = policy.thresholds.low, policy.thresholds.high
    return Section(
        "What it does",
        [
            "It gives a question a score from 0 to 1: how likely it is that graph retrieval is "
            f"needed and {policy.simple} retrieval is not enough. It sees no words, neither of the "
            "question nor of passages, but counts and measures of the question's parse"
            f"{_seen(scorer.names)}",
            Table(
                ("part", "value"),
                [
                    ("scorer", f"{fitted.trained.recipe.kind}{_members(len(scorer.members))}"),
                    ("features", f"{len(scorer.names)}, schema `{schema}`"),
                    ("learned from", f"disagreements by {fitted.choices.success}"),
                    ("thresholds solved for", fitted.choices.quality),
                    ("simple route", str(policy.simple)),
                    ("simple route taken", f"up to a score of {low:.4f}"),
                    ("graph taken", f"from a score of {high:.4f}"),
                    ("between", f"fusion by {fitted.choices.fusion.method}"),
                ],
                words=2,
            ),
        ],
    )


def _seen(names: Sequence[str]) -> str:
    """What a router sees of the corpus, as the end of a sentence."""
    corpus = len(set(CHEAP_SIGNALS) & set(names))
    if not corpus:
        return "; so it decides without an index."
    return (
        f", and {corpus} of what the corpus says to it before the graph is walked: which of its "
        "names are known, in how many passages, and how far the best of the dense list stands out."
    )


def _members(count: int) -> str:
    return f", mean of {count}" if count > 1 else ""


def _figures(report: RouterReport) -> Section:
    calibrated = calibrations(report)[CROSSFIT].ece_mass
    blocks: list[Block] = []
    if report.judged is None:
        stable = report.stability.quality
        blocks.append(
            f"No dataset has a test split, so that it has not been judged. On train and dev, by "
            f"cross-fitted scores, {report.fitted.choices.quality} is {spread(stable)}; the "
            "thresholds were chosen on the same questions."
        )
    else:
        found = summarise(report.judged)
        blocks += [
            f"On {found.questions} test questions, with 95 % bootstrap intervals; * where that of "
            "a paired difference excludes 0.",
            Table(
                ("contender", *MEASURED, f"auto less it, {MEASURED[0]}"),
                [
                    (
                        contender,
                        *(spread(cells[measure]) for measure in MEASURED),
                        ""
                        if contender == AUTO
                        else signed_spread(found.differences[contender][MEASURED[0]]),
                    )
                    for contender, cells in found.means.items()
                ],
            ),
            f"{gap(found)} Its AUC on disagreements is {share(found.auc)}."
            + (f" ECE on test: {share(found.calibration.ece_mass)}." if found.calibration else ""),
        ]
    blocks += [
        f"ECE of cross-fitted scores on train and dev: {share(calibrated)}.",
        "The command that gives all of this, and the report beside this card:",
        Code(report.command),
    ]
    return Section("How good it is", blocks)


def _data(report: RouterReport, provenance: Mapping[str, Provenance]) -> Section:
    splits = ("train", "dev", "test")
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in report.tallies):
        own = [one for one in report.tallies if one.dataset == dataset]
        source = provenance.get(dataset, UNSTATED)
        counts = [sum(one.questions for one in own if one.split == split) for split in splits]
        rows.append((dataset, source.title, source.licence, source.passages, *map(str, counts)))
    return Section(
        "Data and licences",
        [
            "A question that is asked of two indexes counts twice. Test questions were only "
            "scored.",
            Table(("dataset", "what it is", "licence", "passages", *splits), rows, words=4),
            "The files of this folder hold weights and statistics of features; no passage and no "
            "question of these datasets is among them.",
        ],
    )


def _limits(report: RouterReport) -> Section:
    said: list[Block] = [
        "English questions only: the parser, and with it every feature, is English.",
        "Questions, passages or arms unlike those above move the best thresholds, and `wye tune` "
        "solves them again.",
    ]
    better = {
        name: summarise(judged).differences for name, judged in sorted(report.transfer.items())
    }
    if better:
        said.append(
            "Learning from the other datasets alone, its nDCG@10 on each, less that of always "
            "taking one arm:"
        )
        arms = ("always dense", "always graph")
        said.append(
            Table(
                ("dataset", *(f"less {arm}" for arm in arms)),
                [
                    (name, *(signed_spread(by[arm][MEASURED[0]]) for arm in arms))
                    for name, by in better.items()
                ],
            )
        )
    return Section("Limits", said)


def _retrain(report: RouterReport) -> Section:
    return Section(
        "When to retrain",
        [
            "When the index is over texts of another kind, when the settings of an arm change, "
            "when Wye computes other features (it then refuses this router and says so), or when "
            "some hundred judged questions of one's own are at hand:",
            Code("wye train --index INDEX --questions FOLDER --name NAME"),
            "`FOLDER` is in BEIR's layout, with train and dev judgements, and test ones to be "
            f"judged by. Below about 50 disagreements little is learned; this router had "
            f"{int((report.fitted.labels >= 0).sum())}.",
        ],
    )
