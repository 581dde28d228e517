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
        units: Lu's nine production units.
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
        self.asking = asking(self.tokens)
        start = self.asking.position
        if start < 0:
            start = next((p for p, token in enumerate(self.tokens) if token.head == p), 0)
        self.reach = [self.arcs.steps(self.tokens, start, head) for head in self.naming.heads]


@dataclass(frozen=True, slots=True)
class Feature:
    """One number that describes a question.

    Attributes:
        name: In snake case; never reused for another feature.
        unit: E.g. "words" or "words a clause"; "0 or 1" for a flag.
        doc: Its meaning in one sentence, with its value when there is nothing to divide by.
        value: Computes the number from a question's view; finite for any question.
        group: The group that it is listed in and ablated with.
        source: Where the definition comes from.
        version: Raised when the value changes for any question.
    """

    name: str
    unit: str
    doc: str
    value: Callable[[View], float]
    group: str
    source: str
    version: int = 1


def ratio(above: float, below: float) -> float:
    """The ratio, and 0 when there is nothing to divide by."""
    return above / below if below else 0.0


def mean(values: list[int]) -> float:
    """The mean; 0 of an empty list."""
    return sum(values) / len(values) if values else 0.0


_NESTED = ("NP", "PP", "SBAR", "VP")


class Shape:
    """Counts over trees. Tags are the leaves, words are not counted, and ROOT is at depth 0.

    Attributes:
        labels: How often each phrase label occurs, below ROOT.
        pairs: How often each (parent, child) pair of phrase labels occurs.
        nesting: Most phrases of one label on a path from the root to a word; for NP, PP, SBAR, VP.
        depths: Depth of each tag, in order.
        yngve: Yngve depth of each tag: the right sisters of it and of all its ancestors.
        branches: Number of children of each phrase, ROOT included.
        levels: Number of nodes at each depth, all trees together.
        noun_phrase_words: Number of words of each NP.
        participles: Number of VPs within an NP that begin with a participle: "built in 1926".
        infinitives: Number of clauses that begin with "to".
        unary: Number of phrases whose only child is a phrase.
        phrases: Number of phrases below ROOT.
        nodes: Number of phrases and tags, ROOT included.
        depth: Depth of the deepest tag.
        width: Largest number of nodes at one depth.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.labels: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.nesting = dict.fromkeys(_NESTED, 0)
        self.depths: list[int] = []
        self.yngve: list[int] = []
        self.branches: list[int] = []
        self.levels: Counter[int] = Counter()
        self.noun_phrase_words: list[int] = []
        self.participles = self.infinitives = self.unary = 0
        for tree in trees:
            self._walk(tree)
        self.phrases = self.labels.total()
        self.nodes = len(self.branches) + len(self.depths)
        self.depth = max(self.depths, default=0)
        self.width = max(self.levels.values(), default=0)

    def _walk(self, root: Tree) -> None:
        # Node, parent's label, depth, Yngve depth, and ancestors of each label of _NESTED.
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
                position = _NESTED.index(label)
                nested = (*nested[:position], nested[position] + 1, *nested[position + 1 :])
                self.nesting[label] = max(self.nesting[label], nested[position])
                if label == "NP":
                    open_phrases.append((depth, len(self.depths)))
            self.branches.append(len(children))
            right = len(children) - 1
            pending.extend(
                (children[position], label, depth + 1, yngve + right - position, nested)
                for position in range(right, -1, -1)
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
        owners: As `links`, only those by a possessive.
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
        self.depth, self.links, self.ofs, self.owners = ([0] * len(tokens) for _ in range(4))
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
                self.links[position] = self.links[head] + (
                    is_object or owns or token.dep in _CLAUSAL
                )
                self.ofs[position] = self.ofs[head] + (
                    is_object and tokens[head].text.lower() == "of"
                )
                self.owners[position] = self.owners[head] + owns
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
        self.entities = [
            (start, end) for start, end in _spans(tokens) if tokens[start].entity not in _NUMBERS
        ]
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
_AUXILIARIES = frozenset({"be", "do", "have"})
_COUNTED = frozenset({"many", "much"})
_COPULAS = frozenset({"attr", "nsubj", "nsubjpass", "dobj"})

_PERSON = words(
    "actor actress architect artist author brother captain child composer daughter designer "
    "director emperor engineer explorer father founder grandfather grandmother husband inventor "
    "king leader man mayor minister mother musician painter parent person physicist player poet "
    "president producer professor queen ruler scientist singer sister son spouse uncle wife woman "
    "writer"
)
_PLACE = words(
    "area border capital city continent country county district estuary hometown island "
    "lake location mountain nation ocean place province region river sea state street town valley "
    "village"
)
_TIME = words("age birthday century date day decade era hour month period time year")
_QUANTITY = words(
    "amount area cost depth distance height length number percentage population price rate size "
    "speed temperature weight width"
)


@dataclass(frozen=True, slots=True)
class Asking:
    """What a question asks for.

    Attributes:
        position: Position of the question word among the tokens; -1 when there is none.
        kind: The question word ("whose" and "whom" are "who"), "how many" for a number or a
            degree, "yes or no", or "none".
        target: "person", "place", "time", "number", "thing", "reason" or "none".
        noun: Position of the noun that the question word stands for ("which river", "what is the
            capital"); -1 when there is none.
    """

    position: int
    kind: str
    target: str
    noun: int


def asking(tokens: Sequence[Token]) -> Asking:
    """What these tokens ask for."""
    position = _question_word(tokens)
    if position < 0:
        kind = "yes or no" if _begins_with_verb(tokens) else "none"
        return Asking(-1, kind, "none", -1)
    word = tokens[position].text.lower()
    noun = _noun(tokens, position, word)
    if word == "how" and _is_degree(tokens, position):
        return Asking(position, "how many", "number", noun)
    kind = "who" if word in ("whom", "whose") else word
    return Asking(
        position, kind, _target(kind, tokens[noun].lemma.lower() if noun >= 0 else ""), noun
    )


def _question_word(tokens: Sequence[Token]) -> int:
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


def _begins_with_verb(tokens: Sequence[Token]) -> bool:
    first = next((token for token in tokens if token.text[0].isalpha()), None)
    return first is not None and (first.tag == "MD" or first.lemma.lower() in _AUXILIARIES)


def _is_degree(tokens: Sequence[Token], position: int) -> bool:
    """Whether "how" asks for a number: "how many", "how far", "how much longer"."""
    after = tokens[position + 1] if position + 1 < len(tokens) else None
    return after is not None and (after.lemma.lower() in _COUNTED or after.pos in ("ADJ", "ADV"))


def _noun(tokens: Sequence[Token], position: int, word: str) -> int:
    head = tokens[position].head
    if head != position and tokens[head].pos in ("NOUN", "PROPN") and word in ("what", "which"):
        return head
    if word not in ("what", "which", "who") or tokens[head].lemma.lower() != "be":
        return -1
    # "What is the capital of …": the other side of the copula.
    others = (
        other
        for other, token in enumerate(tokens)
        if token.head == head and other not in (position, head) and token.dep in _COPULAS
    )
    return next((other for other in others if tokens[other].pos == "NOUN"), -1)


def _target(kind: str, noun: str) -> str:
    simple = {"who": "person", "when": "time", "where": "place", "why": "reason", "how": "reason"}
    if kind in simple:
        return simple[kind]
    kinds = ((_PERSON, "person"), (_PLACE, "place"), (_TIME, "time"), (_QUANTITY, "number"))
    return next((target for nouns, target in kinds if noun in nouns), "thing")
