"""Chooses the sentences of passages that a language model is shown if not all of them fit.

A sentence's cost rises with the rank of its passage, with its position in the passage, and with its
rank by the rare words that it shares with the question. The cheapest are kept, in their order. This
keeps a sentence with the answer more often than ZoomRAG's Chunk-Zoom over the graph's activated
entities, cosine, the first sentences or the first passages, and needs neither graph nor vectors:
docs/results.md has the figures.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wye.backends.documents import split_sentences
from wye.backends.lexical import content_terms

LEFT_OUT = "…"
_PLACE = 0.05
_WORDS = 0.25


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Position of a sentence: its passage, its index there, and its character offsets."""

    passage: int
    place: int
    start: int
    end: int


def pack(question: str, texts: Sequence[str], room: int) -> list[str]:
    """Shorten the texts of passages to the sentences that fit.

    Args:
        texts: Texts of passages, best first.
        room: Most characters of all kept sentences together; what is between them does not count.

    Returns:
        A text for each passage, "" if none of it is kept, with "…" for sentences that are left out.
        If everything fits, the texts unchanged.
    """
    if sum(map(len, texts)) <= room:
        return list(texts)
    sentences = [one for number, text in enumerate(texts) for one in _split(number, text)]
    shared = _shared(question, [texts[one.passage][one.start : one.end] for one in sentences])
    order = sorted(range(len(sentences)), key=lambda n: (-shared[n], n))
    behind = {n: rank / len(sentences) for rank, n in enumerate(order)}
    cost = [
        one.passage / len(texts) + _PLACE * one.place + _WORDS * behind[n]
        for n, one in enumerate(sentences)
    ]
    kept: list[set[int]] = [set() for _ in texts]
    for n in sorted(range(len(sentences)), key=lambda n: (cost[n], n)):
        one = sentences[n]
        if one.end - one.start <= room:
            room -= one.end - one.start
            kept[one.passage].add(one.place)
    by_passage: list[list[_Sentence]] = [[] for _ in texts]
    for one in sentences:
        by_passage[one.passage].append(one)
    return [
        _joined(text, own, places)
        for text, own, places in zip(texts, by_passage, kept, strict=True)
    ]


def _split(number: int, text: str) -> list[_Sentence]:
    found, end = [], 0
    for place, sentence in enumerate(split_sentences(text)):
        start = text.index(sentence, end)
        end = start + len(sentence)
        found.append(_Sentence(number, place, start, end))
    return found


def _shared(question: str, sentences: Sequence[str]) -> list[float]:
    """Each sentence's sum of weights of the question's words that it has; rare words weigh more."""
    asked = frozenset(content_terms(question))
    terms = [asked.intersection(content_terms(sentence)) for sentence in sentences]
    counts = Counter(term for own in terms for term in own)
    worth = {term: math.log(1 + len(sentences) / count) for term, count in counts.items()}
    return [math.fsum(worth[term] for term in own) for own in terms]


def _joined(text: str, sentences: Sequence[_Sentence], kept: set[int]) -> str:
    """Join the kept sentences; consecutive ones keep the text between them."""
    if len(kept) == len(sentences):
        return text
    parts: list[str] = []
    before: _Sentence | None = None
    for one in sentences:
        if one.place not in kept:
            if parts[-1:] != [LEFT_OUT]:
                parts.append(LEFT_OUT)
            before = None
        elif before is None:
            parts.append(text[one.start : one.end])
            before = one
        else:
            parts[-1] += text[before.end : one.end]
            before = one
    return " ".join(parts) if kept else ""
