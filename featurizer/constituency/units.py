"""Lu's nine production units of syntactic complexity, counted over trees.

X. Lu, "Automatic analysis of syntactic complexity in second language writing", International
Journal of Corpus Linguistics 15(4), 2010. Each unit is the set of nodes that the published Tregex
patterns match; each predicate quotes the pattern that it implements. Heads are those of Collins
(1999, appendix A).
"""

import re
from collections.abc import Callable, Mapping, Sequence

from wye.featurizer.constituency.tree import Tree

_CLAUSES = frozenset({"S", "SINV", "SQ"})
_SENTENCES = frozenset({"S", "SBARQ", "SINV", "SQ"})
_FINITE = frozenset({"MD", "VBZ", "VBP", "VBD"})
_COORDINABLE = frozenset({"ADJP", "ADVP", "NP", "VP"})
_MODIFIERS = frozenset({"JJ", "POS", "PP", "S", "VBG"})
_COMPLEMENTIZERS = frozenset({"That", "that", "For", "for"})
# L2SCA counts a token as a word if its tag is in capitals ("$" may follow). The tags of hyphens and
# other odd punctuation are newer than L2SCA and are excluded here.
_WORD_TAG = re.compile(r"[A-Z]+\$?")
_YOUNGER_PUNCTUATION = frozenset({"HYPH", "NFP"})


UNITS: Mapping[str, str] = {
    "words": "Words (W), by the trees' tags.",
    "sentences": "Sentences (S).",
    "clauses": "Clauses (C): with a finite verb, or a fragment at the root.",
    "dependent_clauses": "Dependent clauses (DC).",
    "t_units": "T-units (T): main clauses with all that depends on them.",
    "complex_t_units": "T-units that hold a dependent clause (CT).",
    "coordinate_phrases": "Coordinate phrases (CP).",
    "complex_nominals": "Complex nominals (CN): modified nouns, nominal clauses.",
    "verb_phrases": "Verb phrases (VP), finite or not.",
}
"""Production unit -> what it is."""


class _Node:
    """A tag or phrase with what Tregex relations need: parent, sisters, descendants.

    Words are not nodes here: to Tregex the word "S" would be a clause.
    """

    __slots__ = ("children", "label", "parent", "position", "tree")

    def __init__(self, tree: Tree, parent: "_Node | None" = None, position: int = 0) -> None:
        self.tree, self.label = tree, tree.label
        self.parent, self.position = parent, position
        self.children: list[_Node] = []

    def below(self) -> list["_Node"]:
        """All descendants of this node (`<<` asks for one of them)."""
        nodes = [*self.children]
        for node in nodes:  # which grows meanwhile
            nodes += node.children
        return nodes

    def has(self, *labels: str) -> bool:
        """`<`: a child has one of the labels."""
        return any(child.label in labels for child in self.children)

    def parent_in(self, labels: frozenset[str]) -> bool:
        """`>`: the parent has one of the labels."""
        return self.parent is not None and self.parent.label in labels

    def left_sisters(self) -> Sequence["_Node"]:
        """`$--` asks for one of them."""
        return self.parent.children[: self.position] if self.parent else ()

    def right_sisters(self) -> Sequence["_Node"]:
        """`$++` asks for one of them, `$+` for the first."""
        return self.parent.children[self.position + 1 :] if self.parent else ()

    def under(self, labels: frozenset[str]) -> bool:
        """`>>`: an ancestor has one of the labels."""
        node = self.parent
        while node is not None:
            if node.label in labels:
                return True
            node = node.parent
        return False

    def headed_by(self, labels: frozenset[str]) -> bool:
        """`<#`: the head child has one of the labels."""
        return bool(self.children) and head(self.tree).label in labels


_ROOT = frozenset({"ROOT"})
_SUBORDINATORS = frozenset({"SBAR", "VP"})


def count_units(trees: Sequence[Tree]) -> dict[str, int]:
    """How often each of `UNITS` occurs in a text, given each sentence's tree with a ROOT on top."""
    nodes = [_Node(tree) for tree in trees]
    # The list grows meanwhile: a long sentence may be nested deeper than Python's stack.
    for node in nodes:
        below = (child for child in node.tree.children if not child.is_leaf)
        node.children = [_Node(child, node, at) for at, child in enumerate(below)]
        nodes += node.children
    # No predicate matches both tags and phrases, so each is applied to only one of these lists.
    tags = [node for node in nodes if not node.children]
    phrases = [node for node in nodes if node.children]
    return {
        "words": _count(tags, _is_word),
        "sentences": sum(node.label == "ROOT" for node in phrases),
        "clauses": _count(phrases, is_clause) + _count_fragments(phrases, is_clause),
        "dependent_clauses": _count(phrases, is_dependent_clause),
        "t_units": _count(phrases, is_t_unit) + _count_fragments(phrases, is_t_unit),
        "complex_t_units": _count(phrases, is_complex_t_unit),
        "coordinate_phrases": _count(phrases, is_coordinate_phrase),
        "complex_nominals": _count(phrases, is_modified_noun, is_nominal_clause, is_verbal_subject),
        "verb_phrases": _count(phrases, is_verb_phrase) + _count(tags, is_inverted_verb),
    }


def _count(nodes: Sequence[_Node], *units: Callable[[_Node], bool]) -> int:
    return sum(unit(node) for unit in units for node in nodes)


def _count_fragments(nodes: Sequence[_Node], unit: Callable[[_Node], bool]) -> int:
    """`FRAG > ROOT !<< unit`: a fragment at the root counts as a unit if it contains none."""
    fragments = (node for node in nodes if node.label == "FRAG" and node.parent_in(_ROOT))
    return sum(not any(map(unit, node.below())) for node in fragments)


