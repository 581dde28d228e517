"""How golden files are written and read: the same values give the same bytes."""

import gzip
import json
from pathlib import Path

FOLDER = Path(__file__).parent / "frozen"
_DIGITS = 7


def write(name: str, value: object, folder: Path = FOLDER) -> None:
    """Write a value as JSON; a name that ends in .gz is compressed, without a date."""
    large = name.endswith(".gz")
    text = json.dumps(
        rounded(value),
        ensure_ascii=False,
        allow_nan=False,
        sort_keys=True,
        indent=None if large else 1,
        separators=(",", ":") if large else None,
    )
    if "out of time" in text:
        raise SystemExit(f"{name} has a reply that was out of time. Freeze on a quiet machine.")
    data = f"{text}\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(gzip.compress(data, 9, mtime=0) if large else data)


def read(name: str, folder: Path = FOLDER) -> object:
    data = (folder / name).read_bytes()
    value: object = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    return value


def rounded(value: object) -> object:
    """Floats with so many digits that rounding is far below the tolerance."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return value
