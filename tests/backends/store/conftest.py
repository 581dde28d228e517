"""An index without models, for all tests of the store."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.hashing import HashAnalyser
from wye.backends.store.index import PassageStore
from wye.backends.types import Passage
from wye.featurizer.types import PassageAnalysis

ANALYSER = HashAnalyser()


class Counting(HashAnalyser):
    """Notes what it analyses, and ends with an error after so many passages."""

    def __init__(
        self,
        dimension: int = 8,
        *,
        name: str = "hash",
        parser: str = "split-1",
        most: int = -1,
        end: type[BaseException] = MemoryError,
    ) -> None:
        super().__init__(dimension, name=name)
        self.parser, self.most, self.end = parser, most, end
        self.analysed: list[str] = []

    @property
    def fingerprint(self) -> dict[str, str]:
        return {**super().fingerprint, "parser": self.parser}

    def analyse(self, passages: Sequence[Passage]) -> Iterator[PassageAnalysis]:  # type: ignore[override]
        for passage in passages:
            if len(self.analysed) == self.most:
                raise self.end
            self.analysed.append(passage.id)
            yield super()._analyse(passage)


def new_index(folder: Path) -> PassageStore:
    return PassageStore.create(folder, ANALYSER.dimension, ANALYSER.fingerprint)


@pytest.fixture
def index(tmp_path: Path) -> PassageStore:
    return new_index(tmp_path / "index")
