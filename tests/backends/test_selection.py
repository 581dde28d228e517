"""Selection of passages against slow versions: BLEU by its definition, every choice of items."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.selection import (
    ORDER,
    SELECTIONS,
    UNSEEN,
    Selection,
    bleu_of_each,
    closest,
    knapsack,
    select,
)
from backends.store.snapshot import Corpus
from backends.types import Passage

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=6)


def bleu(text: list[str], others: list[list[str]]) -> float:
    """Of one text against references, n-gram by n-gram."""
    if not text or not others:
        return 0.0
    logs = 0.0
    for n in range(1, ORDER + 1):
        own, *counts = (
            Counter(tuple(each[at : at + n]) for at in range(len(each) - n + 1))
            for each in (text, *others)
        )
        matched = sum(min(c, max(of[gram] for of in counts)) for gram, c in own.items())
        logs += math.log((matched or UNSEEN) / max(len(text) - n + 1, 1)) / ORDER
    reference = min(map(len, others), key=lambda size: (abs(size - len(text)), size))
    brevity = min(1.0, math.exp(1 - reference / len(text)))
    return math.exp(logs) * brevity


@given(TEXTS)
def test_bleu_is_that_of_its_definition(texts: list[list[str]]) -> None:
    slow = [bleu(text, texts[:at] + texts[at + 1 :]) for at, text in enumerate(texts)]
    np.testing.assert_allclose(bleu_of_each(texts), slow, rtol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8), st.integers(0, 30))
def test_what_is_taken_fits_and_is_worth_nearly_the_most(
    items: list[tuple[int, int]], room: int
) -> None:
    values = np.array([value for value, _ in items], np.float64)
    costs = np.array([cost for _, cost in items], np.int64)
    taken = knapsack(values, costs, room)
    best = max(
        values[[*chosen]].sum()
        for size in range(len(items) + 1)
        for chosen in combinations(range(len(items)), size)
        if costs[[*chosen]].sum() <= room
    )
    assert costs[taken].sum() <= room
    assert values[taken].sum() >= max(best - values.max(initial=0), best / 2)
    assert taken.tolist() == sorted(set(taken.tolist()))


def test_the_closest_other_is_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    near = vectors @ vectors.T
    np.fill_diagonal(near, -np.inf)
    monkeypatch.setattr("backends.selection._BLOCK", 14)
    np.testing.assert_allclose(closest(vectors), np.maximum(near.max(axis=1), 0), rtol=1e-6)
    assert closest(vectors[:1]).tolist() == [0.0]


@pytest.mark.parametrize("by", SELECTIONS)
def test_a_share_of_all_words_is_selected(corpus_of: Callable[..., Corpus], by: Selection) -> None:
    texts = ["[Ada] likes salt", "[Ada] likes fog", "[Bo Ek] went to [Como] once or twice"]
    corpus = corpus_of(*(Passage(f"p{n}", "", text) for n, text in enumerate(texts)))
    rows = select(corpus, 0.5, by, seed=1).tolist()
    assert rows
    assert sum(len(corpus.texts([row])[0].split()) for row in rows) <= 8
    assert rows == select(corpus, 0.5, by, seed=1).tolist()
    if by == "bleu":
        assert rows == [0, 1]
    assert select(corpus, 1.0, by).tolist() == [0, 1, 2]
    assert select(corpus, 0.0, by).tolist() == []
