from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from wye.backends.types import Float64, Passage
from wye.router.scorer import AttentionMlp, Floats, Scorer, Standard
from wye.router.session import Session
from wye.router.settings import load_settings


def random_tensors(
    inputs: int, hidden: Sequence[int], seed: int = 0, scale: float = 1.0, pieces: int = 0
) -> dict[str, Floats]:
    """Random weights of an attention MLP, in float32 like trained ones."""
    draw = np.random.default_rng(seed)
    widths = [inputs * max(1, pieces), *hidden]
    shapes = {"features": (inputs, inputs)}
    shapes |= {f"hidden.{i}": (b, a) for i, (a, b) in enumerate(zip(widths, hidden, strict=False))}
    shapes |= {"output": (widths[-1], widths[-1]), "head": (1, widths[-1])}
    found: dict[str, Floats] = {}
    for name, shape in shapes.items():
        bound = scale / np.sqrt(shape[1])
        found[f"{name}.weight"] = draw.uniform(-bound, bound, shape).astype(np.float32)
        found[f"{name}.bias"] = draw.uniform(-bound, bound, shape[0]).astype(np.float32)
    if pieces:
        ends = np.sort(draw.normal(size=(inputs, pieces + 1)), axis=1)
        found["pieces.low"] = ends[:, :-1].astype(np.float32)
        found["pieces.scale"] = (1 / np.diff(ends, axis=1)).astype(np.float32)
    return found


def scorer_of(members: Sequence[AttentionMlp], width: int, seed: int = 0) -> Scorer:
    """A scorer of all but the first of `width` features, in reverse order."""
    draw = np.random.default_rng(seed)
    count = width - 1
    return Scorer(
        names=tuple(f"f{column}" for column in range(count, 0, -1)),
        columns=np.arange(count, 0, -1),
        standard=Standard(draw.normal(size=count), draw.uniform(0.5, 2, count), 5.0),
        members=tuple(members),
        temperature=1.3,
        bias=-0.2,
    )


@pytest.fixture
def tensors() -> Callable[..., dict[str, Floats]]:
    return random_tensors


@pytest.fixture(params=["alike", "of two shapes"])
def scorer(request: pytest.FixtureRequest) -> Scorer:
    members = [AttentionMlp(random_tensors(9, (16, 16, 8), seed, 3.0)) for seed in (1, 2)]
    other = AttentionMlp(random_tensors(9, (5,), 7, 3.0))
    return scorer_of([*members, other] if request.param == "of two shapes" else members, 10)


@pytest.fixture
def features() -> Float64:
    return np.random.default_rng(4).normal(scale=2, size=(23, 10))


def add(folder: Path, *ids: str) -> None:
    with Session.create(load_settings(), folder) as target:
        target.ingest([Passage(id_, id_.upper(), "Ada met Babbage.") for id_ in ids])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    add(tmp_path / "index", "p0", "p1", "p2", "p3")
    return tmp_path / "index"
