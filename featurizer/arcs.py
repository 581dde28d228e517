"""What the dependency tree of a question looks like."""

from collections import Counter
from collections.abc import Sequence

from featurizer.types import Token

# Links that lead from one thing to another: "X's Y", "Y of X", "the Y that …", "the Y built by …".
_CLAUSAL = frozenset({"relcl", "acl"})
_NOMINAL = frozenset({"NOUN", "PROPN", "PRON", "NUM"})


class Arcs:
    """Counts over the arcs of a dependency tree; arcs to punctuation do not count.

    Attributes:
        children: Places of the dependents of each token, punctuation included.
        depth: Arcs between each token and its root.
        distances: Tokens from head to dependent, of each arc, at least 1.
        left: Arcs whose dependent stands before its head.
        labels: How often each relation occurs.
        links: On the way from each token to its root, arcs that relate one thing to another.
        ofs: Likewise, only those by "of".
        owners: Likewise, only those by a possessive.
    """

    __slots__ = ("children", "depth", "distances", "labels", "left", "links", "ofs", "owners")

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.children: list[list[int]] = [[] for _ in tokens]
        self.distances: list[int] = []
        self.left = 0
        self.labels: Counter[str] = Counter()
        roots: list[int] = []
        for place, token in enumerate(tokens):
            if token.head == place:
                roots.append(place)
            else:
                self.children[token.head].append(place)
            if token.dep == "punct":
                continue
            self.labels[token.dep] += 1
            if token.head != place:
                self.distances.append(abs(place - token.head))
                self.left += place < token.head
        self.depth, self.links, self.ofs, self.owners = ([0] * len(tokens) for _ in range(4))
        self._descend(tokens, roots)

    def _descend(self, tokens: Sequence[Token], roots: list[int]) -> None:
        pending = list(roots)
        while pending:
            head = pending.pop()
            for place in self.children[head]:
                token = tokens[place]
                of = token.dep == "pobj" and _hangs_on_noun(tokens, head)
                owner = token.dep == "poss" and token.pos in _NOMINAL
                self.depth[place] = self.depth[head] + 1
                self.links[place] = self.links[head] + (of or owner or token.dep in _CLAUSAL)
                self.ofs[place] = self.ofs[head] + (of and tokens[head].text.lower() == "of")
                self.owners[place] = self.owners[head] + owner
                pending.append(place)

    def steps(self, tokens: Sequence[Token], one: int, other: int) -> int:
        """Arcs between two tokens; of different sentences, those to the root of each and 1."""
        count = 0
        while one != other:
            if self.depth[one] < self.depth[other]:
                one, other = other, one
            if tokens[one].head == one:
                return count + 1
            one = tokens[one].head
            count += 1
        return count


def _hangs_on_noun(tokens: Sequence[Token], preposition: int) -> bool:
    head = tokens[preposition].head
    return head != preposition and tokens[head].pos in _NOMINAL