def _is_word(node: _Node) -> bool:
    return _WORD_TAG.fullmatch(node.label) is not None and node.label not in _YOUNGER_PUNCTUATION


def is_verb_phrase(node: _Node) -> bool:
    """`VP > S|SINV|SQ`."""
    return node.label == "VP" and node.parent_in(_CLAUSES)


def is_inverted_verb(node: _Node) -> bool:
    """`MD|VBZ|VBP|VBD > (SQ !< VP)`: the verb of a question whose only verb is inverted."""
    clause = node.parent
    is_inverted = clause is not None and clause.label == "SQ" and not clause.has("VP")
    return is_inverted and node.label in _FINITE


def is_clause(node: _Node) -> bool:
    """A finite or imperative clause.

    `S|SINV|SQ [> ROOT <, (VP <# VB) | <# MD|VBZ|VBP|VBD | < (VP [<# MD|VBP|VBZ|VBD | < CC <
    (VP <# MD|VBP|VBZ|VBD)])]`
    """
    if node.label not in _CLAUSES:
        return False
    return (
        (node.parent_in(_ROOT) and _starts_with_base_form(node))
        or node.headed_by(_FINITE)
        or any(_is_finite(child) for child in node.children if child.label == "VP")
    )


def _starts_with_base_form(clause: _Node) -> bool:
    """`<, (VP <# VB)`: an imperative."""
    first = clause.children[:1]
    return any(child.label == "VP" and child.headed_by(frozenset({"VB"})) for child in first)


def _is_finite(phrase: _Node) -> bool:
    """`VP [<# MD|VBP|VBZ|VBD | < CC < (VP <# MD|VBP|VBZ|VBD)]`."""
    parts = [child for child in phrase.children if child.label == "VP" and phrase.has("CC")]
    return any(part.headed_by(_FINITE) for part in (phrase, *parts))


def is_t_unit(node: _Node) -> bool:
    """`S|SBARQ|SINV|SQ > ROOT | [$-- S|SBARQ|SINV|SQ !>> SBAR|VP]`."""
    if node.label not in _SENTENCES:
        return False
    follows = any(sister.label in _SENTENCES for sister in node.left_sisters())
    return node.parent_in(_ROOT) or (follows and not node.under(_SUBORDINATORS))


def is_dependent_clause(node: _Node) -> bool:
    """`SBAR < clause`."""
    return node.label == "SBAR" and any(map(is_clause, node.children))


def is_complex_t_unit(node: _Node) -> bool:
    """`T-unit << dependent clause`."""
    return is_t_unit(node) and any(map(is_dependent_clause, node.below()))


def is_coordinate_phrase(node: _Node) -> bool:
    """`ADJP|ADVP|NP|VP < CC`."""
    return node.label in _COORDINABLE and node.has("CC")


def is_modified_noun(node: _Node) -> bool:
    """`NP !> NP [<< JJ|POS|PP|S|VBG | << (NP $++ NP !$+ CC)]`."""
    if node.label != "NP" or (node.parent is not None and node.parent.label == "NP"):
        return False
    return any(below.label in _MODIFIERS or _precedes_noun(below) for below in node.below())


def _precedes_noun(node: _Node) -> bool:
    """`NP $++ (NP !$+ CC)`: a list, apposition or coordination of noun phrases."""
    if node.label != "NP":
        return False
    after = node.right_sisters()
    return any(
        sister.label == "NP" and (position + 1 == len(after) or after[position + 1].label != "CC")
        for position, sister in enumerate(after)
    )


def is_nominal_clause(node: _Node) -> bool:
    """A clause as subject or object of a verb.

    `SBAR [<# WHNP | <# (IN < That|that|For|for) | <, S] & [$+ VP | > VP]`
    """
    if node.label != "SBAR" or not (
        node.parent_in(frozenset({"VP"})) or _precedes_verb_phrase(node)
    ):
        return False
    top = head(node.tree)
    return (
        top.label == "WHNP"
        or (top.label == "IN" and any(c.label in _COMPLEMENTIZERS for c in top.children))
        or any(first.label == "S" for first in node.children[:1])
    )


def is_verbal_subject(node: _Node) -> bool:
    """`S < (VP <# VBG|TO) $+ VP`: a gerund or an infinitive as the subject of a verb."""
    if node.label != "S" or not _precedes_verb_phrase(node):
        return False
    phrases = (child for child in node.children if child.label == "VP")
    return any(phrase.headed_by(frozenset({"VBG", "TO"})) for phrase in phrases)


def _precedes_verb_phrase(node: _Node) -> bool:
    """`$+ VP`."""
    return any(sister.label == "VP" for sister in node.right_sisters()[:1])


# Rules exist only for the categories whose heads the patterns need. The head is the leftmost child
# with the first label of the rule that occurs among the children.
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
    """The head child of an S, SBAR, SINV, SQ or VP with children; KeyError for other labels."""
    children = node.children
    position = _first_choice(_RULES[node.label], children)
    # "a and b": the first conjunct is the head (Collins' rule for coordination), unless punctuation
    # precedes the conjunction.
    if position >= 2 and children[position - 1].label in _CONJUNCTIONS:
        before = children[position - 2]
        if not (before.is_preterminal and before.label in _PUNCTUATION):
            position -= 2
    return children[position]


def _first_choice(preferences: Sequence[str], children: Sequence[Tree]) -> int:
    labels = [child.label for child in children]
    for label in preferences:
        if label in labels:
            return labels.index(label)
    words = [position for position, label in enumerate(labels) if label not in _PUNCTUATION]
    return words[0] if words else 0
