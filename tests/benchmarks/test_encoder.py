"""The benchmark of the encoder measures texts of the lengths it names."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchmarks.encoder import LENGTHS, made_texts, measure
from featurizer.encoder import Encoder, EncoderSettings
from featurizer.types import Float32


def test_texts_have_their_lengths_and_cosines_are_to_the_last() -> None:
    encoder = Encoder(EncoderSettings(threads=1, dtype="float32"))
    texts = made_texts(encoder, 2, seed=0)
    assert Counter(place for place, _ in texts) == dict.fromkeys(range(len(LENGTHS)), 2)
    for place, text in texts:
        assert len(encoder.token_ends(text)) + 2 == LENGTHS[place]

    def opposite(given: Sequence[str]) -> Float32:
        return -encoder.encode(given)

    milliseconds, cosines = measure({"back": opposite, "there": encoder.encode}, texts)
    assert milliseconds["back"].shape == (2, len(LENGTHS))
    expected = [[-1] * len(texts), [1] * len(texts)]
    np.testing.assert_allclose([cosines["back"], cosines["there"]], expected, atol=1e-5)
