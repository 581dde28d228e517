"""BERT by OpenVINO: the tokens and the states of the libraries that publish the models."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from transformers import AutoTokenizer, PreTrainedTokenizerBase

import wye.featurizer.encoder
from tests.featurizer.encoders import MODEL, write_encoder
from wye.featurizer.encoder import Bert, Encoder, EncoderSettings
from wye.featurizer.errors import ModelError, UnsupportedModelError

TEXTS = ["A lamp.", "", "Émile lit the lamps; 北京 said—and went!", "tide " * 60, "[MASK] [SEP]"]
Make = Callable[..., Path]


@pytest.fixture(scope="session")
def bert() -> Bert:
    return Bert(MODEL, 1, exact=True)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(MODEL, local_files_only=True, model_max_length=256)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return partial(write_encoder, tmp_path)


def beside(folder: Path) -> tuple[Bert, SentenceTransformer]:
    return Bert(folder, 1, exact=True), SentenceTransformer(str(folder), local_files_only=True)


def assert_equal(ours: Bert, theirs: SentenceTransformer) -> None:
    assert ours.dimension == theirs.get_embedding_dimension()
    assert ours.max_tokens == theirs.get_max_seq_length()
    for text in TEXTS:
        vector, states = ours.run(ours.tokens(text)[0])
        expected = np.asarray(theirs.encode(text, output_value="token_embeddings"))
        np.testing.assert_allclose(states, expected, atol=2e-5)
        whole = np.asarray(theirs.encode(text, normalize_embeddings=True))
        np.testing.assert_allclose(vector / np.linalg.norm(vector), whole, atol=1e-5)


@settings(max_examples=150)
@given(st.one_of(st.text(max_size=400), st.text("ab [SEP]\tÉ\u0301北ß.'", max_size=900)))
def test_tokens_are_those_of_transformers(
    bert: Bert, tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    expected = tokenizer(text, truncation=True, max_length=256, return_offsets_mapping=True)
    ids, spans = bert.tokens(text)
    assert ids == expected["input_ids"]
    assert spans == [tuple(span) for span in expected["offset_mapping"]]
    whole = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = [*map(tuple, whole["offset_mapping"])]
    assert bert.tokens(text, cut=False) == (whole["input_ids"], offsets)


def test_groups_hold_every_text_once_with_others_of_its_padded_length(bert: Bert) -> None:
    lengths = [3, 17, 8, 1, 250, 9, 16, 5, 7, 60, 8, 251, 8, 8]
    groups = bert.together(lengths)
    assert sorted(position for group in groups for position in group) == [*range(len(lengths))]
    sizes = [{-(-lengths[position] // 8) for position in group} for group in groups]
    assert all(len(own) == 1 for own in sizes)
    assert [len(group) for group in groups] == [1, 1, 1, 1, 2, 8]
    assert bert.together([]) == []


def test_no_thread_is_left_without_work_for_the_sake_of_larger_groups() -> None:
    bert = Bert(MODEL, 2, exact=True)
    assert [[len(group) for group in bert.together([8] * count)] for count in (1, 2, 5, 32)] == [
        [1],
        [1, 1],
        [3, 2],
        [16, 16],
    ]


@pytest.mark.parametrize("exact", [True, False])
def test_states_are_the_same_to_the_last_bit_alone_and_in_every_group(exact: bool) -> None:
    bert = Bert(MODEL, 1, exact=exact)
    source = np.random.default_rng(0)
    for size in (8, 16, 24, 40, 64):
        for count in (1, 2, 3, 8, 13):
            lengths = source.integers(size - 7, size, size=3 * count, endpoint=True)
            texts = [source.integers(1000, 30_000, size=length).tolist() for length in lengths]
            alone = [bert.run(ids) for ids in texts]
            for start in range(0, len(texts), count):
                result = bert.run_together(texts[start : start + count])
                for one, other in zip(result, alone[start:], strict=False):
                    assert np.array_equal(one[0], other[0])
                    assert np.array_equal(one[1], other[1])
            assert count == 1 or bert._same[count, size], "computed one by one"


@pytest.mark.parametrize("exact", [True, False])
def test_a_text_alone_has_the_same_bits_on_several_threads(exact: bool) -> None:
    bert = Bert(MODEL, 2, exact=exact)
    source = np.random.default_rng(0)
    for size in (5, 8, 9, 16, 24, 31, 64, 100, 256):
        for ids in source.integers(1000, 30_000, size=(3, size)).tolist():
            for one, other in zip(bert.run_alone(ids), bert.run(ids), strict=True):
                assert np.array_equal(one, other)
    assert bert._wide is not None
    assert all(bert._same.values()), "computed on one thread"


def test_one_thread_serves_where_several_sum_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    bert = Bert(MODEL, 2, exact=True)
    right, calls = bert._run, []

    def otherwise(texts: list[list[int]], *, wide: bool = False) -> object:
        calls.append(wide)
        return [(v, s + wide * np.float32(1e-6)) for v, s in right(texts)]

    monkeypatch.setattr(bert, "_run", otherwise)
    monkeypatch.setattr(wye.featurizer.encoder, "WIDE_FROM", 2)
    for expected in ([False], [True, False], [False]):
        calls.clear()
        assert np.array_equal(bert.run_alone([101, 102])[1], right([[101, 102]])[0][1])
        assert calls == expected
    single = Bert(MODEL, 1, exact=True)
    for _ in range(3):
        single.run_alone([101, 102])
    assert single._wide is None


def test_texts_go_one_by_one_where_a_group_is_summed_otherwise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bert = Bert(MODEL, 1, exact=True)
    right, calls = bert._run, []

    def otherwise(texts: list[list[int]], *, wide: bool = False) -> object:
        assert not wide
        calls.append(len(texts))
        return [(v, s + (len(texts) > 1) * np.float32(1e-6)) for v, s in right(texts)]

    monkeypatch.setattr(bert, "_run", otherwise)
    texts = [[101, 2054, 102], [101, 102]]
    for expected in ([2, 1, 1], [1, 1]):
        calls.clear()
        for result, ids in zip(bert.run_together(texts), texts, strict=True):
            assert np.array_equal(result[1], right([ids])[0][1])
        assert calls == expected
    assert "one by one" in caplog.text


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the kernel tells no sizes")
def test_pages_of_its_file_are_given_back_and_states_stay(
    bert: Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = bert.run([101, 2054, 102])
    assert float(bert._words.sum()) != 0
    assert resident_around(bert._words) > 40_000
    monkeypatch.setattr(wye.featurizer.encoder, "TEXTS_BETWEEN", 1)
    result, _ = bert.run([101, 2054, 102])
    assert resident_around(bert._words) < 20_000
    assert np.array_equal(result, expected)


def resident_around(array: np.ndarray) -> int:
    """Kilobytes resident of the mapping that holds the array, and of no other one of its file."""
    address, inside = array.ctypes.data, False
    for line in Path("/proc/self/smaps").read_text("utf-8").splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            first, last = (int(one, 16) for one in name.split("-"))
            inside = first <= address < last
        elif inside and name == "Rss:":
            return int(rest[0])
    raise AssertionError("no mapping holds it")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_states_are_those_of_sentence_transformers(make: Make, kind: str, pooling: str) -> None:
    ours, theirs = beside(make(kind, pooling=pooling, pad_token_id=0 if kind == "bert" else 1))
    assert (ours.pooling, ours.dtype) == (pooling, "float32")
    assert_equal(ours, theirs)


def test_older_files_say_the_same_in_other_words(make: Make) -> None:
    folder = make("bert", modules.Normalize())
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False}
    pooling |= {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    weights = load_file(folder / "model.safetensors")
    old = {f"bert.{name}": values for name, values in weights.items()}
    places = {"bert.embeddings.position_ids": np.arange(40)[None]}
    save_file({**old, **places}, folder / "model.safetensors", {"format": "pt"})
    assert_equal(*beside(folder))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_weights_of_two_bytes_are_read(make: Make, kind: torch.dtype) -> None:
    folder = make()
    theirs = SentenceTransformer(str(folder), local_files_only=True)
    model: Any = theirs[0].model
    model.to(kind).save_pretrained(folder)
    ours = Bert(folder, 1, exact=True)
    model.float()
    assert_equal(ours, theirs)


def test_what_is_another_kind_of_model_is_left_to_pytorch(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make("mpnet", modules.Dense(32, 16))
    with pytest.raises(UnsupportedModelError, match="modules are Transformer, Pooling, Dense"):
        Bert(folder, 1, exact=True)
    encoder = Encoder(EncoderSettings(model=str(folder)))
    ((name, level, said),) = caplog.record_tuples
    assert (name, level) == ("wye.featurizer.encoder", logging.WARNING)
    assert "runs in PyTorch" in said
    assert "Dense" in said
    assert (encoder.dimension, encoder.max_tokens, encoder.dtype) == (16, 32, "float32")
    theirs = SentenceTransformer(str(folder), local_files_only=True)
    expected = np.asarray(theirs.encode(TEXTS, normalize_embeddings=True))
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert np.array_equal(encoder.encode(TEXTS[::-1])[::-1], vectors)
    assert encoder.token_ends("A lamp, lit.") == [1, 6, 7, 11, 12]
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("file", "entry", "said"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "max"}, "pooling is 'max'"),
        ("config.json", {"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ("config.json", {"model_type": "mpnet"}, "model_type is 'mpnet'"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "lowercases"),
        ("tokenizer.json", None, "no tokenizer.json"),
        ("model.safetensors", None, "not in one file, model.safetensors"),
    ],
)
def test_what_it_cannot_compute_it_refuses_with_the_reason(
    make: Make, file: str, entry: dict[str, Any] | None, said: str
) -> None:
    folder = make()
    if entry is None:
        (folder / file).unlink()
    else:
        content = json.loads((folder / file).read_text("utf-8"))
        (folder / file).write_text(json.dumps(content | entry))
    with pytest.raises(UnsupportedModelError, match=said):
        Bert(folder, 1, exact=True)


def test_without_torch_it_says_what_to_install(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("mpnet")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelError, match=r"needs PyTorch .*pip install -e '\.\[torch\]'"):
        Encoder(EncoderSettings(model=str(folder)))


def test_the_default_needs_neither_pytorch_nor_anything_that_reports_home() -> None:
    program = (
        "import sys\n"
        "from wye.featurizer.encoder import Encoder, EncoderSettings\n"
        "assert Encoder(EncoderSettings()).encode(['a lamp', 'a tide']).any()\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "openvino" in loaded
    unwanted = {"torch", "transformers", "sentence_transformers", "openvino_telemetry"}
    assert not loaded & unwanted
