"""Surfaces to entities: when two names are the same, and where a text mentions a known one."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from backends.types import Int32, Int64

_SPACES = re.compile(r"\s+")
_STRAIGHT = (
    ("\N{RIGHT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT SINGLE QUOTATION MARK}", "'"),
    ("\N{LEFT DOUBLE QUOTATION MARK}", '"'),
    ("\N{RIGHT DOUBLE QUOTATION MARK}", '"'),
)
_EDGES = " \t\n\"'`.,;:!?()[]{}«»„"
_PARENTHETICAL = re.compile(r"\s*\([^()]*\)\s*$")
# Words with inner apostrophes, full stops or hyphens stay whole, but for a possessive; any other
# sign stands alone. An accent belongs to its letter even where no single character holds both, as
# in the lower-case form of a dotted capital I.
_IN_WORD = r"[\w\u0300-\u036f]"
_WORD = rf"\w{_IN_WORD}*"
_POSSESSIVE = rf"'(?i:s)(?!{_IN_WORD})"
_TOKEN = re.compile(rf"{_POSSESSIVE}|{_WORD}(?:(?!{_POSSESSIVE})['.\-]{_WORD})*|[^\w\s]")
MAX_WORDS = 8
FUNCTION_WORDS = frozenset(
    """a about after all also an and any are as at be been before but by can could did do does for
    from had has have he her him his how i if in into is it its many me more most much my no not of
    off on one or other our out over 's she so some such than that the their them then there these
    they this those to under up us was we were what when where which while who whom whose why will
    with would you your""".split()  # noqa: SIM905 - words read better as words
)


def entity_key(surface: str) -> str:
    """The form under which two surfaces are one entity.

    Case, spaces, quotes, a possessive and a leading "the" do not count: "The Thames' " and
    "Thames" are one river. The article stays where nothing telling is left without it ("The Who").
    Empty for a surface that has nothing else.
    """
    key = _SPACES.sub(" ", _plain(surface).casefold()).strip(_EDGES)
    key = key.removesuffix("'s").rstrip(_EDGES)
    if key.startswith("the "):
        bare = key.removeprefix("the ").lstrip(_EDGES)
        return bare if is_telling(bare) else key
    return key


def is_telling(key: str) -> bool:
    """Whether a key has more than one character and more than function words."""
    return len(key) > 1 and not all(token in FUNCTION_WORDS for token in tokenise(key))


def title_names(title: str) -> tuple[str, str]:
    """A title as it stands, and without its "(…)" ending if it has one."""
    whole = title.strip()
    return whole, _PARENTHETICAL.sub("", whole)


def title_keys(title: str) -> tuple[str, ...]:
    """Entity keys that a passage's title gives, those of its names, each once."""
    keys = dict.fromkeys(entity_key(name) for name in title_names(title))
    return tuple(key for key in keys if key)


def tokenise(text: str) -> list[str]:
    """Tokens of a text in their own case."""
    return _TOKEN.findall(_plain(text))


def stretch(text: str, start: int, length: int) -> str:
    """The words of a text from its token `start` on, as they are written."""
    found = list(_TOKEN.finditer(_plain(text)))[start : start + length]
    return _plain(text)[found[0].start() : found[-1].end()]


