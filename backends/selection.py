"""Which passages a language model reads, where it may read a share of the corpus only.

Source: Clue-RAG, algorithm 2. A passage is worth as much as it has in common with the others, and
costs its words; of all passages those are taken that are worth most together within the share.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from backends.numerics import sums
from backends.store.snapshot import Corpus
from backends.types import Float32, Float64, Int64
from backends.words import tokenise

Selection = Literal["bleu", "cosine", "random"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
ORDER = 4
"""Words in the longest n-grams that BLEU counts."""
UNSEEN = 0.1
"""Numerator of an n-gram precision that would be 0."""
_BLOCK = 16_000_000
"""Cells of a block of cosines."""


def select(corpus: Corpus, share: float, by: Selection, seed: int = 0) -> Int64:
    """Rows of the passages to be read, ascending.

    Args:
        share: Alpha, 0 to 1, of all words.
        by: What a passage is worth: its BLEU against all others, its cosine to the closest other,
            or a random number.
        seed: Of random numbers.
    """
    texts = [tokenise(f"{title} {text}".lower()) for title, text in corpus.iter_texts()]
    costs = np.array([len(words) for words in texts], np.int64)
    if share >= 1:
        return np.arange(len(texts), dtype=np.int64)
    match by:
        case "bleu":
            values = bleu_of_each(texts)
        case "cosine":
            values = closest(np.asarray(corpus.vectors))
        case "random":
            values = np.random.default_rng(seed).random(len(texts))
    return knapsack(values, costs, int(np.ceil(share * costs.sum())))


def knapsack(values: Float64, costs: Int64, room: int) -> Int64:
    """Items that fit into some room and are worth much together, ascending.

    Greedily by worth for the room that is taken, or the best single item if that is worth more: at
    most one item's worth less than the best choice, and half of it at least.

    Args:
        values: (n,) none negative.
        costs: (n,) none negative.
    """
    order = np.argsort(-values / np.maximum(costs, 1), kind="stable")
    taken, left = list[int](), room
    for item in order.tolist():
        if costs[item] <= left:
            taken.append(item)
            left -= int(costs[item])
    fitting = np.flatnonzero(costs <= room)
    if len(fitting):
        best = int(fitting[np.argmax(values[fitting])])
        if values[best] > values[taken].sum():
            taken = [best]
    return np.sort(np.array(taken, np.int64))


def bleu_of_each(texts: Sequence[Sequence[str]]) -> Float64:
    """(n,) BLEU of each text against all others as references; 0 of an empty or an only text.

    Exact in linear time: of each n-gram, the two largest counts in a text say how often it is in
    another one at most.
    """
    count = len(texts)
    lengths = np.array([len(text) for text in texts], np.int64)
    if count < 2:
        return np.zeros(count)
    number: dict[str, int] = {}
    words = np.array([number.setdefault(w, len(number)) for text in texts for w in text], np.int64)
    starts = np.cumsum(lengths) - lengths
    owner = np.repeat(np.arange(count), lengths)
    left = np.repeat(starts + lengths, lengths) - np.arange(len(words))
    grams, logs = words, np.zeros(count)
    for order in range(1, ORDER + 1):
        whole = left >= order
        if order > 1:
            # An n-gram is its first words' number and its last word.
            last = np.roll(words, 1 - order)
            grams = np.unique(grams * len(number) + last, return_inverse=True)[1]
        matched = _matched(grams[whole], owner[whole], count)
        total = np.maximum(lengths - order + 1, 1)
        logs += np.log(np.where(matched > 0, matched, UNSEEN) / total) / ORDER
    values = np.exp(logs) * _brevity(lengths)
    return np.where(lengths > 0, values, 0.0)


def _matched(grams: Int64, owner: Int64, count: int) -> Float64:
    """(count,) n-grams of each text, each as often as it is in some other text at most."""
    pairs, often = np.unique(grams * count + owner, return_counts=True)
    gram, text = pairs // count, pairs % count
    order = np.lexsort((-often, gram))
    gram, text, often = gram[order], text[order], often[order]
    first = np.flatnonzero(np.diff(gram, prepend=-1))
    size = np.diff(first, append=len(gram))
    largest = often[first]
    second = np.where(size > 1, often[np.minimum(first + 1, len(often) - 1)], 0)
    other = np.repeat(largest, size)
    other[first] = second
    return sums(text, np.minimum(often, other).astype(np.float64), count)


def _brevity(lengths: Int64) -> Float64:
    """(n,) penalty of texts that are shorter than the other one closest in length."""
    order = np.argsort(lengths, kind="stable")
    own = lengths[order].astype(np.float64)
    shorter = np.concatenate([[-np.inf], own[:-1]])
    longer = np.concatenate([own[1:], [np.inf]])
    reference = np.where(own - shorter <= longer - own, shorter, longer)
    penalty = np.where(reference > own, np.exp(1 - reference / np.maximum(own, 1)), 1.0)
    found = np.empty(len(lengths))
    found[order] = penalty
    return found


def closest(vectors: Float32) -> Float64:
    """(n,) cosine of each of n unit vectors to the closest other; 0 of an only one."""
    count = len(vectors)
    if count < 2:
        return np.zeros(count)
    found = np.empty(count)
    rows = max(1, _BLOCK // count)
    for start in range(0, count, rows):
        near = vectors[start : start + rows] @ vectors.T
        near[np.arange(len(near)), np.arange(start, start + len(near))] = -np.inf
        found[start : start + rows] = near.max(axis=1)
    return np.maximum(found, 0.0)
