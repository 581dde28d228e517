"""Constituency-like trees from dependencies, for plans: they need no further model."""

from collections.abc import Sequence

from wye.featurizer.constituency.tree import Tree, flat_tree
from wye.featurizer.types import Token

_LABELS = {"NOUN": "NP", "PROPN": "NP", "VERB": "VP", "AUX": "VP", "ADP": "PP"}


def dependency_tree(tokens: Sequence[Token], start: int) -> Tree:
    """A tree with a phrase for each noun and for each token with dependents.

    If arcs cross, phrases are not contiguous, and the tree is flat.

    Args:
        tokens: Tokens of the sentence, at least one.
        start: Position of the first of them in the question.
    """
    below: list[list[int]] = [[] for _ in tokens]
    roots = []
    for place, token in enumerate(tokens):
        head = token.head - start
        if head == place:
            roots.append(place)
        else:
            below[head].append(place)

    def build(place: int) -> Tree:
        word = Tree(tokens[place].tag, (Tree(tokens[place].text),))
        label = _label(tokens[place])
        if not below[place] and label != "NP":
            return word
        parts = (word if part == place else build(part) for part in sorted([*below[place], place]))
        return Tree(label, tuple(parts))

    tree = Tree("ROOT", tuple(map(build, roots)))
    words = tuple((token.text, token.tag) for token in tokens)
    return tree if tree.tagged_words() == words else flat_tree(words)


def _label(token: Token) -> str:
    return "SBAR" if token.dep == "relcl" else _LABELS.get(token.pos, "X")
