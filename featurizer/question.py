"""What features are computed from: a question's words, trees, arcs, names, and what it asks for.

Everything is counted once, in one walk over each tree; a feature then only picks a number.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wye.featurizer.constituency.tree import Tree
from wye.featurizer.constituency.units import count_units
from wye.featurizer.types import Syntax, Token


def words(text: str) -> frozenset[str]:
    """The words of a space-separated list."""
    return frozenset(text.split())


_CONTENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM"})


class View:
    """The counts of a question that features are computed from.

    Attributes:
        tokens: All tokens, punctuation included.
        words: Tokens with a letter or a digit.
        content: Nouns, names, verbs, adjectives, adverbs and numbers among the words.
        lower: Words in lower case.
        pos: How often each universal part of speech occurs among the words.
        units: How often each of Lu's nine production units occurs.
        question_word: Position of the question word among the tokens; -1 when there is none.
        asks_for_place: Whether the question word and the noun beside it ask for a place.
        reach: For each entity, the number of arcs to it from the question word, or from the first
            root where there is no question word.
    """

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax
        self.tokens = syntax.tokens
        self.words = [token for token in self.tokens if any(map(str.isalnum, token.text))]
        self.content = [token for token in self.words if token.pos in _CONTENT]
        self.lower = [token.text.lower() for token in self.words]
        self.pos = Counter([token.pos for token in self.words])
        self.units = count_units(syntax.trees)
        self.shape = Shape(syntax.trees)
        self.arcs = Arcs(self.tokens)
        self.naming = NamedThings(self.tokens, self.arcs)
        self.question_word = start = question_word(self.tokens)
        self.asks_for_place = asks_for_place(self.tokens, start)
        if start < 0:
            start = next((p for p, token in enumerate(self.tokens) if token.head == p), 0)
        self.reach = [self.arcs.steps(self.tokens, start, head) for head in self.naming.heads]


@dataclass(frozen=True, slots=True)
class Feature:
    """One number that describes a question."""

    name: str  # in snake case; never reused for another feature
    doc: str  # its meaning in one sentence, with its value when there is nothing to divide by
    value: Callable[[View], float]  # finite for any question
    group: str  # the group that it is listed in
    version: int = 1  # raised when the value changes for any question


def ratio(above: float, below: float) -> float:
    """The ratio, and 0 when there is nothing to divide by."""
    return above / below if below else 0.0


def mean(values: list[int]) -> float:
    """The mean; 0 of an empty list."""
    return sum(values) / len(values) if values else 0.0


_NESTED = ("NP", "PP")


class Shape:
    """Counts over trees. Tags are the leaves, words are not counted, and ROOT is at depth 0.

    Attributes:
        labels: How often each phrase label occurs, below ROOT.
        nominal_prepositions: How many PPs are children of an NP.
        nesting: Most phrases of one label on a path from the root to a word; for NP and PP.
        depths: Depth of each tag, in order.
        yngve: Yngve depth of each tag: the right sisters of it and of all its ancestors.
        branches: Number of children of each phrase, ROOT included.
        phrases: Number of phrases below ROOT.
        nodes: Number of phrases and tags, ROOT included.
        depth: Depth of the deepest tag.
        width: Largest number of nodes at one depth, all trees together.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.labels: Counter[str] = Counter()
        self.nominal_prepositions = 0
        self.nesting = dict.fromkeys(_NESTED, 0)
        self.depths: list[int] = []
        self.yngve: list[int] = []
        self.branches: list[int] = []
        levels: Counter[int] = Counter()
        for tree in trees:
            self._walk(tree, levels)
        self.phrases = self.labels.total()
        self.nodes = levels.total()
        self.depth = max(self.depths, default=0)
        self.width = max(levels.values(), default=0)

    def _walk(self, root: Tree, levels: Counter[int]) -> None:
        # Node, parent's label, depth, Yngve depth, and how many ancestors are NP and PP.
        pending = [(root, "", 0, 0, (0, 0))]
        while pending:
            node, above, depth, yngve, (nouns, prepositions) = pending.pop()
            levels[depth] += 1
            if node.is_preterminal:
                self.depths.append(depth)
                self.yngve.append(yngve)
                continue
            label, right = node.label, len(node.children) - 1
            nested = nouns + (label == "NP"), prepositions + (label == "PP")
            for name, count in zip(_NESTED, nested, strict=True):
                self.nesting[name] = max(self.nesting[name], count)
            if above:
                self.labels[label] += 1
                self.nominal_prepositions += (above, label) == ("NP", "PP")
            self.branches.append(right + 1)
            pending.extend(
                (node.children[position], label, depth + 1, yngve + right - position, nested)
                for position in range(right, -1, -1)
            )


# Relations that link one thing to another: "X's Y", "Y of X", "the Y that …", "the Y built by …".
_CLAUSAL = frozenset({"relcl", "acl"})
_NOMINAL = frozenset({"NOUN", "PROPN", "PRON", "NUM"})


