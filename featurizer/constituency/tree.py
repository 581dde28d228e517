"""Constituency trees, with conversion from and to brackets."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wye.featurizer.errors import TreeError

_TOKEN = re.compile(r"\(|\)|[^\s()]+")
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
        return tuple(
            (node.children[0].label, node.label) for node in self.nodes() if node.is_preterminal
        )

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
    label (Penn Treebank) becomes ROOT.

    Raises:
        TreeError: The brackets do not match, or there is no tree or more than one.
    """
    open_nodes: list[tuple[str, list[Tree]]] = []
    tokens = _TOKEN.findall(text)
    done: Tree | None = None
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if done is not None:
            raise TreeError(f"More than one tree in '{text[:80]}': pass one at a time.")
        if token == "(":
            labelled = position < len(tokens) and tokens[position] not in "()"
            open_nodes.append((tokens[position] if labelled else "ROOT", []))
            position += labelled
        elif not open_nodes:
            raise TreeError(f"'{token}' is outside all brackets in '{text[:80]}'.")
        elif token == ")":
            label, children = open_nodes.pop()
            if not children:
                raise TreeError(f"'({label})' has no children in '{text[:80]}'.")
            node = Tree(label, tuple(children))
            if open_nodes:
                open_nodes[-1][1].append(node)
            else:
                done = node
        else:
            open_nodes[-1][1].append(Tree(_PLAIN.get(token, token)))
    if done is None:
        raise TreeError(f"{len(open_nodes)} brackets are never closed in '{text[:80]}'.")
    return done
