"""Analysers without models, for every test that is about what surrounds them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from backends.types import Float32, Passage
from benchmarks.hashing import HashAnalyser
from featurizer.analyser import AnalyserSettings
from featurizer.constituency.parser import SyntaxParser, open_syntax_parser
from featurizer.types import Analysis, Parse, PassageAnalysis, QuestionMention, Steps, Syntax


class FakeAnalyser:
    """Stands where the models would: hashes for vectors, capitalised words for entities."""

    def __init__(self, settings: AnalyserSettings) -> None:
        self._hash = HashAnalyser()
        self._sentence_vectors = settings.sentence_vectors
        self.seconds = {"parsing": 0.0, "encoding": 0.0}

    @property
    def dimension(self) -> int:
        return self._hash.dimension

    @property
    def fingerprint(self) -> dict[str, str]:
        return {**self._hash.fingerprint, "sentence_vectors": self._sentence_vectors}

    @property
    def syntax_fingerprint(self) -> dict[str, str]:
        return {"tree": "none"}

    def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
        return self._hash.analyse(passages)

    def analyse_in_steps(self, passages: Sequence[Passage]) -> Steps[list[PassageAnalysis]]:
        found = []
        for passage in passages:
            yield
            found += self.analyse([passage])
        return found

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        return self._hash.encode_surfaces(surfaces)

    def encode_surfaces_in_steps(self, surfaces: Sequence[str]) -> Steps[Float32]:
        yield
        return self.encode_surfaces(surfaces)

    def questions(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        syntax: bool = False,
    ) -> list[Analysis]:
        return [self._question(text) for text in texts]

    def close(self) -> None:
        pass

    def _question(self, text: str) -> Analysis:
        names = dict.fromkeys(re.findall(r"\b[A-Z]\w+", text))
        mentions = tuple(QuestionMention(name, "entity", None) for name in names)
        return Analysis(Parse(text, (), (), ()), self.encode_surfaces([text])[0], mentions)


class ReadingAnalyser(FakeAnalyser):
    """Reads questions as the real one does, so that features are real; vectors are hashes."""

    def __init__(self, settings: AnalyserSettings) -> None:
        super().__init__(settings)
        self.syntax = syntax_parser(settings)

    @property
    def syntax_fingerprint(self) -> dict[str, str]:
        return self.syntax.fingerprint

    def questions(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        syntax: bool = False,
    ) -> list[Analysis]:
        read: list[Syntax | None] = [*self.syntax.parse(texts)] if syntax else [None] * len(texts)
        return [
            replace(self._question(text), syntax=own) for text, own in zip(texts, read, strict=True)
        ]


@lru_cache(maxsize=1)
def syntax_parser(settings: AnalyserSettings) -> SyntaxParser:
    return open_syntax_parser(settings.pipeline, settings.constituency)
