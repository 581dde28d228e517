"""Analysers without models: fast, repeatable, and sufficient for everything around the models."""

import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import numpy as np

from wye.backends.types import Float32, Passage
from wye.featurizer.analyser import AnalyserSettings
from wye.featurizer.encoder import EncodedText
from wye.featurizer.types import (
    EntityMention,
    Parse,
    PassageAnalysis,
    SentenceAnalysis,
    Span,
    Steps,
    Syntax,
)

T = TypeVar("T")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_CAPITALISED = re.compile(r"\b[A-Z]\w+")
_LONG_WORD = re.compile(r"\b[a-z]{8,}\b")


class HashAnalyser:
    """Vectors from a hash of the text; capitalised words are entities, long words are phrases."""

    def __init__(self, dimension: int = 8, *, name: str = "hash", delay: float = 0.0) -> None:
        self._dimension = dimension
        self._name = name
        self._delay = delay

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def fingerprint(self) -> Mapping[str, str]:
        return {"encoder": self._name, "parser": "split-1"}

    def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        results = []
        for passage in passages:
            time.sleep(self._delay)
            results.append(self._analyse(passage))
        return results

    def analyse_in_steps(self, passages: Sequence[Passage]) -> Steps[list[PassageAnalysis]]:
        results = []
        for passage in passages:
            yield
            results += self.analyse([passage])
        return results

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        vectors = [self._vector(surface) for surface in surfaces]
        return np.array(vectors, np.float32).reshape(-1, self._dimension)

    def encode_surfaces_in_steps(self, surfaces: Sequence[str]) -> Steps[Float32]:
        yield
        return self.encode_surfaces(surfaces)

    def encode_ahead(self, texts: Sequence[str]) -> None:
        """Do nothing, since encoding takes no time."""

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


class FakeAnalyser(HashAnalyser):
    """A stand-in for the models: hashes as vectors, capitalised words as entities."""

    def __init__(self, settings: AnalyserSettings, *, delay: float = 0.0) -> None:
        super().__init__(delay=delay)
        self._sentence_vectors = settings.sentence_vectors
        self.seconds = {"parsing": 0.0, "encoding": 0.0}
        self.has_parser = True

    @property
    def fingerprint(self) -> dict[str, str]:
        return {**super().fingerprint, "sentence_vectors": self._sentence_vectors}

    @property
    def syntax_fingerprint(self) -> dict[str, str]:
        return {"tree": "none"}

    def encode_passages_in_steps(self, passages: Sequence[Passage]) -> Steps[Float32]:
        return self.encode_surfaces_in_steps([f"{p.title}\n{p.text}" for p in passages])

    def encode_questions(self, texts: Sequence[str]) -> Float32:
        return self.encode_surfaces(texts)

    def encode_with_states(self, texts: Sequence[str]) -> list[EncodedText]:
        none = np.zeros((0, self.dimension), np.float32)
        vectors = self.encode_questions(texts)
        return [EncodedText(text, own, none, ()) for text, own in zip(texts, vectors, strict=True)]

    def encode_parts(self, encoded: EncodedText, spans: Sequence[Span]) -> Float32:
        return self.encode_questions([encoded.text[start:end] for start, end in spans])

    def is_word(self, _word: str) -> bool:
        return True

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        found = []
        for text in texts:
            names = [EntityMention(name, "", (0, 0)) for name in _CAPITALISED.findall(text)]
            found.append(Parse(text, (), tuple(names), ()))
        return found

    def syntax_of(self, parses: Sequence[Parse], *, trees: bool = True) -> list[Syntax]:
        """Syntax without tokens or trees, so that no question has a plan."""
        return [Syntax((), ()) for _ in parses]

    def beside(self, work: Callable[[], T]) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work())
        return done

    def close(self) -> None:
        """Do nothing."""
