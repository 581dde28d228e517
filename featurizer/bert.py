"""BERT models (MiniLM, BGE, E5, XLM-R), computed by OpenVINO from a folder of weights.

The graph is built from the safetensors file itself: nothing is converted or cached elsewhere, and
PyTorch is not needed. The graph holds the layers. Rows of the embedding tables are read from the
mapped file, so rows that no text needs take no memory.
"""

import json
import logging
import mmap
import re
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from wye.featurizer.errors import UnsupportedModelError
from wye.featurizer.imports import ImportingWithout
from wye.featurizer.types import Float32, Span

if TYPE_CHECKING:
    from openvino import CompiledModel, Model, Node

log = logging.getLogger(__name__)

Tensors = Mapping[str, Float32]

POOLINGS = ("mean", "cls")
# OpenVINO prepares each new shape, which takes milliseconds once and over a megabyte for good. So
# texts are padded to a multiple of this many tokens: that makes 32 lengths instead of 256.
MULTIPLE = 8
# Texts of one padded length are computed in one call, which reads the weights once for all of
# them. Beyond this many tokens, padding included, a larger call is no faster.
TOKENS_AT_ONCE = 256
# After this many texts, the mapped pages that they read are released; pages that are read again
# come from the system's cache. Otherwise a few thousand texts bring the whole file into memory.
TEXTS_BETWEEN = 256
# A text alone is computed on so many threads at most: with more, each waits longer for the others.
WIDEST = 4
# From this text alone on; what asks one question does not wait for the model to be compiled again.
WIDE_FROM = 4
_ALLOWED = {
    "model_type": ("bert", "roberta", "xlm-roberta"),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
}


