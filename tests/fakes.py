"""Analysers without models, for every test that is about what surrounds them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from benchmarks.hashing import FakeAnalyser
from featurizer.analyser import AnalyserSettings
from featurizer.constituency.parser import SyntaxParser, open_syntax_parser
from featurizer.types import Parse, Syntax


class ReadingAnalyser(FakeAnalyser):
    """Reads questions as the real one does, so that features are real; vectors are hashes."""

    def __init__(self, settings: AnalyserSettings) -> None:
        super().__init__(settings)
        self.syntax = syntax_parser(settings)

    @property
    def syntax_fingerprint(self) -> dict[str, str]:
        return self.syntax.fingerprint

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        named = super().parse_questions(texts)
        if not tokens:
            return named
        read = self.syntax.parser.parse_questions(texts, tokens=True)
        return [
            replace(own, entities=fake.entities, phrases=())
            for own, fake in zip(read, named, strict=True)
        ]

    def syntax_of(self, parses: Sequence[Parse], *, trees: bool = True) -> list[Syntax]:
        del trees
        return self.syntax.build(parses)


@lru_cache(maxsize=1)
def syntax_parser(settings: AnalyserSettings) -> SyntaxParser:
    return open_syntax_parser(settings.pipeline, settings.constituency)
