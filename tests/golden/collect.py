"""Collects what is frozen: each collector runs the product and returns golden files by name.

    python -m tests.golden.collect COLLECTOR INDEX FOLDER

runs one of them over an index of the demo corpus and writes its files to a folder. Values that
differ between runs are replaced by LEFT_OUT, so that it still shows if one is missing.
"""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file
from starlette.testclient import TestClient

from tests.golden import product
from tests.golden.product import (
    COMPRESSED,
    DEMO,
    SETTINGS,
    app,
    as_if_large,
    entering,
    served,
    solve_thresholds,
    wye,
)
from tests.golden.store import write

QUESTIONS = Path(__file__).parent / "questions.jsonl"
WRITES = Path(__file__).parent / "writes.jsonl"
UNTIMED = "--latency-weight 0"
"""Without this, thresholds would depend on latencies, and so on the machine's load."""
ROUTES = ("auto", "dense", "lexical", "graph", "hybrid", "fusion", "steps")
LEFT_OUT = "(left out)"
_INVERSE = "familiarity.precision"
AS_IN_CORPUS = "(as in the corpus)"
DESCRIBED = 20

# Request ids are random, and these are wall times or dates.
_VOLATILE = ("request_id", "created", "created_at")
_BY_TIES = (
    *("auc", "count", "score", "outcome", "ece", "cross_fitted"),
    *("paper wRRF", "solutions", "notes"),
)
"""Of a router that is fitted on few questions: where scores tie, the last bits decide, which differ
between processors."""
_TIMES = (
    *("timings_ms", "latency", "latency_ms", "mean_ms", "p95_ms", "p50_ms", "p99_ms"),
    *("seconds", "stages_ms", "versions"),
)
Files = Mapping[str, object]


def read_questions() -> list[dict[str, str]]:
    return [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]


def index_demo(folder: Path) -> Path:
    wye(folder, ("index", str(DEMO / "corpus.jsonl"), "--index", "index"))
    return folder / "index"


def masked(
    value: Any,  # noqa: ANN401
    keys: Sequence[str] = (*_VOLATILE, *_TIMES),
    whole: Sequence[str] = (),
) -> Any:  # noqa: ANN401
    """Replace all numbers and texts below these keys by LEFT_OUT, and these whole values."""
    if isinstance(value, dict):
        pairs = ((key, masked(item, keys, whole)) for key, item in value.items() if key not in keys)
        blank = {key: _blank(item) for key, item in value.items() if key in keys}
        return blank | dict(pairs) | {key: LEFT_OUT for key in value if key in whole}
    return [masked(item, keys, whole) for item in value] if isinstance(value, list) else value