class Bert:
    """A BERT model with its tokenizer. It may be called from any number of threads.

    Attributes:
        dimension: Length d of a vector.
        max_tokens: Length at which texts are cut, special tokens included.
        pooling: "mean" of all token states, or the state of the first token ("cls").
        dtype: Number type of the computation: "float32", or "bfloat16" from float32 weights.
    """

    def __init__(self, folder: Path, threads: int, *, exact: bool) -> None:
        """Load a folder in sentence-transformers' format.

        Args:
            threads: How many calls compute at the same time, each on one thread.
            exact: Whether to compute in float32 even where the processor multiplies bfloat16,
                which takes half the time or less.

        Raises:
            UnsupportedModelError: It is no BERT with one of these poolings; says why.
            OSError, ValueError, KeyError, TypeError: A file is missing or damaged.
        """
        home, self.pooling = _modules(folder)
        config = _read(home / "config.json")
        check_architecture(config)
        self._tokenizer, limit = read_tokenizer(home, config)
        tensors, mapped = read_tensors(home / "model.safetensors")
        # RoBERTa numbers positions from the one after its padding id.
        first = 0 if config["model_type"] == "bert" else config["pad_token_id"] + 1
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = (
            tensors["embeddings.position_embeddings.weight"][first:]
            + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        self.dimension = int(self._words.shape[1])
        self.max_tokens = min(limit, len(self._positions))
        openvino = as_openvino()
        abilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        halves = not exact and "BF16" in abilities
        self.dtype = "bfloat16" if halves else "float32"
        states, inputs = states_graph(openvino, tensors, config)
        self._model = openvino.Model([states], inputs, "bert")
        self._compiled = compile_model(self._model, threads, halves=halves)
        self._wide: CompiledModel | None = None
        self._alone, self._widening = count(1), threading.Lock()
        self._requests = threading.local()
        self._mapped, self._texts = mapped, count(1)
        self._threads = threads
        self._same: dict[tuple[int, ...], bool] = {}
        # The first text makes OpenVINO pack the layers into memory of its own.
        self.run([0])
        self._give_back()

    def tokens(self, text: str, *, cut: bool = True) -> tuple[list[int], list[Span]]:
        """Ids and character spans of a text's tokens.

        Args:
            cut: Whether to cut to `max_tokens` and add special tokens, whose spans are empty.
                Otherwise all tokens are returned, and no special ones.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        if cut:
            encoding.truncate(self.max_tokens - self._tokenizer.num_special_tokens_to_add(False))
            encoding = self._tokenizer.post_process(encoding)
        return encoding.ids, encoding.offsets

    def run(self, ids: list[int]) -> tuple[Float32, Float32]:
        """The vector (d,) of a text, not normalised, and the states (t, d) of its t tokens."""
        return self._run([ids])[0]

    def run_alone(self, ids: list[int]) -> tuple[Float32, Float32]:
        """The result of `run`, to the last bit, by several threads.

        That takes less time for one text, and more for many, which are better computed side by
        side.
        """
        if self._threads == 1 or next(self._alone) < WIDE_FROM:
            return self.run(ids)
        return self._checked([ids], wide=True)[0]

    def together(self, lengths: Sequence[int]) -> list[list[int]]:
        """Positions of texts of these lengths in groups for `run_together`, longest texts first."""
        of_size: dict[int, list[int]] = {}
        for position, length in enumerate(lengths):
            of_size.setdefault(padded(length), []).append(position)
        groups = []
        # Groups stay small enough that every thread has work.
        share = -(-len(lengths) // self._threads)
        for size, positions in sorted(of_size.items(), reverse=True):
            most = max(1, min(TOKENS_AT_ONCE // size, share))
            groups += [positions[at : at + most] for at in range(0, len(positions), most)]
        return groups

    def run_together(self, texts: Sequence[list[int]]) -> list[tuple[Float32, Float32]]:
        """The result of `run` for each text of a group, to the last bit."""
        return self._checked(texts) if len(texts) > 1 else [self.run(texts[0])]

    def _checked(
        self, texts: Sequence[list[int]], *, wide: bool = False
    ) -> list[tuple[Float32, Float32]]:
        """The results of one call, where they are those of `run`; else those of `run`.

        This needs a matrix product that sums a row in an order independent of the number of rows
        and of threads. No library guarantees that on all processors, so the first call of each
        shape is computed both ways.
        """
        shape = len(texts), padded(len(texts[0]))
        if self._same.get(shape, True):
            results = self._run(texts, wide=wide)
            if shape in self._same:
                return results
        alone = [self.run(ids) for ids in texts]
        if shape not in self._same:
            pairs = zip(results, alone, strict=True)
            self._same[shape] = all(np.array_equal(result[1], other[1]) for result, other in pairs)
            if not self._same[shape]:
                log.info("Texts of %d tokens are encoded one by one on this processor.", shape[1])
        return alone

    def _run(
        self, texts: Sequence[list[int]], *, wide: bool = False
    ) -> list[tuple[Float32, Float32]]:
        """Vector and token states of each text; all have one padded length."""
        requests, name = vars(self._requests), "wide" if wide else "narrow"
        if name not in requests:
            model = self._widened() if wide else self._compiled
            requests[name] = model.create_infer_request()
        request = requests[name]
        rows = np.zeros((len(texts), padded(len(texts[0])), self.dimension), np.float32)
        mask = np.zeros((len(texts), 1, 1, rows.shape[1]), np.float32)
        for row, ids in enumerate(texts):
            rows[row, : len(ids)] = self._words[ids] + self._positions[: len(ids)]
            mask[row, ..., len(ids) :] = np.finfo(np.float32).min
            if next(self._texts) % TEXTS_BETWEEN == 0:
                self._give_back()
        states = request.infer({0: rows, 1: mask}, share_inputs=True)[0]
        rows_by_text = [rows[: len(ids)] for rows, ids in zip(states, texts, strict=True)]
        cls = self.pooling == "cls"
        return [(rows[0] if cls else rows.mean(axis=0), rows) for rows in rows_by_text]

    def _widened(self) -> "CompiledModel":
        """The model for one call at a time by several threads; compiled on first use."""
        with self._widening:
            if self._wide is None:
                threads = min(self._threads, WIDEST)
                halves = self.dtype == "bfloat16"
                self._wide = compile_model(self._model, threads, halves=halves, calls=1)
            return self._wide

    def _give_back(self) -> None:
        """Release the pages of the mapped file; they are read again when needed."""
        if hasattr(self._mapped, "madvise"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def padded(tokens: int) -> int:
    """The padded length of a text of so many tokens."""
    return -(-tokens // MULTIPLE) * MULTIPLE


def _read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return content


def _modules(folder: Path) -> tuple[Path, str]:
    """The folder of the transformer, and the pooling."""
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
    if pooling not in POOLINGS:
        raise UnsupportedModelError(f"its pooling is '{pooling}'")
    return folder / modules[0]["path"], str(pooling)


def read_tokenizer(home: Path, config: Mapping[str, Any]) -> tuple[Tokenizer, int]:
    """The tokenizer, without truncation and padding, and how many tokens the model reads."""
    if not (home / "tokenizer.json").is_file():
        raise UnsupportedModelError("it has no tokenizer.json")
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    options = {
        key: value for file in home.glob("sentence_*.json") for key, value in _read(file).items()
    }
    if options.get("do_lower_case"):
        raise UnsupportedModelError("it lowercases texts before tokenising them")
    length = options.get("max_seq_length")
    if length is None and (home / "tokenizer_config.json").is_file():
        length = _read(home / "tokenizer_config.json").get("model_max_length")
    limit = config["max_position_embeddings"]
    return tokenizer, int(limit if length is None else min(length, limit))


def read_tensors(file: Path) -> tuple[Tensors, mmap.mmap]:
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


def check_architecture(config: Mapping[str, Any]) -> None:
    """Refuse (`UnsupportedModelError`, says why) a config.json that this module cannot compute."""
    for name, allowed in _ALLOWED.items():
        if config.get(name) not in allowed:
            raise UnsupportedModelError(f"its {name} is '{config.get(name)}'")


def compile_model(
    model: "Model", threads: int, *, halves: bool, calls: int | None = None
) -> "CompiledModel":
    """Compile for `threads` threads.

    Args:
        halves: Whether to compute in bfloat16.
        calls: How many calls share the threads at the same time; None for one on each thread.
    """
    return (
        as_openvino()
        .Core()
        .compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "bf16" if halves else "f32",
                "NUM_STREAMS": threads if calls is None else calls,
                "INFERENCE_NUM_THREADS": threads,
                "ENABLE_CPU_PINNING": False,
            },
        )
    )


def states_graph(
    openvino: ModuleType, tensors: Tensors, config: Mapping[str, Any]
) -> "tuple[Node, list[Node]]":
    """The graph from two inputs to token states (b, t, d), as in arXiv 1810.04805.

    Returns:
        The states, and the inputs: embedding rows (b, t, d) and an additive attention mask
        (b, 1, 1, t), which hides the padding.
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
