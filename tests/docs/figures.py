"""Which figures of which document come from which command."""

from collections.abc import Iterator
from dataclasses import dataclass

ROUTER, SYNTAX = "models/router-en/v1", "models/router-syntax-en/v1"
CONSTITUENCY, RELEVANCE = "models/constituency-en-gum", "models/relevance-en"
README, RESULTS, INDEX, INSTEAD = "README.md", "docs/results.md", "docs/index.md", "docs/instead.md"
QUALITY, TESTED = "benchmarks/quality.json", "benchmarks/quality-test.json"
NESTED = "wye eval service/demo_steps --index demo-index --routes dense,hybrid,fusion,steps"
FAMILIES = ("2wiki", "demo", "demo_work", "hotpot-small", "musique-small", "nq", "popqa")
LABELS = (
    *("2WikiMultiHopQA", "the demo", "a company's folder (`demo_work`)", "HotpotQA", "MuSiQue"),
    *("Natural Questions", "PopQA"),
)
BENCHMARKS = "benchmarks/README.md"
ALL_MEASURES = ("R@5", "all-evidence@5", "Success@1")
LESS = "auto less it, nDCG@10"
CARD_OF_ROUTER = (
    "Its AUC is {AUC}.",
    "Routes: {simple} % simple, {fusion} % fusion, {graph} % graph, {steps} % steps.",
    "by cross-fitting: AUC {cross-fitted AUC}, ECE",
    "Rank correlation with the number of hops: {hops} (all)",
)
"""Sentences of a router's card."""
TAUGHT = "on the same questions, {behind trees} [{behind trees low} {behind trees high}] nats"


@dataclass(frozen=True)
class Claim:
    """Words of a document, with a name in braces for each figure.

    Attributes:
        source: What printed the figures: a card, JSON that a command wrote, a file of
            `benchmarks/recorded`, or a command that is short enough to be run.
    """

    document: str
    source: str
    words: str


def recorded(name: str) -> str:
    return f"benchmarks/recorded/{name}.txt"


def spread(name: str) -> str:
    return f"{{{name}}} [{{{name} low}} {{{name} high}}]"


def cards() -> Iterator[Claim]:
    """What cards say of the files beside them."""
    for folder, simple in ((ROUTER, "hybrid"), (SYNTAX, "dense")):
        card = f"{folder}/CARD.md"
        limits = f"up to a score of {{low}} {simple}, from {{high}} on the graph"
        yield Claim(card, f"{folder}/thresholds.json", limits)
        yield Claim(card, f"{folder}/manifest.json", "this one had {training disagreements}.")
    for row, name in {
        "dev | 685 | 83.0 | 82.8": "dev",
        "test | 723 | 82.8 | 82.8": "test",
        "test, questions | 29 | 83.5 | 81.3": "test, questions",
        "held-out questions | 302 | 83.1 | 83.2": "held-out questions",
    }.items():
        card, manifest = f"{CONSTITUENCY}/CARD.md", f"{CONSTITUENCY}/manifest.json"
        yield Claim(card, manifest, f"| {row} | {{bracket_f1 {name}}} |")


def routers() -> Iterator[Claim]:
    card, shares = f"{ROUTER}/CARD.md", " | {without graph} | {in steps}"
    for label, name, taken in (
        ("always hybrid", "hybrid", " | 1.00 | "),
        ("always graph", "graph", " | | "),
        ("always fusion", "fusion", " | | "),
        ("always steps", "steps", " | | "),
        ("**`auto`**", "auto", shares),
    ):
        row = f"{{nDCG@10}} | {{R@5}} | {{Success@1}}{taken} | {{ms}}".replace(
            "{", f"{{all {name} "
        )
        yield Claim(RESULTS, TESTED, f"| {label} | {row} |")
    oracle = "| oracle | {oracle nDCG@10} | {oracle R@5} | {oracle Success@1} |"
    yield Claim(RESULTS, card, oracle)
    yield Claim(
        README,
        TESTED,
        "`auto` has an nDCG@10 of {all auto nDCG@10} at {all auto ms} ms, `steps` "
        "{all steps nDCG@10} at {all steps ms}, fusion {all fusion nDCG@10} at {all fusion ms} "
        "(processor time). It skips the graph for {skipped in percent} %,",
    )
    steps = "the quality of always taking `steps` for {time of steps in percent} % of their time"
    yield Claim(README, TESTED, steps)
    skips = "and skips the graph for {skipped in percent} % of the questions"
    yield Claim(INDEX, TESTED, f"{steps}, {skips}")
    yield Claim(
        RESULTS, TESTED, "The quality of steps for {time of steps in percent} % of their time"
    )
    folder = (
        "`auto` has {demo_work auto nDCG@10} as steps do, fusion {demo_work fusion nDCG@10} and"
    )
    yield Claim(RESULTS, TESTED, f"{folder} hybrid {{demo_work hybrid nDCG@10}}.")
    yield Claim(
        RESULTS,
        card,
        f"There `auto` less always fusion is {spread(f'always fusion {LESS}')}, less always steps "
        f"{spread(f'always steps {LESS}')}",
    )
    yield Claim(
        RESULTS,
        card,
        "| text, 77 columns: the router that ships | {cross-fitted AUC} | "
        f"{spread('behind trees')} | {{hops}} |",
    )
    yield Claim(
        RESULTS,
        f"{SYNTAX}/CARD.md",
        "`ea-graphrag` takes dense for {simple} % of the 1,306 test questions of 2Wiki, PopQA and "
        "NQ, fusion for {fusion} % and the graph for {graph} %",
    )


