"""What a question names, and what it only describes."""

from collections.abc import Sequence

from featurizer.arcs import Arcs
from featurizer.types import Token

_NUMBERS = frozenset({"CARDINAL", "ORDINAL"})
_DESCRIBING = frozenset({"prep", "relcl", "acl"})


class Naming:
    """Named entities and descriptions.

    Attributes:
        entities: (first token, end) of each named entity, numbers left out.
        labels: Of each.
        heads: Of each, the token that is nearest to the root.
        descriptions: Common nouns with "the" and no name before them: "the river".
        relational: Those of them that something told further marks out: "the river that …".
    """

    __slots__ = ("descriptions", "entities", "heads", "labels", "relational")

    def __init__(self, tokens: Sequence[Token], arcs: Arcs) -> None:
        self.entities = [
            (start, end) for start, end in _spans(tokens) if tokens[start].entity not in _NUMBERS
        ]
        self.labels = [tokens[start].entity for start, _ in self.entities]
        self.heads = [
            min(range(start, end), key=lambda place: (arcs.depth[place], place))
            for start, end in self.entities
        ]
        self.descriptions = 0
        self.relational = 0
        for place, token in enumerate(tokens):
            if token.pos == "NOUN" and not token.entity:
                below = arcs.children[place]
                if _is_definite(tokens, below) and not _is_named(tokens, below):
                    self.descriptions += 1
                    self.relational += any(tokens[b].dep in _DESCRIBING for b in below)


def _spans(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for place, token in enumerate(tokens):
        if not token.entity:
            continue
        if token.begins_entity or not spans or spans[-1][1] != place:
            spans.append((place, place + 1))
        else:
            spans[-1] = (spans[-1][0], place + 1)
    return spans


def _is_definite(tokens: Sequence[Token], below: Sequence[int]) -> bool:
    return any(tokens[place].lemma.lower() == "the" for place in below)


def _is_named(tokens: Sequence[Token], below: Sequence[int]) -> bool:
    """Whether a name stands beside the noun: "the film Alien", "the Avon bridge"."""
    return any(
        tokens[place].pos == "PROPN" and tokens[place].dep in ("compound", "appos", "nmod")
        for place in below
    )
