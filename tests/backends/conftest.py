"""A corpus whose mentions are marked by hand, so that no model decides what a test says."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.store.index import PassageStore
from backends.store.ingest import ingest
from backends.store.snapshot import Corpus, read_corpus
from backends.types import Float32, Passage
from benchmarks.hashing import HashAnalyser
from featurizer.types import PassageAnalysis, SentenceAnalysis

ENTITY = re.compile(r"\[([^\]]*)\]")
PHRASE = re.compile(r"\{([^}]*)\}")


class MarkedAnalyser:
    """Reads [Named Entities] and {noun phrases} off a text with one sentence a line."""

    def __init__(
        self, texts: Mapping[str, str], vectors: Mapping[str, Sequence[float]], dimension: int
    ) -> None:
        self._texts = texts
        self._vectors = vectors
        self._hash = HashAnalyser(dimension)

    @property
    def dimension(self) -> int:
        return self._hash.dimension

    @property
    def fingerprint(self) -> Mapping[str, str]:
        return self._hash.fingerprint

    def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        return [
            PassageAnalysis(self.vector(passage.id), self._sentences(self._texts[passage.id]))
            for passage in passages
        ]

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        return np.array([self.vector(surface) for surface in surfaces], np.float32)

    def vector(self, text: str) -> Float32:
        if text in self._vectors:
            return np.array(self._vectors[text], np.float32)
        vector: Float32 = self._hash.encode_surfaces([text])[0]
        return vector

    def _sentences(self, marked: str) -> tuple[SentenceAnalysis, ...]:
        found = []
        for line in marked.splitlines():
            entities, phrases = ENTITY.findall(line), PHRASE.findall(line)
            if entities or phrases:
                text = unmarked(line)
                vector = self.vector(text)
                found.append(SentenceAnalysis(text, tuple(entities), tuple(phrases), vector))
        return tuple(found)


def unmarked(text: str) -> str:
    return PHRASE.sub(r"\1", ENTITY.sub(r"\1", text))


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[..., Corpus]:
    """Make a corpus of passages with marked texts.

    The maker takes passages; `vectors` of passages by id and of sentences and surfaces by text
    (a hash where there is none), of length `dimension`; and whether surfaces have vectors.
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
        index.refresh()
        return read_corpus(index)

    return make


@pytest.fixture
def versions_of(tmp_path: Path) -> Callable[..., Iterator[tuple[Corpus, Corpus]]]:
    """One index brought from state to state; each is read after the one before, and alone."""

    def make(*states: Sequence[Passage]) -> Iterator[tuple[Corpus, Corpus]]:
        texts = {unmarked(p.text): p.text for state in states for p in state}
        index = PassageStore.create(tmp_path / "versions", 4, HashAnalyser(4).fingerprint)
        before: Corpus | None = None
        for state in states:
            analyser = MarkedAnalyser({p.id: texts[unmarked(p.text)] for p in state}, {}, 4)
            ingest(index, [replace(p, text=unmarked(p.text)) for p in state], analyser)
            wanted = {p.id for p in state}
            stored = [] if before is None else before.ids
            with index.writer() as writer:
                writer.delete([id_ for id_ in stored if id_ not in wanted])
            index.refresh()
            before = read_corpus(index, before)
            yield before, read_corpus(index)

    return make