def datasets() -> Iterator[Claim]:
    for name, label, first in (
        ("2wiki", "2WikiMultiHopQA, 2 to 4 hops | 490", "graph"),
        ("popqa", "PopQA, rare entities | 498", "fusion"),
        ("nq", "Natural Questions, lower case | 318", "fusion"),
    ):
        cell = {route: spread(f"{route} R@5") for route in ("dense", "lexical", "graph", "fusion")}
        cell[first] = cell[first].replace("}", "}**", 1).replace("{", "**{", 1)
        public = ".693" if name == "2wiki" else ""
        row = " | ".join([label, cell["dense"], public, cell["graph"], cell["fusion"]])
        yield Claim(README, recorded(f"{name}-test"), f"| {row} |")
        yield Claim(RESULTS, recorded(f"{name}-test"), f"| {label} | {' | '.join(cell.values())} |")
    yield Claim(
        INDEX,
        recorded("2wiki-test"),
        "Recall@5 is {dense R@5} for dense search, .693 for LinearRAG's public code and "
        "{fusion R@5} for Wye's fusion.",
    )
    nq = "fusion has {fusion R@5}, dense search {dense R@5}."
    yield Claim(INDEX, recorded("nq-test"), f"(Natural Questions) {nq}")
    words = "where dense search has {dense R@5} and fusion {fusion R@5}"
    yield Claim(INSTEAD, recorded("2wiki-test"), words)
    joined = "(`WYE_FUSION__METHOD=rrf`, `WYE_FUSION__LISTS=dense,lexical`) | {fusion R@5} |"
    yield Claim(INSTEAD, recorded("2wiki-rrf-dev"), joined)
    for label, route in (
        ("dense search: sentence-transformers and a flat FAISS index", "dense"),
        ("Wye, `lexical` (BM25)", "lexical"),
        ("Wye, `dense`", "dense"),
        ("Wye, `hybrid`: the same two, their scores added", "hybrid"),
        ("Wye, `fusion`", "fusion"),
        ("Wye, `steps`", "steps"),
        ("Wye, `auto`", "auto"),
    ):
        yield Claim(INSTEAD, QUALITY, f"| {label} | {{2wiki {route} R@5}} |")


def company() -> Iterator[Claim]:
    """A company's folder, and the twelve nested questions about the demo."""
    others = [f"{{{route} R@5}}" for route in ("dense", "lexical", "hybrid", "graph", "fusion")]
    for split, count in (("train", 80), ("dev", 40)):
        row = " | ".join(spread(name[1:-1]) for name in others)
        auto, steps = (spread(f"{r} R@5").replace("} [", "}** [") for r in ("auto", "steps"))
        words = f"| {split}, {count} | **{auto} | {row} | **{steps} |"
        yield Claim(RESULTS, recorded(f"demo_work-{split}"), words)
    yield Claim(
        INDEX,
        QUALITY,
        "`auto` finds {demo_work auto R@5} of the documents among the first five, BM25 "
        "{demo_work lexical R@5}, hybrid {demo_work hybrid R@5} and dense search "
        "{demo_work dense R@5}",
    )
    nested = "Recall@5 is {steps R@5}, that of dense search {dense R@5} and of hybrid {hybrid R@5}"
    yield Claim(README, NESTED, nested)
    row = "| {dense R@5} | {hybrid R@5} | {fusion R@5} | {steps R@5} |"
    yield Claim(INDEX, NESTED, f"| 12 questions (`{NESTED}`) {row}")


