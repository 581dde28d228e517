"""What the constituency model is worth: bracket F1, agreement with Stanza, size and time.

`python -m benchmarks constituency --data FOLDER [--model FOLDER]`, where --data holds dev.mrg,
test.mrg and questions-eval.mrg. The parser sees the pipeline's tags on the treebank's tokens. Two
ways of counting: "EVALB" leaves out the root and punctuation, "all" counts every bracket and token.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import report
from featurizer.constituency.parser import (
    ConstituencySettings,
    StanzaParser,
    TreeParser,
    locate,
    open_tree_parser,
)
from featurizer.constituency.tree import Tree
from featurizer.errors import FeaturizerError
from router.settings import load_settings
from training.constituency.evaluation import score
from training.constituency.treebank import (
    Tagger,
    is_question,
    read_trees,
    retag,
    with_predicted_tags,
)
from training.errors import TrainingError
from training.feature_reference import own_questions

LOAD_SECONDS, MEGABYTES, MILLISECONDS = 1.0, 20.0, 3.0
GATES = {"test": 81.5, "held-out questions": 82.0}

Words = Sequence[tuple[str, str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 for a model or a treebank that is not there.
    """
    options = report.parser(__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder of treebank files")
    options.add_argument("--model", default="", help="folder or file; default: the setting's")
    given = options.parse_args(argv)
    configured = load_settings().analyser
    settings = ConstituencySettings(given.model) if given.model else configured.constituency
    try:
        with threadpool_limits(1):
            _print(given.data, settings, Tagger(configured.pipeline))
    except (FeaturizerError, TrainingError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _print(data: Path, settings: ConstituencySettings, tagger: Tagger) -> None:
    files = locate(settings)
    start = perf_counter()
    parser = open_tree_parser(*files)
    loading = perf_counter() - start
    test = read_trees(data / "test.mrg")
    sets = {
        "dev": read_trees(data / "dev.mrg"),
        "test": test,
        "test, questions": [tree for tree in test if is_question(tree)],
        "held-out questions": read_trees(data / "questions-eval.mrg"),
    }
    report.print_header(
        "Constituency model",
        seed=None,
        data=f"{data.name}, tags of {tagger.name}, model {parser.digest[:16]}",
    )
    table = report.Table(["bracket F1", "sentences", "EVALB", "all", "exact %", "gate"])
    for name, gold in sets.items():
        pairs = parsed(parser, gold, tagger)
        evalb, every = score(pairs), score(pairs, every=True)
        exact = 100 * evalb.exact / evalb.sentences
        gate = _mark(evalb.f1 >= GATES[name], f">={GATES[name]}") if name in GATES else "-"
        table.row(name, str(evalb.sentences), evalb.f1, every.f1, exact, gate)
    print()
    own = own_words(tagger)
    median = report.percentiles(times(parser, own))[0]
    size = sum(file.stat().st_size for file in files) / 1e6
    table = report.Table(["", "value", "gate"])
    table.row("seconds to load", loading, _mark(loading <= LOAD_SECONDS, f"<={LOAD_SECONDS}"))
    table.row("MB", size, _mark(size <= MEGABYTES, f"<={MEGABYTES:.0f}"))
    table.row("ms a question, p50", median, _mark(median <= MILLISECONDS, f"<={MILLISECONDS:.0f}"))
    print()
    if find_spec("stanza") is None:
        print("Agreement with Stanza: not measured, Stanza is not installed (wye[stanza]).")
        return
    stanza = StanzaParser(*files)
    tagged = [tree.tagged_words() for tree in with_predicted_tags(test, tagger)]
    table = report.Table(["trees equal to Stanza's", "sentences", "equal", "gate"], width=26)
    for name, sentences in (("test", tagged), ("questions of this repository", own)):
        equal = agreement(parser, stanza, sentences)
        table.row(name, str(len(sentences)), str(equal), _mark(equal == len(sentences), "all"))


def parsed(parser: TreeParser, gold: Sequence[Tree], tagger: Tagger) -> list[tuple[Tree, Tree]]:
    """(parser's tree, gold tree) pairs, both with the gold tags.

    Raises:
        ParseError: There is a sentence without a tree.
    """
    seen = with_predicted_tags(gold, tagger)
    return [
        (retag(parser.parse(one.tagged_words()), [tag for _, tag in tree.tagged_words()]), tree)
        for one, tree in zip(seen, gold, strict=True)
    ]


def own_words(tagger: Tagger) -> Sequence[Words]:
    """The questions of this repository as tagged words."""
    texts = [text for part in own_questions().values() for text in part]
    return tagger.tagged_words(texts)


def times(parser: TreeParser, sentences: Sequence[Words], rounds: int = 3) -> list[float]:
    """Seconds for each sentence, one at a time, after a first round that does not count."""
    found = []
    for turn in range(rounds + 1):
        for words in sentences:
            start = perf_counter()
            parser.parse(words)
            if turn:
                found.append(perf_counter() - start)
    return found


def agreement(parser: TreeParser, stanza: TreeParser, sentences: Sequence[Words]) -> int:
    """For how many sentences both give the same tree, or both none."""
    ours, theirs = parser.parse_many(sentences), stanza.parse_many(sentences)
    return int(np.sum([one == other for one, other in zip(ours, theirs, strict=True)]))


def _mark(held: bool, gate: str) -> str:
    return f"{gate} {'ok' if held else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
