"""Selection of the passages that a language model reads when it may read only part of the corpus.

Source: Clue-RAG, algorithm 2. A passage's value is what it has in common with the others, its cost
the number of its words. The passages with the largest total value within the budget are selected.
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
"""Length in words of the longest n-grams that BLEU counts."""
UNSEEN = 0.1
"""Numerator of an n-gram precision that would otherwise be 0."""
_BLOCK = 16_000_000
"""Number of cosines in a block."""


def select(corpus: Corpus, share: float, by: Selection, seed: int = 0) -> Int64:
    """Rows of the selected passages, ascending.

    Args:
        share: Alpha, the share of all words that may be read, 0 to 1.
        by: The value of a passage: its BLEU against all others, its cosine to the closest other,
            or a random number.
        seed: Seed of the random numbers.
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
    """Items of high total value within a budget, ascending.

    Items are taken greedily by value per cost, or the best single item if its value is higher. The
    total is at least half of the optimum, and less than it by at most one item's value.

    Args:
        values: (n,) none negative.
        costs: (n,) none negative.
        room: The budget.
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
    """(n,) BLEU of each text against all others as references; 0 for an empty or a single text.

    It is exact in linear time: an n-gram's two largest counts in any text give its largest count in
    the other texts.
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
            # An n-gram is the number of its first n - 1 words combined with its last word.
            last = np.roll(words, 1 - order)
            grams = np.unique(grams * len(number) + last, return_inverse=True)[1]
        matched = _matched(grams[whole], owner[whole], count)
        total = np.maximum(lengths - order + 1, 1)
        logs += np.log(np.where(matched > 0, matched, UNSEEN) / total) / ORDER
    values = np.exp(logs) * _brevity(lengths)
    return np.where(lengths > 0, values, 0.0)


def _matched(grams: Int64, owner: Int64, count: int) -> Float64:
    """(count,) matched n-grams of each text, clipped to their largest count in another text."""
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
    """(n,) brevity penalty of each text against the other text that is closest in length."""
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
    """(n,) cosine of each unit vector with the closest other, at least 0; 0 for a single one."""
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