class Arcs:
    """Counts over the arcs of a dependency tree; arcs to punctuation do not count.

    Attributes:
        children: Positions of the dependents of each token, punctuation included.
        depth: Number of arcs between each token and its root.
        distances: Distance in tokens between head and dependent of each arc, at least 1.
        left: Number of arcs whose dependent precedes its head.
        labels: How often each relation occurs.
        links: For each token, the arcs on its path to the root that link one thing to another.
        ofs: As `links`, only those by "of".
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.children: list[list[int]] = [[] for _ in tokens]
        self.distances: list[int] = []
        self.left = 0
        self.labels: Counter[str] = Counter()
        roots: list[int] = []
        for position, token in enumerate(tokens):
            if token.head == position:
                roots.append(position)
            else:
                self.children[token.head].append(position)
            if token.dep == "punct":
                continue
            self.labels[token.dep] += 1
            if token.head != position:
                self.distances.append(abs(position - token.head))
                self.left += position < token.head
        self.depth, self.links, self.ofs = ([0] * len(tokens) for _ in range(3))
        self._descend(tokens, roots)

    def _descend(self, tokens: Sequence[Token], roots: list[int]) -> None:
        pending = list(roots)
        while pending:
            head = pending.pop()
            for position in self.children[head]:
                token = tokens[position]
                is_object = token.dep == "pobj" and _hangs_on_noun(tokens, head)
                owns = token.dep == "poss" and token.pos in _NOMINAL
                self.depth[position] = self.depth[head] + 1
                is_link = is_object or owns or token.dep in _CLAUSAL
                is_of = is_object and tokens[head].text.lower() == "of"
                self.links[position] = self.links[head] + is_link
                self.ofs[position] = self.ofs[head] + is_of
                pending.append(position)

    def steps(self, tokens: Sequence[Token], start: int, end: int) -> int:
        """Arcs between two tokens; in different sentences, those to both roots and 1."""
        count = 0
        while start != end:
            if self.depth[start] < self.depth[end]:
                start, end = end, start
            if tokens[start].head == start:
                return count + 1
            start = tokens[start].head
            count += 1
        return count


def _hangs_on_noun(tokens: Sequence[Token], preposition: int) -> bool:
    head = tokens[preposition].head
    return head != preposition and tokens[head].pos in _NOMINAL


_NUMBERS = frozenset({"CARDINAL", "ORDINAL"})
_DESCRIBING = frozenset({"prep", "relcl", "acl"})


class NamedThings:
    """Named entities and descriptions.

    Attributes:
        entities: Token range (start, end) of each named entity, numbers left out.
        labels: Label of each entity.
        heads: Position of each entity's token that is nearest to the root.
        descriptions: Number of common nouns with "the" and without a name beside them: "the river".
        relational: Number of descriptions with a modifier behind them: "the river that …".
    """

    def __init__(self, tokens: Sequence[Token], arcs: Arcs) -> None:
        self.entities = [span for span in _spans(tokens) if tokens[span[0]].entity not in _NUMBERS]
        self.labels = [tokens[start].entity for start, _ in self.entities]
        self.heads = [
            min(range(start, end), key=lambda position: (arcs.depth[position], position))
            for start, end in self.entities
        ]
        self.descriptions = self.relational = 0
        for position, token in enumerate(tokens):
            if token.pos == "NOUN" and not token.entity:
                below = arcs.children[position]
                if _is_definite(tokens, below) and not _is_named(tokens, below):
                    self.descriptions += 1
                    self.relational += any(tokens[b].dep in _DESCRIBING for b in below)


def _spans(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for position, token in enumerate(tokens):
        if not token.entity:
            continue
        if token.begins_entity or not spans or spans[-1][1] != position:
            spans.append((position, position + 1))
        else:
            spans[-1] = (spans[-1][0], position + 1)
    return spans


def _is_definite(tokens: Sequence[Token], below: Sequence[int]) -> bool:
    return any(tokens[position].lemma.lower() == "the" for position in below)


def _is_named(tokens: Sequence[Token], below: Sequence[int]) -> bool:
    """Whether a name stands beside the noun: "the film Alien", "the Avon bridge"."""
    return any(
        tokens[position].pos == "PROPN" and tokens[position].dep in ("compound", "appos", "nmod")
        for position in below
    )


_WORDS = frozenset({"who", "whom", "whose", "what", "which", "when", "where", "why", "how"})
_TAGS = frozenset({"WDT", "WP", "WP$", "WRB"})
# A question word within one of these is relative ("the lake that …", "when it freezes, …").
_RELATING = frozenset({"relcl", "acl", "advcl"})
_COPULAS = frozenset({"attr", "nsubj", "nsubjpass", "dobj"})
_PLACE = words(
    "area border capital city continent country county district estuary hometown island "
    "lake location mountain nation ocean place province region river sea state street town valley "
    "village"
)


def question_word(tokens: Sequence[Token]) -> int:
    """Position of the word that asks; -1 when there is none."""
    for position, token in enumerate(tokens):
        if token.tag in _TAGS and token.text.lower() in _WORDS and not _relates(tokens, position):
            return position
    return -1


def _relates(tokens: Sequence[Token], position: int) -> bool:
    while True:
        if tokens[position].dep in _RELATING:
            return True
        if tokens[position].head == position:
            return False
        position = tokens[position].head


def asks_for_place(tokens: Sequence[Token], position: int) -> bool:
    """Whether a place is asked for, by a question word's position or -1: where, which river."""
    word = tokens[position].text.lower() if position >= 0 else ""
    if word not in {"what", "which"}:
        return word == "where"
    head = tokens[position].head
    if head != position and tokens[head].pos in {"NOUN", "PROPN"}:
        return tokens[head].lemma.lower() in _PLACE
    # "What is the capital of …": the other side of the copula.
    others = (
        token.lemma.lower()
        for other, token in enumerate(tokens)
        if token.head == head and other not in {position, head} and token.dep in _COPULAS
        if token.pos == "NOUN"
    )
    return tokens[head].lemma.lower() == "be" and next(others, "") in _PLACE