def _plain(text: str) -> str:
    """Accented letters as one character where there is one, quotes as on a typewriter."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    for curly, straight in _STRAIGHT:
        text = text.replace(curly, straight)
    return text


@dataclass(frozen=True, slots=True)
class Link:
    """A stretch of tokens that names an entity.

    Attributes:
        entity: Which.
        start: First token.
        length: Number of tokens.
    """

    entity: int
    start: int
    length: int


class NameTrie:
    """Finds names in token sequences, longest first from left to right.

    The trie is two sorted arrays, so whole corpora are matched with a few array operations: a
    state and the next token form one number, looked up by binary search.
    """

    def __init__(self, names: Iterable[tuple[str, int]]) -> None:
        """Build from (name, entity) pairs; of two names with the same tokens the first counts."""
        self._codes: dict[str, int] = {}
        edges: dict[tuple[int, int], int] = {}
        ends: dict[int, int] = {}
        for name, entity in names:
            tokens = [token.casefold() for token in tokenise(name)]
            if not tokens or len(tokens) > MAX_WORDS:
                continue
            state = 0
            for token in tokens:
                code = self._codes.setdefault(token, len(self._codes))
                state = edges.setdefault((state, code), len(edges) + 1)
            ends.setdefault(state, entity)
        self._width = max(len(self._codes), 1)
        keys = np.array([state * self._width + code for state, code in edges], np.int64)
        order = np.argsort(keys)
        self._keys: Int64 = keys[order]
        self._targets: Int64 = np.array(list(edges.values()), np.int64)[order]
        self._ends: Int64 = np.full(len(edges) + 1, -1, np.int64)
        self._ends[list(ends)] = list(ends.values())

    def find(self, tokens: Sequence[str], starts: Sequence[bool] | None = None) -> list[Link]:
        """Names in one sequence, none overlapping.

        Args:
            tokens: In any case.
            starts: Where a name may start; everywhere if None.
        """
        codes = np.array([self._codes.get(t.casefold(), -1) for t in tokens], np.int64)
        allowed = np.ones(len(tokens), bool) if starts is None else np.asarray(starts, bool)
        place, entity, length = self._longest(codes, np.flatnonzero(allowed))
        return [Link(*link) for link in _leftmost(place, entity, length)]

    def find_all(self, texts: Iterable[str]) -> tuple[Int32, Int32]:
        """Names in many texts that start like a name: with a capital letter or a digit.

        Returns:
            Places of the texts, ascending, and the entities found there; repeats kept.
        """
        codes, owner, allowed = self._encode(texts)
        place, entity, length = self._longest(codes, np.flatnonzero(allowed))
        links = _leftmost(place, entity, length)
        if not links:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        found = np.array(links, np.int64)
        return owner[found[:, 1]].astype(np.int32), found[:, 0].astype(np.int32)

    def _encode(self, texts: Iterable[str]) -> tuple[Int64, Int64, Int64]:
        """Token codes of all texts, each text closed by an unknown token no name can cross."""
        memo = _TokenCodes(self._codes)
        codes: list[int] = []
        lengths: list[int] = []
        for text in texts:
            row = [memo[token] for token in tokenise(text)]
            codes.extend(row)
            codes.append(-2)
            lengths.append(len(row) + 1)
        packed = np.array(codes, np.int64)
        owner = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        # The memo packs "may start a name" into the lowest bit; -2 >> 1 is the unknown code -1.
        return packed >> 1, owner, packed & 1

    def _longest(self, codes: Int64, starts: Int64) -> tuple[Int64, Int64, Int64]:
        """Longest name from each start: place, entity, number of tokens, where there is one."""
        entity = np.full(len(starts), -1, np.int64)
        length = np.zeros(len(starts), np.int64)
        alive = np.arange(len(starts), dtype=np.int64)
        state = np.zeros(len(starts), np.int64)
        for depth in range(MAX_WORDS):
            position = starts[alive] + depth
            inside = position < len(codes)
            alive, state, position = alive[inside], state[inside], position[inside]
            code = codes[position]
            key = np.where(code >= 0, state * self._width + code, -1)
            edge = np.searchsorted(self._keys, key)
            hit = edge < len(self._keys)
            hit[hit] = self._keys[edge[hit]] == key[hit]
            alive, state = alive[hit], self._targets[edge[hit]]
            ends = self._ends[state]
            complete = ends >= 0
            entity[alive[complete]] = ends[complete]
            length[alive[complete]] = depth + 1
            if not len(alive):
                break
        named = entity >= 0
        return starts[named], entity[named], length[named]


class _TokenCodes(dict[str, int]):
    """Raw token -> its code doubled, plus 1 if it may start a name; filled on first use."""

    def __init__(self, codes: dict[str, int]) -> None:
        super().__init__()
        self._known = codes

    def __missing__(self, token: str) -> int:
        code = self._known.get(token.casefold(), -1)
        packed = 2 * code + int(starts_like_a_name(token))
        self[token] = packed
        return packed


def starts_like_a_name(token: str) -> bool:
    """Whether a token begins with a capital letter or a digit."""
    return token[0].isupper() or token[0].isdigit()


def _leftmost(place: Int64, entity: Int64, length: Int64) -> list[tuple[int, int, int]]:
    """(entity, start, length) of matches, skipping those that overlap an earlier one."""
    kept: list[tuple[int, int, int]] = []
    free_from = 0
    for start, e, n in zip(place.tolist(), entity.tolist(), length.tolist(), strict=True):
        if start >= free_from:
            kept.append((e, start, n))
            free_from = start + n
    return kept
