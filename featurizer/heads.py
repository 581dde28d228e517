"""Head children of verbal phrases, after Collins (1999, appendix A).

Only the categories whose heads Lu's patterns ask for have rules. A rule lists labels; the
leftmost child with the first label that occurs at all is the head.
"""

from collections.abc import Mapping, Sequence

from featurizer.tree import Tree

_RULES: Mapping[str, Sequence[str]] = {
    "S": ("TO", "IN", "VP", "S", "SBAR", "ADJP", "UCP", "NP"),
    "SBAR": (
        *("WHNP", "WHPP", "WHADVP", "WHADJP", "IN", "DT"),
        *("S", "SQ", "SINV", "SBAR", "FRAG"),
    ),
    "SINV": ("VBZ", "VBD", "VBP", "VB", "MD", "VP", "S", "SINV", "ADJP", "NP"),
    "SQ": ("VBZ", "VBD", "VBP", "VB", "MD", "VP", "SQ"),
    "VP": (
        *("TO", "VBD", "VBN", "MD", "VBZ", "VB", "VBG", "VBP"),
        *("VP", "ADJP", "NN", "NNS", "NP"),
    ),
}
_PUNCTUATION = frozenset({"''", "``", "-LRB-", "-RRB-", ".", ":", ","})
_CONJUNCTIONS = frozenset({"CC", "CONJP"})


def head(node: Tree) -> Tree:
    """The head child of an S, SBAR, SINV, SQ or VP.

    Args:
        node: A phrase of one of those labels, with children.

    Raises:
        KeyError: There are no rules for the label.
    """
    children = node.children
    place = _first_choice(_RULES[node.label], children)
    # "a and b": the first conjunct heads the phrase (Collins' rule for coordination), unless
    # punctuation stands before the conjunction.
    if place >= 2 and children[place - 1].label in _CONJUNCTIONS:
        before = children[place - 2]
        if not (before.is_preterminal and before.label in _PUNCTUATION):
            place -= 2
    return children[place]


def _first_choice(labels: Sequence[str], children: Sequence[Tree]) -> int:
    found = [child.label for child in children]
    for label in labels:
        if label in found:
            return found.index(label)
    words = [place for place, label in enumerate(found) if label not in _PUNCTUATION]
    return words[0] if words else 0
