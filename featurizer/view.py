"""A question prepared for its features: what several of them need is computed once."""

from collections import Counter

from featurizer.arcs import Arcs
from featurizer.asking import asking
from featurizer.constituency import count_units
from featurizer.naming import Naming
from featurizer.shape import Shape
from featurizer.types import Syntax

_CONTENT = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM"})


class View:
    """A question as features look at it.

    Attributes:
        syntax: What all of this is made of.
        tokens: Of the syntax, punctuation included.
        words: Tokens with a letter or a digit.
        content: Nouns, names, verbs, adjectives, adverbs and numbers among the words.
        lower: Words in lower case.
        lemmas: Lemmas of the words in lower case.
        pos: How often each universal part of speech occurs among the words.
        tags: How often each Penn tag occurs among the tokens.
        units: Lu's nine production units.
        shape: Of the constituency trees.
        arcs: Of the dependency tree.
        naming: Entities and descriptions.
        asking: What is asked for.
        reach: For each entity, arcs from what is asked (the question word, or else the first
            root) to it.
    """

    __slots__ = (
        *("arcs", "asking", "content", "lemmas", "lower", "naming", "pos", "reach"),
        *("shape", "syntax", "tags", "tokens", "units", "words"),
    )

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax
        self.tokens = syntax.tokens
        self.words = [token for token in self.tokens if any(map(str.isalnum, token.text))]
        self.content = [token for token in self.words if token.pos in _CONTENT]
        self.lower = [token.text.lower() for token in self.words]
        self.lemmas = [token.lemma.lower() for token in self.words]
        self.pos = Counter([token.pos for token in self.words])
        self.tags = Counter([token.tag for token in self.tokens])
        self.units = count_units(syntax.trees)
        self.shape = Shape(syntax.trees)
        self.arcs = Arcs(self.tokens)
        self.naming = Naming(self.tokens, self.arcs)
        self.asking = asking(self.tokens)
        start = self.asking.place
        if start < 0:
            start = next((p for p, token in enumerate(self.tokens) if token.head == p), 0)
        self.reach = [self.arcs.steps(self.tokens, start, head) for head in self.naming.heads]
