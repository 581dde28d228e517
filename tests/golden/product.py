"""The only place where the golden test imports the product.

All else here uses HTTP, the command line, or files that these wrote. If the app moves, only the
import below changes. The command is found through pyproject.toml.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from fastapi import FastAPI
from starlette.testclient import TestClient

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "service" / "demo"
SETTINGS = ROOT / "docs" / "reference" / "settings.md"

# The default takes bfloat16 on some processors and float32 on others; this is float32 on all. The
# long deadline is there because a slow machine must not change an answer.
ENVIRONMENT = {
    "WYE_ANALYSER__ENCODER__DTYPE": "float32",
    "WYE_SERVE__DEADLINE_MS": "60000",
}

_PATIENCE = 120.0
# Runs the command several times in one process, since loading it is most of what it takes.
_PROGRAM = """
import contextlib, io, json, sys
import backends.store.ingest
from {module} import {function} as main
# How many versions there are must not depend on how busy the machine is.
backends.store.ingest.COMMIT_SECONDS = float("inf")
printed = []
for words in json.loads(sys.stdin.read()):
    sys.argv = ["wye", *words]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as end:
            # A router that is no better than fusion is written all the same.
            if end.code and (words[0], end.code) != ("train", 1):
                sys.exit(f"{{words}} ended with {{end.code}}")
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def environment(**more: str) -> dict[str, str]:
    """The environment of this process without its settings of Wye.

    Each process gets one thread, since several tests run at once.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("WYE_")}
    return {"OMP_NUM_THREADS": "1", **own, **ENVIRONMENT, **more, "PYTHONPATH": str(ROOT)}


def wye(folder: Path, *commands: Sequence[str]) -> list[str]:
    """Run `wye` commands in a folder; returns what each printed.

    Raises:
        RuntimeError: One of them failed.
    """
    script = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, function = script["wye"].split(":")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(module=module, function=function)],
        cwd=folder,
        env=environment(),
        input=json.dumps([list(words) for words in commands]),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{done.stdout}\n{done.stderr}")
    printed: list[str] = json.loads(done.stdout.splitlines()[-1])
    return printed


def app(index: Path) -> FastAPI:
    """The app over one index, as `wye serve` runs it."""
    with patch.dict(os.environ, environment(WYE_INDEX=str(index)), clear=True):
        from service.app import from_environment  # noqa: PLC0415 - imports take seconds

        return from_environment()


@contextmanager
def served(index: Path) -> Iterator[TestClient]:
    """A client of the app, once it is ready."""
    with TestClient(app(index), base_url="http://localhost") as client:
        give_up = time.monotonic() + _PATIENCE
        while client.get("/ready").status_code != 200:
            if time.monotonic() > give_up:
                raise RuntimeError("The app did not become ready.")
            time.sleep(0.05)
        yield client
