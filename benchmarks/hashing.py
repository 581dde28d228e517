"""An analyser without models: fast, repeatable, and good enough for all that surrounds the models.

Benchmarks use it to time storage alone, and the crash tests to run many ingests in seconds.
"""

import re
import time
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from backends.types import Float32, Passage
from featurizer.types import PassageAnalysis, SentenceAnalysis, Steps

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_CAPITALISED = re.compile(r"\b[A-Z]\w+")
_LONG_WORD = re.compile(r"\b[a-z]{8,}\b")


class HashAnalyser:
    """Vectors from a hash of the text; capitalised words are entities, long words are phrases."""

    def __init__(self, dimension: int = 8, *, name: str = "hash", delay: float = 0.0) -> None:
        """Give vectors of so many numbers a fingerprint, and sleep so many seconds a passage."""
        self._dimension = dimension
        self._name = name
        self._delay = delay

    @property
    def dimension(self) -> int:
        """Length d of every vector."""
        return self._dimension

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """Tells apart analysers with different names."""
        return {"encoder": self._name, "parser": "split-1"}

    def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        """One result per passage, in order."""
        results = []
        for passage in passages:
            time.sleep(self._delay)
            results.append(self._analyse(passage))
        return results

    def analyse_in_steps(self, passages: Sequence[Passage]) -> Steps[list[PassageAnalysis]]:
        """The same, a passage at a time."""
        results = []
        for passage in passages:
            yield
            results += self.analyse([passage])
        return results

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors, in order."""
        vectors = [self._vector(surface) for surface in surfaces]
        return np.array(vectors, np.float32).reshape(-1, self._dimension)

    def encode_surfaces_in_steps(self, surfaces: Sequence[str]) -> Steps[Float32]:
        """The same."""
        yield
        return self.encode_surfaces(surfaces)

    def _analyse(self, passage: Passage) -> PassageAnalysis:
        sentences = []
        for text in _SENTENCE_END.split(passage.text):
            entities = tuple(_CAPITALISED.findall(text))
            phrases = tuple(_LONG_WORD.findall(text))
            if entities or phrases:
                sentences.append(SentenceAnalysis(text, entities, phrases, self._vector(text)))
        return PassageAnalysis(self._vector(f"{passage.title}\n{passage.text}"), tuple(sentences))

    def _vector(self, text: str) -> Float32:
        random = np.random.default_rng(zlib.crc32(text.encode()))
        vector = random.standard_normal(self._dimension, np.float32)
        return np.asarray(vector / np.linalg.norm(vector), np.float32)
