"""How every benchmark prints: a header that says what was measured where, then a table."""

import argparse
import platform
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil

_LIBRARIES = ("numpy", "scipy", "faiss-cpu", "pylance", "torch", "spacy")
_CPUINFO = Path("/proc/cpuinfo")


def parser(description: str | None) -> argparse.ArgumentParser:
    """An argument parser with what every benchmark takes: --seed.

    Args:
        description: The module's docstring; its first line is shown.
    """
    made = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    made.add_argument("--seed", type=int, default=0, help="of everything that is drawn at random")
    return made


def print_header(title: str, *, seed: int | None, data: str) -> None:
    """Print machine, commit, seed and data: without them a number means nothing.

    Args:
        title: What is measured.
        seed: Of everything drawn at random; None when nothing is.
        data: Which data, and how much of it.
    """
    print(f"# {title}")
    for name, value in header(seed=seed, data=data).items():
        print(f"# {name:<9}{value}")
    print(flush=True)


def header(*, seed: int | None, data: str) -> dict[str, str]:
    """What `print_header` prints, by name."""
    memory = psutil.virtual_memory().total / 2**30
    return {
        "machine": f"{_processor()}, {psutil.cpu_count()} cores, {memory:.0f} GiB",
        "software": f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
        "commit": commit(),
        "seed": "none" if seed is None else str(seed),
        "data": data,
    }


def commit() -> str:
    """The commit that runs, marked when files differ from it."""
    found = _git("rev-parse", "--short=12", "HEAD")
    if not found:
        return "not a git checkout"
    return found + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


class Table:
    """A table that is printed row by row, so that a long benchmark shows what it has.

    Args:
        columns: Names; the first column is aligned left, the others right.
        width: Of the first column; the others are as wide as their name, and at least 9.
    """

    def __init__(self, columns: Sequence[str], width: int = 24) -> None:
        self._widths = [width, *(max(9, len(name)) for name in columns[1:])]
        self._print(columns)
        self._print(["-" * wide for wide in self._widths])

    def row(self, *cells: str | float) -> None:
        """Print a row; a float gets a number of decimals that suits its size.

        Raises:
            ValueError: There are more or fewer cells than columns.
        """
        if len(cells) != len(self._widths):
            raise ValueError(f"{len(cells)} cells in a table of {len(self._widths)} columns.")
        self._print([cell if isinstance(cell, str) else number(cell) for cell in cells])

    def _print(self, cells: Sequence[str]) -> None:
        first, *others = zip(cells, self._widths, strict=True)
        aligned = [first[0].ljust(first[1]), *(cell.rjust(wide) for cell, wide in others)]
        print("  ".join(aligned).rstrip(), flush=True)


def number(value: float) -> str:
    """A number with thousands separated, and about three digits of a small one; "-" for NaN."""
    if np.isnan(value):
        return "-"
    if isinstance(value, int | np.integer) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.3f}"


def timed(call: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def percentiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    """p50, p95 and p99 in milliseconds."""
    p50, p95, p99 = np.percentile(np.asarray(seconds) * 1e3, [50, 95, 99])
    return float(p50), float(p95), float(p99)


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def folder_bytes(folder: Path) -> int:
    """Size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _processor() -> str:
    """The processor's name; `platform` does not know it on Linux."""
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
