"""Compares the trees that a model builds with those of a treebank, phrase by phrase."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from spacy.tokens import Doc

from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.constituency.tree import Tree, parse_brackets
from wye.featurizer.spacy.pipeline import load_pipeline
from wye.training.errors import TrainingError

# As the usual scorer, EVALB, does: the root is always right, punctuation is no matter of syntax.
ROOT_LABELS = frozenset({"ROOT", "TOP"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''"})


def read_trees(path: Path) -> list[Tree]:
    """Read a treebank: one tree a line, such as `(ROOT (NP (NN rain)))`.

    Raises:
        TrainingError: There is no such file.
    """
    if not path.is_file():
        raise TrainingError(f"No treebank at {path}: expected one bracketed tree a line.")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [parse_brackets(line) for line in lines if line.strip()]


def retag(tree: Tree, tags: Sequence[str]) -> Tree:
    """The same phrases and words with other parts of speech, one for each word in order."""
    remaining = iter(tags)

    def rebuild(node: Tree) -> Tree:
        if node.is_preterminal:
            return Tree(next(remaining), node.children)
        return Tree(node.label, tuple(rebuild(child) for child in node.children))

    return rebuild(tree)


class Tagger:
    """A spaCy pipeline's tagger for sentences that are already divided into words.

    Attributes:
        name: Name and version of the pipeline.
    """

    def __init__(self, pipeline: str) -> None:
        """Load a pipeline by package or folder.

        Raises:
            ModelError: There is no such pipeline.
        """
        self._nlp = load_pipeline(pipeline)
        wanted = {"tok2vec", "transformer", "tagger"}
        self._pipes = [pipe for name, pipe in self._nlp.pipeline if name in wanted]
        self.name = "{lang}_{name} {version}".format_map(self._nlp.meta)

    def retag(self, tree: Tree) -> Tree:
        """The tree with the tagger's parts of speech (Penn Treebank tags), as a parser sees it."""
        doc = Doc(self._nlp.vocab, words=[*tree.words()])
        for pipe in self._pipes:
            pipe(doc)
        return retag(tree, [token.tag_ for token in doc])


def brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Count the phrases below the root as (label, first word, word after the last one).

    Punctuation counts neither as a phrase nor as a word.
    """
    counts: Counter[tuple[str, int, int]] = Counter()

    def visit(node: Tree, start: int) -> int:
        if node.is_preterminal:
            return start + (node.label not in PUNCTUATION)
        end = start
        for child in node.children:
            end = visit(child, end)
        if end > start and node.label not in ROOT_LABELS:
            counts[node.label, start, end] += 1
        return end

    visit(tree, 0)
    return counts


def score(pairs: Iterable[tuple[Tree, Tree]]) -> float:
    """F1 in percent, over the phrases of all (predicted, gold) pairs of trees; 0 without any.

    Both trees of a pair should carry the gold tags, since tags decide what punctuation is.
    """
    matched = total = 0
    for predicted, gold in pairs:
        ours, theirs = brackets(predicted), brackets(gold)
        matched += (ours & theirs).total()
        total += ours.total() + theirs.total()
    return 200 * matched / max(1, total)


def evaluate(model: Path, data: Path, tagger: Tagger) -> dict[str, float]:
    """Parse a treebank's sentences as served, and compute the F1 of each of its parts.

    Args:
        model: Folder with a model file.
        data: Folder with `dev.mrg`, `test.mrg` and `questions-eval.mrg`.
        tagger: Gives the parts of speech that the parser sees.

    Raises:
        TrainingError: A treebank is missing, or a sentence gets no tree.
    """
    decoder, scores = Decoder.read(model / MODEL_FILE), {}
    for name in ("dev", "test", "questions-eval"):
        gold = read_trees(data / f"{name}.mrg")
        pairs = []
        words = [tagger.retag(tree).tagged_words() for tree in gold]
        for parsed, tree in zip(decoder.parse_many(words), gold, strict=True):
            if parsed is None:
                excerpt = " ".join(tree.words())[:80]
                raise TrainingError(f"The constituency model finds no tree for '{excerpt}'.")
            pairs.append((retag(parsed, [tag for _, tag in tree.tagged_words()]), tree))
        scores[name] = score(pairs)
    return scores
