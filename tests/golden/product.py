"""The only place where the golden test imports the product.

All else here uses HTTP, the command line, or files that these wrote. If the app moves, only the
import below changes. The command is found through pyproject.toml.
"""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from unittest.mock import patch

from fastapi import FastAPI
from starlette.testclient import TestClient

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "service" / "demo"
SETTINGS = ROOT / "docs" / "reference" / "settings.md"

# The default takes bfloat16 on some processors and float32 on others; this is float32 on all. The
# long deadline is there because a slow machine must not change an answer.
ENVIRONMENT = {"WYE_ANALYSER__ENCODER__DTYPE": "float32", "WYE_SERVE__DEADLINE_MS": "60000"}

# With these, an index of the demo corpus is searched as one of a million passages is.
AS_IF_LARGE: Mapping[str, object] = {
    "wye.backends.dense._FETCHED": 2,
    "wye.backends.dense._GATHER_COST": 1,
    "wye.backends.dense._LEAST": 10,
    "wye.backends.store.index.DERIVED_FROM": 1,
    "wye.backends.store.ingest.COMPACT_FROM": 4,
    "wye.backends.store.corpus.LISTED": 0,
    "wye.backends.trigraph.bridging.HUB": 3,
}
COMPRESSED = {"WYE_DENSE__KIND": "compressed", "WYE_GRAPH__CANDIDATES": "20"}
# What must have run then: codes, derived files, and late passages on a derived base.
ONLY_IF_LARGE = (
    "wye.backends.dense:_Codes.nearest",
    "wye.backends.numerics:JoinedRows.of_each",
    "wye.backends.lexical:LexicalRetriever.from_arrays",
    "wye.backends.store.index:Writer.compact",
    "wye.backends.store.corpus:with_late",
    "wye.router.snapshot:stored_corpus",
    "wye.backends.trigraph.graph:TriGraph.from_arrays",
    "wye.router.snapshot:with_late",
    "wye.backends.arrays:Words.find",
    "wye.backends.arrays:Strings.find",
)

_PATIENCE = 120.0
# Runs the command several times in one process, since loading it is most of what it takes.
_PROGRAM = """
import contextlib, io, json, sys
import wye.backends.store.ingest
from {module} import {function} as main
# How many versions there are must not depend on how busy the machine is.
wye.backends.store.ingest.COMMIT_SECONDS = float("inf")
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


def app(index: Path, **more: str) -> FastAPI:
    with patch.dict(os.environ, environment(WYE_INDEX=str(index), **more), clear=True):
        from wye.service.app import build  # noqa: PLC0415 - imports take seconds
        from wye.service.settings import load_settings  # noqa: PLC0415

        return build(load_settings())


def features(questions: Sequence[str]) -> tuple[object, list[object]]:
    """The list of syntactic features, and what each question has of them, as parsed JSON."""
    from wye.backends.files import plain, rounded_json  # noqa: PLC0415
    from wye.featurizer.analyser import open_syntax_parser  # noqa: PLC0415
    from wye.featurizer.plan import plan_by_dependencies  # noqa: PLC0415
    from wye.featurizer.registry import FEATURES, schema_id, syntax_matrix  # noqa: PLC0415
    from wye.router.settings import load_settings  # noqa: PLC0415

    names = ("name", "group", "version")
    listed = [{**{k: getattr(each, k) for k in names}, "meaning": each.doc} for each in FEATURES]
    with patch.dict(os.environ, environment(), clear=True):
        parser = open_syntax_parser(load_settings().analyser)
    described: list[object] = []
    for question, syntax in zip(questions, parser.parse(questions), strict=True):
        spans = [
            (syntax.tokens[start].span[0], syntax.tokens[end - 1].span[1])
            for start, end in syntax.sentences
        ]
        values = zip(FEATURES, syntax_matrix([syntax])[0].tolist(), strict=True)
        value = {
            "question": question,
            "schema_id": schema_id(parser.fingerprint),
            "notes": [],
            "sentences": [
                {"text": question[slice(*span)], "tree": str(tree)}
                for span, tree in zip(spans, syntax.trees, strict=True)
            ],
            "plan": plain(plan_by_dependencies(syntax.tokens, syntax.sentences)),
            "features": [{"name": f.name, "group": f.group, "value": v} for f, v in values],
        }
        described.append(json.loads(rounded_json(value)))
    return listed, described


def solve_thresholds(folder: Path, name: str) -> None:
    """Solve thresholds of the shipped router on the dev split of `demo`, as the notebook does."""
    from wye.router.settings import DEFAULT_ROUTER  # noqa: PLC0415 - imports take seconds
    from wye.training.thresholds import ThresholdObjective, solve  # noqa: PLC0415
    from wye.training.tuning import Tuning, replays_of  # noqa: PLC0415

    with patch.dict(os.environ, environment(WYE_INDEX=str(folder / "index")), clear=True):
        replays = replays_of([str(folder / "demo")], folder)
        tuning = Tuning.load(replays, DEFAULT_ROUTER, cache=folder)
    goal, steps = ThresholdObjective(max_graph_share=0.3), tuning.model.policy.thresholds.steps
    solution = solve(tuning.outcomes, goal, cautious=True)
    tuning.save(folder / name, replace(solution.thresholds, steps=steps))


@contextmanager
def served(index: Path, **more: str) -> Iterator[TestClient]:
    with TestClient(app(index, **more), base_url="http://localhost") as client:
        give_up = time.monotonic() + _PATIENCE
        while client.get("/ready").status_code != 200:
            if time.monotonic() > give_up:
                raise RuntimeError("The app did not become ready.")
            time.sleep(0.05)
        yield client


@contextmanager
def as_if_large() -> Iterator[None]:
    """Let this process treat every index as a large one; `COMPRESSED` is needed too."""
    with ExitStack() as changed:
        for name, value in AS_IF_LARGE.items():
            changed.enter_context(patch(name, value))
        yield


@contextmanager
def entering(functions: Sequence[str] = ONLY_IF_LARGE) -> Iterator[None]:
    """Watch which functions are called where they are named, by any thread.

    No profiler does it: in Python below 3.11.3 a collection in one thread may then read what
    another has freed (gh-101975).

    Raises:
        RuntimeError: One of the functions was not called before the end.
    """
    missing = {*functions}

    def noting(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object, **kwargs: object) -> object:
            missing.discard(name)
            return function(*args, **kwargs)

        return noted

    with ExitStack() as stack:
        for name in functions:
            owner_name, attribute = re.fullmatch(r"(.+)[.:](\w+)", name).groups()  # type: ignore[union-attr]
            owner = resolve_name(owner_name)
            raw = vars(owner)[attribute]
            new = noting(name, getattr(raw, "__func__", raw))
            wrapped = classmethod(new) if isinstance(raw, classmethod) else new
            stack.enter_context(patch.object(owner, attribute, wrapped))
        yield
    if never := sorted(missing):
        raise RuntimeError(f"Never entered: {', '.join(never)}.")