def papers() -> Iterator[Claim]:
    lexical, graph = {"BM25": "BM25"}, "EA-GraphRAG's graph arm"
    routes = ("graph", "hybrid", "fusion", "steps", "zoom", "auto")
    presets = ("ea-graphrag", "clue-rag", "zoom-rag")
    names = {**lexical, "dense": "dense", graph: graph, **{f"**`{n}`**": n for n in presets}}
    names |= {f"`{route}`": route for route in routes}
    for file, sets, measures in (
        ("test", ("2wiki", "popqa", "nq"), ("R@5", "Success@1", "Success@3", "nDCG@10")),
        ("dev", ("musique-small", "hotpot-small"), ("R@5", "all-evidence@5", "nDCG@10")),
    ):
        for label, name in names.items():
            cells = [", ".join(f"{{{name} {each} {m}}}" for m in measures) for each in sets]
            yield Claim(RESULTS, recorded(f"papers-{file}"), f"| {label} | {' | '.join(cells)} |")


def variants() -> Iterator[Claim]:
    """Ablations and sweeps of the arms of published systems."""
    for label, names in {
        "promotion 0, .3, .7, 1 instead of .5": ("promotion 0", "0.3", "0.7", "1"),
        "equation 5 as printed": ("equation 5 as printed",),
        "equation 5, one step from the names": ("equation 5, one step from the names",),
        "names alone, no bridging": ("names alone, no bridging",),
        "no PageRank: restart masses alone": ("no PageRank: restart masses alone",),
        "no prior of passages": ("no prior of passages",),
        "T 2, 4, 5 instead of 3": ("steps T 2", "4", "5"),
        "threshold .1, .2, .3, .4, .5, .6 instead of .35": (
            "threshold 0.10",
            *("0.20", "0.30", "0.40", "0.50", "0.60"),
        ),
        "no pruning, half of the threshold, the threshold less .1": (
            "no pruning: threshold 0",
            "half of the threshold",
            "threshold less .1",
        ),
        "weight of similarity 0, .5, 1, 1.5, 2, 8 instead of 4": (
            "weight of similarity 0",
            *("0.5", "1", "1.5", "2", "8"),
        ),
        "w/o K-A, units do not anchor": ("w/o K-A, units do not anchor",),
        "w/o S-A, names do not anchor": ("w/o S-A, names do not anchor",),
        "w/o Q-U, nothing is subtracted": ("w/o Q-U, nothing is subtracted",),
        "K 1, 5, 7, 9": ("K 1", "5", "7", "9"),
        "M 3, 7, 9": ("M 3", "7", "9"),
        "D 1, 2, 4": ("D 1", "2", "4"),
        "three deviations, as published": ("three deviations, as published",),
        "with edges between passages": ("with edges between passages",),
        "both": ("both",),
        "w/o edges to passages": ("w/o edges to passages",),
        "w/o edges to names": ("w/o edges to names",),
        "names of any sureness": ("names of any sureness",),
        "restart .5": ("restart .5",),
        "T 1, 3, 7, 9": ("T 1", "3", "7", "9"),
    }.items():
        before = names[0].rpartition(" ")[0]
        full = [name if " " in name or len(names) == 1 else f"{before} {name}" for name in names]
        cells = [", ".join(f"{{{name} {m}}}" for name in full) for m in ALL_MEASURES]
        yield Claim(BENCHMARKS, recorded("papers-train"), f"| {label} | {' | '.join(cells)} |")


def relevance() -> Iterator[Claim]:
    card, measured = f"{RELEVANCE}/CARD.md", ("passages", "answers")
    for family, label in zip(FAMILIES, LABELS, strict=True):
        cells = [f"{kind}, {what}" for what in measured for kind in ("AUC", "ECE")]
        cells += [f"AUC, {other}" for other in ("removed", "foreign", "near")]
        row = " | ".join(f"{{fusion {family} {cell}}}" for cell in cells)
        yield Claim(RESULTS, card, f"| {label} | {row} |")
    yield Claim(
        RESULTS,
        card,
        "Over `fusion`, with a family left out, passages are off by {least ECE, passages} to "
        "{most ECE, passages}, and by curves of the other four fifths by "
        "{least ECE, passages, home} to {most ECE, passages, home}; answers by "
        "{least ECE, answers} to {most ECE, answers} and "
        "{least ECE, answers, home} to {most ECE, answers, home}",
    )


CLAIMS = (*cards(), *routers(), *datasets(), *company(), *papers(), *variants(), *relevance())