def _blank(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return value if value is None else LEFT_OUT


class Asked:
    """A client whose replies are without volatile values and without the corpus's own texts."""

    def __init__(self, client: TestClient) -> None:
        lines = (DEMO / "corpus.jsonl").read_text("utf-8").splitlines()
        self._corpus = {row["_id"]: row for row in map(json.loads, lines)}
        self._client = client

    def post(self, path: str, body: object) -> dict[str, Any]:
        return self.send("POST", path, body)

    def send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        reply = self._client.request(method, path, json=body)
        value = masked(reply.json())
        own = reply.headers.get("x-request-id", "")
        text = json.dumps(value)
        value = json.loads(text.replace(own, LEFT_OUT) if own else text)
        return {"status": reply.status_code, "body": self._shortened(value)}

    def _shortened(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, list):
            return [self._shortened(item) for item in value]
        if not isinstance(value, dict):
            return value
        short = {key: self._shortened(item) for key, item in value.items()}
        row = self._corpus.get(str(value.get("id")), {})
        for key in ("title", "text", "metadata"):
            if key in value and value[key] == row.get(key):
                short[key] = AS_IN_CORPUS
        return short


def answers(index: Path) -> Files:
    """Replies to every question over every route, and to requests of other kinds."""
    questions = read_questions()
    with served(index) as client:
        asked = Asked(client)
        found = {
            row["id"]: {
                route: asked.post(
                    "/v1/retrieve", {"question": row["text"], "route": route, "explain": True}
                )
                for route in ROUTES
            }
            for row in questions
        }
        others = {
            name: {"path": path, "asked": body, "reply": asked.post(path, body)}
            for name, path, body in requests(questions)
        }
    return {"answers.json.gz": found, "requests.json.gz": others}


def large(index: Path) -> Files:
    """Replies over an index that counts as large, and was written to since its base was derived.

    It has the demo's passages, since it matters which code runs and not how large the index is.
    """
    writes = [json.loads(line) for line in WRITES.read_text("utf-8").splitlines()]
    questions = [*read_questions()[::6], *_about(writes)]
    with _workplace(index) as folder, as_if_large(), entering():
        own = Path(folder) / "index"
        with served(own, **COMPRESSED) as client:
            asked = Asked(client)
            written = [asked.send(row["method"], row["path"], row.get("body")) for row in writes]
        # Opened again, from derived files.
        with served(own, **COMPRESSED) as client:
            asked = Asked(client)
            found = {}
            for number, row in enumerate(questions):
                body = {"question": row["text"], "explain": number % 4 == 0}
                found[row["id"]] = {
                    route: asked.post("/v1/retrieve", {**body, "route": route, **_filtered(number)})
                    for route in ROUTES
                }
    # How many commits a write takes, and so the version's number, may change.
    return {
        "large.json.gz": masked(
            {"written": written, "answers": found}, ("version", "index_version", "row")
        )
    }


def _filtered(number: int) -> dict[str, Any]:
    """A filter for every third question: one that few passages pass, or one that most do."""
    filters = [{"type": "lt", "key": "year", "value": 1900}]
    filters += [{"type": "ne", "key": "topic", "value": "opera"}]
    return {"filter": filters[number // 3 % 2]} if number % 3 == 2 else {}


def _about(writes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [
        {"id": f"{row['method']} {row['path']}", "text": row["question"]}
        for row in writes
        if "question" in row
    ]


def requests(questions: Sequence[Mapping[str, str]]) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, address and body: filters, numbers of passages, answers, and mistakes."""
    opens = "Which bridge opened first?"
    sea = "Into which sea does the river beneath the Old Bridge of Mostar flow?"
    year = {"type": "lt", "key": "year", "value": 1850}
    bridges = {"type": "eq", "key": "topic", "value": "bridges"}
    both = {"type": "and", "filters": [year, bridges]}
    filters = {
        "lt": year,
        "eq": bridges,
        "ne": {**bridges, "type": "ne"},
        "in": {"type": "in", "key": "topic", "value": ["opera", "railways"]},
        "nin": {"type": "nin", "key": "topic", "value": ["opera", "railways"]},
        "gte": {"type": "gte", "key": "year", "value": 1957},
        "and": both,
        "or": {"type": "or", "filters": [both, {"type": "gt", "key": "year", "value": 2000}]},
        "nothing": {"type": "eq", "key": "topic", "value": "cookery"},
        "unknown key": {"type": "eq", "key": "colour", "value": "red"},
    }
    made: list[tuple[str, str, dict[str, Any]]] = []

    def ask(name: str, path: str, **body: Any) -> None:  # noqa: ANN401
        made.append((name, f"/v1/{path}", body))

    for name, one in filters.items():
        for route in ROUTES:
            body = {"question": opens, "route": route, "filter": one, "explain": True}
            ask(f"filter {name}, {route}", "retrieve", **body)
    for route in ROUTES:
        for k in (1, 50, 100):
            ask(f"k {k}, {route}", "retrieve", question=sea, route=route, k=k)
        ask(
            f"k 100 of fewer, {route}", "retrieve", question=sea, route=route, k=100, filter=bridges
        )
        ask(f"answer, {route}", "answer", question=sea, route=route)
        ask(f"not explained, {route}", "retrieve", question=opens, route=route)
    for row in questions[::10]:
        ask(f"answer {row['id']}", "answer", question=row["text"])
        ask(f"route {row['id']}", "route", question=row["text"])
    ask("vector store", "vector_stores/default/search", query=sea, max_num_results=3)
    talk = [{"role": "user", "content": "Who built La Scala?"}]
    ask("chat", "chat/completions", model="wye-auto", messages=talk)
    ask("blank", "retrieve", question=" ")
    ask("too long", "retrieve", question="why " * 1100)
    ask("no passages", "retrieve", question=sea, k=0)
    ask("too many passages", "retrieve", question=sea, k=101)
    ask("no such route", "retrieve", question=sea, route="sideways")
    ask("misspelt", "retrieve", question=sea, rout="dense")
    ask("no such filter", "retrieve", question=sea, filter={"type": "like", "key": "topic"})
    ask("no such collection", "retrieve", question=sea, collection="elsewhere")
    return made


def openapi(index: Path) -> Files:
    reply = TestClient(app(index), base_url="http://localhost").get("/openapi.json")
    return {"openapi.json.gz": reply.json()}


def evaluation(index: Path) -> Files:
    with _workplace(index) as folder:
        words = f"eval demo --index index --routes {','.join(ROUTES)} --json"
        (printed,) = wye(Path(folder), words.split())
        return {"eval.json.gz": masked(json.loads(printed))}


def training(index: Path) -> Files:
    """A thresholds file for the router that ships."""
    with _workplace(index) as name:
        path = Path(name) / "bound.json"
        solve_thresholds(path.parent, path.name)
        return {"thresholds.json": {path.name: masked(_json(path))}}


def training_network(index: Path) -> Files:
    """What `wye train` writes, with statistics of its weights."""
    words = "train --questions demo --index index --models models --cache cache --name demo"
    with _workplace(index) as folder:
        wye(Path(folder), f"{words} --simple lexical {UNTIMED}".split())
        return {"train-network.json.gz": _written(Path(folder) / "models/demo/v1")}


def features(index: Path) -> Files:
    """Every syntactic feature of some questions, and the list of features."""
    del index
    rows = read_questions()
    rows = [*rows[: DESCRIBED // 2], *rows[-(DESCRIBED - DESCRIBED // 2) :]]
    listed, described = product.features([row["text"] for row in rows])
    questions = {row["id"]: each for row, each in zip(rows, described, strict=True)}
    return {"features.json.gz": {"listed": listed, "questions": questions}}


def settings(index: Path) -> Files:
    del index
    rows = re.findall(r"^\| `(WYE_\w+)` \| (.*?) \| ", SETTINGS.read_text("utf-8"), re.MULTILINE)
    return {"settings.json": dict(rows)}


COLLECTORS: Mapping[str, Callable[[Path], Files]] = {
    "answers": answers,
    "large": large,
    "features": features,
    "training": training,
    "evaluation": evaluation,
    "openapi": openapi,
    "settings": settings,
    "training_network": training_network,
}
SLOW = ("training_network",)


def _workplace(index: Path) -> "tempfile.TemporaryDirectory[str]":
    """A folder in which the demo corpus and its index always have the same names."""
    made = tempfile.TemporaryDirectory()
    shutil.copytree(index, Path(made.name) / "index")
    shutil.copytree(DEMO, Path(made.name) / "demo")
    return made


def _written(folder: Path) -> dict[str, object]:
    """Files of a router: numbers, the card's lines, a summary of weights; else names only."""
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".json":
            # Digests cover latencies, which are in the thresholds; the front is made of them.
            # Information is estimated from neighbours, and bins of equal width have edges: the last
            # bits decide.
            keys = (*_TIMES, "digest", "files", "information", "width")
            found[name] = masked(_json(path), keys, _BY_TIES)
        elif path.suffix == ".safetensors":
            found[name] = _weights(path)
        elif name == "CARD.md":
            lines = path.read_text("utf-8").splitlines()
            rows = tuple(f"| {name} |" for name in _BY_TIES)
            lines = [LEFT_OUT if line.startswith(rows) else line for line in lines]
            found[name] = [re.sub(r"(AUC is|ECE.*?:) [.\d]+", r"\1 #", line) for line in lines]
        else:
            found[name] = LEFT_OUT
    return found


def _weights(path: Path) -> dict[str, object]:
    """Statistics of each tensor, and all of its values if they are few.

    There is no digest, since the last bits differ between processors.
    """
    return {
        name: {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype),
            "sum": float(tensor.astype("float64").sum()),
            "norm": float((tensor.astype("float64") ** 2).sum() ** 0.5),
            # An inverse of covariances magnifies the last bits.
            "values": [] if name == _INVERSE else [float(value) for value in tensor.ravel()[:200]],
        }
        for name, tensor in load_file(path).items()
    }


def _json(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text("utf-8"))


def main(collector: str, index: str, folder: str) -> None:
    for name, value in COLLECTORS[collector](Path(index)).items():
        write(name, value, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
