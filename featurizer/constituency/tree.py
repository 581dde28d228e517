"""Constituency trees, with conversion from and to brackets, and the transitions that build them.

`ParserState` is the in-order shift-reduce system of J. Liu and Y. Zhang, "In-Order Transition-based
Constituent Parsing", TACL 2017, with the restrictions that Stanza adds against endless unary
chains. A phrase is opened when its first child is on the stack already; closing it takes that
child too.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wye.featurizer.errors import TreeError

# A bracket with its label, a word, or a closing bracket.
_TOKEN = re.compile(r"\(\s*([^\s()]*)|([^\s()]+)|\)")
_PLAIN = {"-LRB-": "(", "-RRB-": ")"}


@dataclass(frozen=True, slots=True)
class Tree:
    """A node with its children in the text's order. A node without children is a word."""

    label: str
    children: tuple["Tree", ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether this is a word."""
        return not self.children

    @property
    def is_preterminal(self) -> bool:
        """Whether this is a tag: exactly one child, which is a word."""
        return len(self.children) == 1 and not self.children[0].children

    def nodes(self) -> Iterator["Tree"]:
        """This node and its descendants, parents first, from left to right."""
        # A stack instead of recursion: a long sentence may be nested deeper than Python allows.
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def words(self) -> tuple[str, ...]:
        """The words, in order."""
        return tuple(node.label for node in self.nodes() if node.is_leaf)

    def tagged_words(self) -> tuple[tuple[str, str], ...]:
        """(word, tag) pairs in order, without words directly under a phrase, which have no tag."""
        tags = (node for node in self.nodes() if node.is_preterminal)
        return tuple((tag.children[0].label, tag.label) for tag in tags)

    def __str__(self) -> str:
        """Brackets on one line; words are escaped, see `escape`."""
        pieces: list[str] = []
        pending: list[Tree | None] = [self]
        while pending:
            node = pending.pop()
            if node is None:
                pieces.append(")")
                continue
            if pieces:
                pieces.append(" ")
            if node.is_leaf:
                pieces.append(escape(node.label))
                continue
            pieces.append(f"({escape(node.label)}")
            pending.append(None)
            pending.extend(reversed(node.children))
        return "".join(pieces)


def flat_tree(words: Sequence[tuple[str, str]]) -> Tree:
    """The tree without structure: all (word, tag) pairs under one X (Penn's label for unknown)."""
    return Tree("ROOT", (Tree("X", tuple(Tree(tag, (Tree(word),)) for word, tag in words)),))


def escape(word: str) -> str:
    """Escape a word for brackets: -LRB- and -RRB- for parentheses, "_" for whitespace."""
    return re.sub(r"\s", "_", word).replace("(", "-LRB-").replace(")", "-RRB-")


def parse_brackets(text: str) -> Tree:
    """Parse a tree like "(S (NP (PRP it)) (VP (VBZ rains)))"; the inverse of `str(tree)`.

    The words -LRB- and -RRB- become parentheses; tags of that name stay. An outer bracket without a
    label (Penn Treebank) becomes ROOT. A `TreeError` if brackets do not match, or there is not one
    tree.
    """
    # The first entry holds the finished tree.
    open_nodes: list[tuple[str, list[Tree]]] = [("", [])]
    for token in _TOKEN.finditer(text):
        opened, word = token.groups()
        if opened is not None:
            open_nodes.append((opened or "ROOT", []))
        elif word:
            open_nodes[-1][1].append(Tree(_PLAIN.get(word, word)))
        else:
            label, children = open_nodes.pop()
            if not children or not open_nodes:
                raise TreeError(f"'{text[:80]}' has an empty pair of brackets, or one too many.")
            open_nodes[-1][1].append(Tree(label, tuple(children)))
    trees = open_nodes[0][1]
    if len(open_nodes) > 1 or len(trees) != 1 or trees[0].is_leaf:
        raise TreeError(f"'{text[:80]}' is not one tree in brackets.")
    return trees[0]


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of the parser: "shift", "close", or "open" with labels, outermost first."""

    kind: str
    labels: tuple[str, ...] = ()

    @classmethod
    def from_repr(cls, text: str) -> "Transition":
        """The transition of a Stanza checkpoint's "OpenConstituent(('NP',))", or a `ValueError`."""
        if text == "Shift":
            return cls("shift")
        if text == "CloseConstituent":
            return cls("close")
        labels = ast.literal_eval(text.removeprefix("OpenConstituent"))
        return cls("open", (labels,) if isinstance(labels, str) else labels)


SHIFT, CLOSE = Transition("shift"), Transition("close")


@dataclass(slots=True)
class _Item:
    """A stack item: a tree, or the mark of an open phrase (`tree` is None) with its labels.

    `chain` is the length of the unary chain from the top of the tree.
    """

    tree: Tree | None
    labels: tuple[str, ...] = ()
    chain: int = 0


class ParserState:
    """Stack and buffer of one sentence; `position` is the number of words shifted."""

    __slots__ = ("_just_opened", "_limit", "_opens", "_stack", "_words", "position", "roots")

    def __init__(
        self, words: Sequence[tuple[str, str]], roots: frozenset[str], unary_limit: int
    ) -> None:
        """Start with (word, tag) pairs and an empty stack; roots are labels of finished trees.

        A unary chain may be extended while it is no longer than the limit.
        """
        self._words = words
        self.roots = roots
        self._limit = unary_limit
        self._stack: list[_Item] = []
        self._opens = 0
        self._just_opened = False
        self.position = 0

    @property
    def tree(self) -> Tree | None:
        """The finished tree, once there is one."""
        if self.position < len(self._words) or len(self._stack) != 1:
            return None
        tree = self._stack[0].tree
        return tree if tree is not None and tree.label in self.roots else None

    def is_legal(self, transition: Transition) -> bool:
        """Whether the transition may be applied."""
        if transition.kind == "shift":
            # Without an open phrase, two trees could never be joined.
            may_start = self._opens > 0 or not self._stack
            return self.position < len(self._words) and may_start
        if transition.kind == "close":
            return self._may_close()
        return self._may_open(transition.labels[0])

    def _may_close(self) -> bool:
        if self._opens == 0:
            return False
        if not self._just_opened or self._opens > 1 or self.position == len(self._words):
            return True
        return not self._too_long(self._stack[-2])

    def _may_open(self, label: str) -> bool:
        if self._opens > len(self._words) + 10 or not self._stack or self._just_opened:
            return False
        at_end = self.position == len(self._words)
        if label in self.roots:
            return self._opens == 0 and at_end
        return not ((self._opens > 0 or at_end) and self._too_long(self._stack[-1]))

    def _too_long(self, item: _Item) -> bool:
        return item.chain > self._limit

    def apply(self, transition: Transition) -> int:
        """Apply a transition; returns the number of children that a "close" joined, else 0."""
        self._just_opened = transition.kind == "open"
        if transition.kind == "shift":
            word, tag = self._words[self.position]
            self._stack.append(_Item(Tree(tag, (Tree(word),)), chain=1))
            self.position += 1
            return 0
        if transition.kind == "open":
            self._stack.append(_Item(None, transition.labels))
            self._opens += 1
            return 0
        return self._close()

    def _close(self) -> int:
        self._opens -= 1
        children: list[Tree] = []
        chain = 0
        while (item := self._stack.pop()).tree is not None:
            children.append(item.tree)
        first = self._stack.pop()
        if first.tree is None:
            raise ValueError("A phrase was opened over an open phrase.")
        if not children:
            chain = first.chain
        children.append(first.tree)
        node = Tree(item.labels[-1], tuple(reversed(children)))
        for label in reversed(item.labels[:-1]):
            node = Tree(label, (node,))
        single = len(children) == 1
        chain = chain + len(item.labels) if single else len(item.labels) - 1
        self._stack.append(_Item(node, chain=chain))
        return len(children)
