"""Bracketed treebanks: reading, retagging, and the copies that make questions less rare."""

from collections.abc import Sequence
from pathlib import Path

from featurizer.constituency.tree import Tree, parse_brackets
from training.errors import TrainingError

QUESTION_LABELS = frozenset({"SBARQ", "SQ"})


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file with one bracket string a line.

    Raises:
        TrainingError: There is no such file.
    """
    if not path.is_file():
        raise TrainingError(f"No treebank at {path}: expected one bracketed tree a line.")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [parse_brackets(line) for line in lines if line.strip()]


def is_question(tree: Tree) -> bool:
    """Whether a direct question stands anywhere in the tree."""
    return any(node.label in QUESTION_LABELS for node in tree.nodes())


def retag(tree: Tree, tags: Sequence[str]) -> Tree:
    """The same tree over other tags, one for each word in order."""
    remaining = iter(tags)

    def rebuild(node: Tree) -> Tree:
        if node.is_preterminal:
            return Tree(next(remaining), node.children)
        return Tree(node.label, tuple(rebuild(child) for child in node.children))

    return rebuild(tree)


def as_typed(tree: Tree) -> Tree | None:
    """The question as people type it into a search box: lower case, no question mark.

    None when nothing but the question mark would be lost or left.
    """
    return _without_mark(tree)


def _without_mark(node: Tree) -> Tree | None:
    if node.is_preterminal:
        word = node.children[0].label
        return None if word == "?" else Tree(node.label, (Tree(word.lower()),))
    kept = tuple(new for child in node.children if (new := _without_mark(child)) is not None)
    return Tree(node.label, kept) if kept else None
