"""Arms over stores of vectors, asked with vectors that a test makes."""

import asyncio
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.docs.examples import ROOT, blocks
from tests.service.arms.fakes import _toml
from wye.backends.filters import Columns, parse_filter
from wye.service.arms.arm import ArmCall, RemoteArm
from wye.service.arms.file import read_arms

ROWS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("mostar", "Stari Most", "The Old Bridge spans the Neretva.", {"year": 1566, "kind": "bridge"}),
    ("neretva", "Neretva", "The Neretva is a river.", {"kind": "river"}),
    ("tower", "Tower Bridge", "It crosses the Thames.", {"year": 1894, "kind": "bridge"}),
    ("essen", "", "A town.", {"year": 845, "kind": "town"}),
]
VECTORS = {id_: [math.cos(place), math.sin(place), 0.1] for place, (id_, *_) in enumerate(ROWS)}


async def encode(question: str) -> Sequence[float]:
    """Stands beside the passage that it names."""
    return VECTORS[question]


def recipes() -> dict[str, dict[str, Any]]:
    """The tables of arms in the guide and in the file of recipes, by name."""
    path = ROOT / "docs" / "guides" / "remote-arms.md"
    texts = [
        one.text for one in blocks(path.name, path.read_text("utf-8")) if one.language == "toml"
    ]
    texts.append((ROOT / "deploy" / "arms" / "recipes.toml").read_text("utf-8"))
    return {name: keys for text in texts for name, keys in tomllib.loads(text)["arms"].items()}


def recipe(name: str, server: str, **changes: object) -> dict[str, Any]:
    keys = recipes()[name]
    return {**keys, "url": server + urlsplit(keys["url"]).path, **changes}


def arm_of(folder: Path, **keys: object) -> RemoteArm:
    lines = [f"{key} = {_toml(value)}" for key, value in {"role": "list", **keys}.items()]
    path = folder / "wye.toml"
    path.write_text("\n".join(["[arms.far]", *lines]), encoding="utf-8")
    (arm,) = read_arms(path, ["docs"], 5.0)["docs"]
    arm.config.use(encode)
    return arm


def ask(arm: RemoteArm, question: str, filter_: object | None = None, k: int = 4) -> ArmCall:
    async def once() -> ArmCall:
        try:
            if filter_ is not None:
                arm.check_filter()
            return await arm.search(question, k, filter_, 20.0)
        finally:
            await arm.close()

    return asyncio.run(once())


def passing(filter_: object) -> set[str]:
    mask = parse_filter(filter_).mask(Columns([row[3] for row in ROWS]))
    return {row[0] for row, passes in zip(ROWS, mask, strict=True) if passes}


def compared(kind: str, key: str, value: object) -> dict[str, Any]:
    return {"type": kind, "key": key, "value": value}


FILTERS: list[dict[str, Any]] = [
    *(compared(kind, "year", 1566) for kind in ("eq", "ne", "gt", "gte", "lt", "lte")),
    *(compared(kind, "kind", "river") for kind in ("eq", "ne")),
    compared("in", "year", [845, 1894]),
    compared("nin", "year", [845, 1894]),
    compared("in", "kind", ["town", "river"]),
    {
        "type": "or",
        "filters": [
            compared("eq", "kind", "river"),
            {
                "type": "and",
                "filters": [compared("gt", "year", 1000), compared("ne", "kind", "river")],
            },
        ],
    },
]
OF_TEXTS = [compared("gt", "kind", "bridge"), compared("lte", "kind", "river")]
