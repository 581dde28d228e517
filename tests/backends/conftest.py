"""A corpus whose mentions are marked by hand, so that tests do not depend on a model."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.hashing import HashAnalyser
from wye.backends.store.corpus import Corpus, read_corpus
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.trigraph.explanation import Trace
from wye.backends.trigraph.graph import TriGraph
from wye.backends.trigraph.retriever import TriGraphBatch
from wye.backends.types import Float32, Float64, Mask, Passage
from wye.featurizer.types import PassageAnalysis, SentenceAnalysis

ENTITY = re.compile(r"\[([^\]]*)\]")
PHRASE = re.compile(r"\{([^}]*)\}")
NAMES = ["Ada", "Bo Ek", "Como", "Dee", "Eve", "Flo", "Gus", "Hal Im", "Ines", "Lake Como"]
CorpusOf = Callable[..., Corpus]
PHRASES = ["salt", "coral", "fog", "tide", "warm salt"]


class MarkedAnalyser(HashAnalyser):
    """Finds [Named Entities] and {noun phrases} in a marked text with one sentence per line."""

    def __init__(
        self, texts: Mapping[str, str], vectors: Mapping[str, Sequence[float]], dimension: int
    ) -> None:
        super().__init__(dimension)
        self._texts, self._vectors = texts, vectors

    def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        return [
            PassageAnalysis(self._vector(passage.id), tuple(self._sentences(passage.id)))
            for passage in passages
        ]

    def _vector(self, text: str) -> Float32:
        known = self._vectors.get(text)
        return super()._vector(text) if known is None else np.array(known, np.float32)

    def _sentences(self, id_: str) -> Iterator[SentenceAnalysis]:
        for line in self._texts[id_].splitlines():
            entities, phrases = ENTITY.findall(line), PHRASE.findall(line)
            if entities or phrases:
                text = unmarked(line)
                yield SentenceAnalysis(text, tuple(entities), tuple(phrases), self._vector(text))


def unmarked(text: str) -> str:
    return PHRASE.sub(r"\1", ENTITY.sub(r"\1", text))


def many_passages(count: int, seed: int = 0) -> list[Passage]:
    source = random.Random(seed)

    def line() -> str:
        words = [f"[{name}]" for name in source.choices(NAMES, k=source.randint(0, 3))]
        words += [f"{{{phrase}}}" for phrase in source.sample(PHRASES, k=1)]
        return " ".join(source.sample([*words, source.choice(NAMES), "likes"], k=len(words) + 2))

    return [
        Passage(
            f"p{n:02}",
            source.choice([*NAMES, "Como (lake)", ""]),
            "\n".join(line() for _ in range(source.randint(1, 4))),
            {},
            f"d{n // 4}" if n % 8 < 4 else "",
            n % 4 if n % 8 < 4 else 0,
        )
        for n in range(count)
    ]


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[..., Corpus]:
    """Makes a corpus of passages with marked texts.

    The function takes passages; `vectors` of passages by id and of sentences and surfaces by text
    (hashes for all others), of length `dimension`; and whether surfaces have vectors.
    """

    def make(
        *passages: Passage,
        vectors: Mapping[str, Sequence[float]] | None = None,
        dimension: int = 4,
        entity_vectors: bool = False,
    ) -> Corpus:
        analyser = MarkedAnalyser({p.id: p.text for p in passages}, vectors or {}, dimension)
        folder = tmp_path / f"index{sum(1 for _ in tmp_path.iterdir())}"
        index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
        plain = [replace(p, text=unmarked(p.text)) for p in passages]
        ingest(index, plain, analyser, entity_vectors=entity_vectors)
        return read_corpus(index.newest())

    return make


def counts_of(graph: TriGraph, corpus: Corpus, allowed: Mask | None = None) -> Float64:
    """(n, e + j) how often each allowed passage mentions each entity, then the chunk edges."""
    n, e = len(corpus), len(graph)
    rows = range(n) if allowed is None else np.flatnonzero(allowed).tolist()
    counts = np.zeros((n, e))
    for row in rows:
        counts[row, graph.titles.one(row)] += 1
        for sentence in np.flatnonzero(corpus.sentence_passage == row).tolist():
            counts[row, graph.mentions.one(sentence)] += 1
    pairs = [
        [one, other]
        for one in rows
        for other in rows
        if corpus.documents[one] == corpus.documents[other]
        and corpus.chunks[one] + 1 == corpus.chunks[other]
    ]
    edges = np.zeros((n, len(pairs)))
    for column, pair in enumerate(pairs):
        edges[pair, column] = 1
    return np.hstack([counts, edges])


def trace_of(batch: TriGraphBatch, position: int = 0) -> Trace:
    batch.search([position], 1)
    return batch._walked[position][1]


def shares_of(counts: Float64) -> Float64:
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.where(totals > 0, totals, 1), np.float64)
