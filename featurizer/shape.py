"""What the constituency trees of a question look like, counted in one walk over each."""

from collections import Counter
from collections.abc import Sequence

from featurizer.tree import Tree

_NESTED = ("NP", "PP", "SBAR", "VP")


class Shape:
    """Counts over trees. Tags are the lowest nodes; words are none, and ROOT is at depth 0.

    Attributes:
        labels: How often each phrase label occurs, below ROOT.
        pairs: How often each (parent, child) pair of phrase labels occurs.
        nesting: Most phrases of one label on a way from a root to a word; for NP, PP, SBAR, VP.
        depths: Of each tag, in order.
        yngve: Of each tag: sisters to the right of it and of all nodes above it.
        branches: Number of children of each phrase, ROOT included.
        levels: Number of nodes at each depth, all trees together.
        noun_phrase_words: Number of words of each NP.
        participles: VPs within an NP that begin with a participle: "built in 1926".
        infinitives: Clauses that begin with "to".
        unary: Phrases with a single child that is a phrase.
    """

    __slots__ = (
        *("branches", "depths", "infinitives", "labels", "levels", "nesting"),
        *("noun_phrase_words", "pairs", "participles", "unary", "yngve"),
    )

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.labels: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.nesting = dict.fromkeys(_NESTED, 0)
        self.depths: list[int] = []
        self.yngve: list[int] = []
        self.branches: list[int] = []
        self.levels: Counter[int] = Counter()
        self.noun_phrase_words: list[int] = []
        self.participles = 0
        self.infinitives = 0
        self.unary = 0
        for tree in trees:
            self._walk(tree)

    def _walk(self, root: Tree) -> None:
        # Node, label above, depth, Yngve depth, and phrases of each nested label so far.
        pending = [(root, "", 0, 0, (0,) * len(_NESTED))]
        open_phrases: list[tuple[int, int]] = []
        while pending:
            node, above, depth, yngve, nested = pending.pop()
            self.levels[depth] += 1
            while open_phrases and open_phrases[-1][0] >= depth:
                self._close(open_phrases.pop()[1])
            if node.is_preterminal:
                self.depths.append(depth)
                self.yngve.append(yngve)
                continue
            label, children = node.label, node.children
            if above:
                self._count(node, above)
            if label in self.nesting:
                place = _NESTED.index(label)
                nested = (*nested[:place], nested[place] + 1, *nested[place + 1 :])
                self.nesting[label] = max(self.nesting[label], nested[place])
                if label == "NP":
                    open_phrases.append((depth, len(self.depths)))
            self.branches.append(len(children))
            right = len(children) - 1
            pending.extend(
                (children[place], label, depth + 1, yngve + right - place, nested)
                for place in range(right, -1, -1)
            )
        for _, first in reversed(open_phrases):
            self._close(first)

    def _close(self, first: int) -> None:
        self.noun_phrase_words.append(len(self.depths) - first)

    def _count(self, node: Tree, above: str) -> None:
        label, first = node.label, node.children[0]
        self.labels[label] += 1
        self.pairs[above, label] += 1
        self.unary += len(node.children) == 1 and not first.is_preterminal
        if label == "VP":
            self.participles += above == "NP" and first.label in ("VBN", "VBG")
            self.infinitives += above == "S" and first.label == "TO"

    @property
    def phrases(self) -> int:
        """Number of phrases below ROOT."""
        return self.labels.total()

    @property
    def nodes(self) -> int:
        """Number of phrases and tags, ROOT included."""
        return len(self.branches) + len(self.depths)

    @property
    def depth(self) -> int:
        """Of the deepest tag."""
        return max(self.depths, default=0)

    @property
    def width(self) -> int:
        """Most nodes at one depth."""
        return max(self.levels.values(), default=0)
