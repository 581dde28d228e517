"""The packaged models, loaded once."""

from collections.abc import Iterator

import pytest

from featurizer.encoder import Encoder, EncoderSettings
from featurizer.parser import SpacyParser


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The default encoder in float32, whatever the processor."""
    return Encoder(EncoderSettings(dtype="float32", threads=2))


@pytest.fixture(scope="session")
def parser() -> Iterator[SpacyParser]:
    """The default pipeline, in this process."""
    parser = SpacyParser()
    yield parser
    parser.close()
