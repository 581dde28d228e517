"""Analysers without models, for every test that is about what surrounds them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from benchmarks.hashing import FakeAnalyser
from featurizer.analyser import AnalyserSettings
from featurizer.constituency.parser import SyntaxParser, open_syntax_parser
from featurizer.types import Analysis, Syntax


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
