"""Questions analysed once, so that a benchmark can ask them over and over."""

from collections.abc import Callable, Sequence
from pathlib import Path

from backends.types import Query
from router.adapters import Questions
from router.session import Session
from router.settings import load_settings

Analyse = Callable[[Path, Sequence[str]], list[Query]]
"""Folder of an index and questions to queries; benchmarks are tested with one without models."""


def with_models(index: Path, texts: Sequence[str]) -> list[Query]:
    """Analyse with the models of an index; every named entity gets its vector.

    Raises:
        ModelError: A model is missing or damaged.
        IndexNotFoundError: There is no index.
        IndexMismatchError: It was written with other models.
    """
    container = Session.open(load_settings(), index)
    try:
        return list(Questions(container.analyser).analyse(texts, lambda _: True).queries)
    finally:
        container.close()
