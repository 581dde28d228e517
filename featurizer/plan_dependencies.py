"""Trees that are made of dependencies, for plans: they take no further model."""

from collections.abc import Sequence

from featurizer.constituency.tree import Tree
from featurizer.types import Token

_LABELS = {"NOUN": "NP", "PROPN": "NP", "VERB": "VP", "AUX": "VP", "ADP": "PP"}


def dependency_tree(tokens: Sequence[Token], start: int) -> Tree:
    """A phrase for each token of a sentence that has any below it, and for each noun.

    Arcs that cross leave no order; the tree is flat then.

    Args:
        tokens: Of the sentence, at least one.
        start: Place of the first of them in the question.
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
    words = [(token.text, token.tag) for token in tokens]
    if list(tree.tagged_words()) == words:
        return tree
    return Tree("ROOT", (Tree("X", tuple(Tree(tag, (Tree(word),)) for word, tag in words)),))


def _label(token: Token) -> str:
    return "SBAR" if token.dep == "relcl" else _LABELS.get(token.pos, "X")
