"""Labelled bracket F1, the standard score of a constituency parser."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from featurizer.constituency.tree import Tree

# EVALB's customary exclusions: the root is always right, punctuation is not a matter of syntax.
ROOT_LABELS = frozenset({"ROOT", "TOP"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''"})

Bracket = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class BracketScore:
    """Counts over a treebank, and the ratios of them, in percent.

    Attributes:
        matched: Brackets that are in both trees.
        predicted: Brackets of the parser.
        gold: Brackets of the treebank.
        exact: Sentences whose brackets are all equal.
        sentences: Sentences scored.
    """

    matched: int
    predicted: int
    gold: int
    exact: int
    sentences: int

    @property
    def precision(self) -> float:
        """Share of the parser's brackets that are right; 0 when it made none."""
        return 100 * self.matched / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the treebank's brackets that were found; 0 when it has none."""
        return 100 * self.matched / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 when nothing matched."""
        total = self.predicted + self.gold
        return 100 * 2 * self.matched / total if total else 0.0


def brackets(tree: Tree, *, every: bool = False) -> Counter[Bracket]:
    """(label, first word, end word) of all phrases below the root, punctuation not counted.

    Args:
        tree: Of one sentence.
        every: Count the root's bracket and punctuation as well.
    """
    found: Counter[Bracket] = Counter()

    def visit(node: Tree, start: int) -> int:
        if node.is_preterminal:
            return start + (every or node.label not in PUNCTUATION)
        end = start
        for child in node.children:
            end = visit(child, end)
        if end > start and (every or node.label not in ROOT_LABELS):
            found[node.label, start, end] += 1
        return end

    visit(tree, 0)
    return found


def score(pairs: Iterable[tuple[Tree, Tree]], *, every: bool = False) -> BracketScore:
    """Corpus-level score of (predicted, gold) pairs.

    Both trees of a pair should carry the gold tags, since tags decide what punctuation is.

    Args:
        pairs: Trees over the same words.
        every: Count the root's bracket and punctuation as well.
    """
    matched = predicted = gold = exact = sentences = 0
    for one, other in pairs:
        ours, theirs = brackets(one, every=every), brackets(other, every=every)
        matched += (ours & theirs).total()
        predicted += ours.total()
        gold += theirs.total()
        exact += ours == theirs
        sentences += 1
    return BracketScore(matched, predicted, gold, exact, sentences)
