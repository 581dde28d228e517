"""What a text costs the encoder by its length, beside PyTorch, and how far they agree.

One text at a time on one thread, all in turns, so that a busy machine is busy for all. "processor"
is processor time. The lengths come in mixed order, since a text of another length than the last
takes longer. Cosines are those of vectors to PyTorch's in float32.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, process_time

import numpy as np

from backends.sources import DocumentSource
from backends.types import Float64
from benchmarks import harness
from benchmarks.harness import DEMO, BenchmarkError, Table
from featurizer.encoder import DEFAULT_ENCODER, DTYPES, Encoder, EncoderSettings, locate_model
from featurizer.types import Float32

LENGTHS = (8, 16, 32, 64, 128, 256)
Encode = Callable[[Sequence[str]], Float32]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how much is measured."""
    parser.add_argument("--rounds", type=int, default=20, help="texts of each length")


def run(given: argparse.Namespace) -> None:
    """Print the table."""
    fast, exact = (Encoder(EncoderSettings(threads=1, dtype=dtype)) for dtype in DTYPES)
    encoders: dict[str, Encode] = {f"wye, {one.dtype}": one.encode for one in (fast, exact)}
    encoders["PyTorch, float32"] = _by_pytorch()
    harness.print_header("Encoder", seed=given.seed, data=f"{given.rounds} texts of each length")
    texts = made_texts(exact, given.rounds, given.seed)
    milliseconds, cosines = measure(encoders, texts)
    table = Table(["ms a text", *(f"{length} tokens" for length in LENGTHS)], width=28)
    for name, clocks in milliseconds.items():
        for clock, row in zip(("wall", "processor"), clocks.tolist(), strict=True):
            table.row(f"{name}: {clock}", *row)
    print()
    table = Table(["cosine", "least", "mean"])
    for name, found in cosines.items():
        table.row(name, f"{found.min():.6f}", f"{found.mean():.6f}")


def made_texts(reader: Encoder, rounds: int, seed: int) -> list[tuple[int, str]]:
    """So many texts of each length in mixed order, each with its place among the lengths.

    They are words of the demo corpus, drawn at random; special tokens are counted.
    """
    words = " ".join(passage.text for passage in DocumentSource(DEMO).passages()).split()
    source = np.random.default_rng(seed)
    texts = []
    for place in source.permutation(np.repeat(np.arange(len(LENGTHS)), rounds)).tolist():
        text = " ".join(source.choice(words, LENGTHS[place]))
        texts.append((place, text[: reader.token_ends(text)[LENGTHS[place] - 3]]))
    return texts


def measure(
    encoders: Mapping[str, Encode], texts: Sequence[tuple[int, str]]
) -> tuple[dict[str, Float64], dict[str, Float32]]:
    """Of each encoder the median milliseconds (2, lengths), wall and processor, and cosines.

    Args:
        encoders: Name -> texts to unit vectors; cosines (n,) are to the vectors of the last.
        texts: Each with its place among the lengths.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in encoders}
    vectors: dict[str, list[Float32]] = {name: [] for name in encoders}
    for encode in encoders.values():
        encode([text for _, text in texts])
    for _, text in texts:
        for name, encode in encoders.items():
            wall, processor = perf_counter(), process_time()
            vectors[name].append(encode([text])[0])
            times[name].append((perf_counter() - wall, process_time() - processor))
    places = np.array([place for place, _ in texts])
    milliseconds = {}
    for name, found in times.items():
        by_length = (np.array(found)[places == place] for place in range(len(LENGTHS)))
        milliseconds[name] = np.array([np.median(one, axis=0) for one in by_length]).T * 1e3
    *_, last = vectors.values()
    cosines = {name: np.vecdot(np.array(found), np.array(last)) for name, found in vectors.items()}
    return milliseconds, cosines


def _by_pytorch() -> Encode:
    try:
        import torch  # noqa: PLC0415 - the extra of that name
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    except ImportError as error:
        raise BenchmarkError(
            f"It compares with PyTorch: pip install 'wye[torch]' ({error})."
        ) from None
    torch.set_num_threads(1)
    folder = str(locate_model(DEFAULT_ENCODER))
    model = SentenceTransformer(folder, device="cpu", local_files_only=True)
    return lambda texts: np.asarray(model.encode([*texts], normalize_embeddings=True), np.float32)
