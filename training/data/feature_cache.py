"""A cache of questions' features: a folder of small files that only grows.

The key is a question's text and the schema of its features, so other features or models use other
files. Each batch is written atomically: a run that is killed loses its last batch, and the same
call computes the rest. Several processes may use one folder.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wye.backends.files import write_atomically
from wye.backends.types import Float64
from wye.featurizer.analyser import AnalyserSettings, open_syntax_parser
from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.registry import schema_id, syntax_matrix
from wye.training.errors import TrainingError

BATCH = 64


class FeatureCache:
    """The features of one schema in a folder."""

    def __init__(self, folder: Path, schema: str) -> None:
        """Read the folder, or create it.

        Raises:
            TrainingError: A file is damaged.
        """
        self.folder = folder / schema
        self.folder.mkdir(parents=True, exist_ok=True)
        self._rows: dict[bytes, Float64] = {}
        for file in sorted(self.folder.glob("*.npz")):
            self._read(file)

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The texts that are not in the cache, each once, in order."""
        return [text for text in dict.fromkeys(texts) if _key(text) not in self._rows]

    def add(self, texts: Sequence[str], matrix: Float64) -> None:
        """Save the (n, d) features of n texts."""
        keys = np.frombuffer(b"".join(map(_key, texts)), np.uint8).reshape(len(texts), -1)
        name = hashlib.sha256(keys.tobytes()).hexdigest()[:32]
        with write_atomically(self.folder / f"{name}.npz") as stream:
            np.savez(stream, keys=keys, matrix=matrix)
        self._keep(keys, matrix)

    def matrix(self, texts: Sequence[str]) -> Float64:
        """(n, d) features of texts, in order.

        Raises:
            KeyError: A text is not in the cache.
            TrainingError: There are no texts.
        """
        if not texts:
            raise TrainingError("There are no questions to compute features of.")
        return np.stack([self._rows[_key(text)] for text in texts])

    def _read(self, file: Path) -> None:
        try:
            with np.load(file, allow_pickle=False) as content:
                self._keep(content["keys"], content["matrix"])
        except (OSError, KeyError, ValueError) as error:
            raise TrainingError(
                f"The feature cache's file {file} is damaged ({error}): delete it; its features "
                "are then computed again."
            ) from error

    def _keep(self, keys: NDArray[np.uint8], matrix: Float64) -> None:
        for key, row in zip(keys, matrix, strict=True):
            self._rows[key.tobytes()] = row


def cached_features(
    texts: Sequence[str],
    folder: Path,
    settings: AnalyserSettings,
    *,
    batch: int = BATCH,
    progress: Callable[[int], None] = lambda _: None,
) -> Float64:
    """(n, d) features of questions; only those that the folder lacks are computed.

    Args:
        settings: They name the pipeline and the constituency model; no encoder is loaded.

    Raises:
        ModelError: A model is missing or damaged.
        TrainingError: There are no texts, or a file of the folder is damaged.
    """
    cache = FeatureCache(folder, schema_id(_parser(settings).fingerprint))
    missing = cache.missing(texts)
    progress(len(texts) - len(missing))
    for start in range(0, len(missing), batch):
        new_texts = missing[start : start + batch]
        cache.add(new_texts, _features(new_texts, settings))
        progress(len(new_texts))
    return cache.matrix(texts)


def _features(texts: Sequence[str], settings: AnalyserSettings) -> Float64:
    return syntax_matrix(_parser(settings).parse(texts))


@lru_cache(maxsize=1)
def _parser(settings: AnalyserSettings) -> SyntaxParser:
    return open_syntax_parser(settings)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
