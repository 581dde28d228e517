"""`wye train` on remote arms: told, asked for, kept, and learned from."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import Wye
from tests.live import inside, until
from tests.service.arms.fakes import Remote, arms_file, table
from tests.training.made import write_dataset
from wye.service.app import build
from wye.service.cli import run
from wye.service.settings import ServiceSettings

BRIDGES = 60
Hit = dict[str, Any]


def question(number: int) -> str:
    """Every second question names the passage that answers it."""
    if number % 2:
        return f"Where was the maker of the bridge Pons{number} born?"
    return f"Who is Maker{number}?"


def bridge(number: int) -> Hit:
    return {"key": f"bridge{number}", "name": f"Pons{number}", "body": f"Pons{number} is long."}


def maker(number: int) -> Hit:
    return {"key": f"maker{number}", "name": f"Maker{number}", "body": f"Maker{number}, born here."}


def graph(asked: Any) -> Any:  # noqa: ANN401 - JSON
    """What the server of others replies: it finds what is meant, and text search what is named."""
    number = next(n for n in range(BRIDGES) if question(n) == asked["q"])
    first = maker(number) if number % 2 else bridge(number)
    return {"found": {"hits": [first, *map(bridge, range(number + 1, number + 4))]}}


def write_arms(folder: Path, remote: Remote, *, price: float = 0.02) -> Path:
    remote.reply = graph
    options = {"price": price, "same_ids": True, "timeout_ms": 2000}
    return arms_file(folder, table(remote.url, "dear", **options))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = [one(number) for number in range(BRIDGES) for one in (bridge, maker)]
    wanted = {"train": {0, 1, 2}, "dev": {3}, "test": {4}}
    judged = {
        split: [f"q{n}\tmaker{n}\t1" for n in range(BRIDGES) if n // 2 % 5 in own]
        for split, own in wanted.items()
    }
    return write_dataset(
        tmp_path_factory.mktemp("data") / "town",
        [(hit["key"], hit["name"], hit["body"]) for hit in found],
        [(f"q{number}", question(number)) for number in range(BRIDGES)],
        judged,
    )


@pytest.fixture(scope="module")
def index(data: Path) -> Path:
    assert run(["index", str(data), "--index", str(data.parent / "index")]) == 0
    return data.parent / "index"


@pytest.fixture
def town(
    tmp_path: Path, data: Path, index: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Options of a command over the index and the arm."""
    monkeypatch.chdir(tmp_path)
    arms = write_arms(tmp_path, remote)
    (tmp_path / "town").symlink_to(data)
    cache = index.parent / "cache"
    shutil.rmtree(cache / "remote", ignore_errors=True)  # what the index replies is kept
    options = ["--questions", str(data), "--arms", str(arms), "--index", str(index)]
    return [*options, "--cache", str(cache)]


def test_a_router_is_learned_and_serves_the_same_arms(
    town: list[str], index: Path, remote: Remote, tmp_path: Path, wye: Wye
) -> None:
    code, _, err = wye("train", *town, "--yes", "--no-elsewhere", "--name", "town")
    assert code in {0, 1}, err
    assert "'dear' 60 questions: that costs 1.2." in err
    assert "A price of 0.02 counts as 2000 ms" in err
    assert len(remote.asked) == BRIDGES
    folder = tmp_path / "models" / "town" / "v1"
    settings = ServiceSettings(
        index=index,
        arms=tmp_path / "wye.toml",
        router={"model": str(folder)},  # type: ignore[arg-type]
    )
    with inside(build(settings)) as client:
        taken = [
            client.post("/v1/retrieve", json={"question": question(number)}).json()["route"]["path"]
            for number in range(20)
        ]
    assert [one == "fusion" for one in taken] == [bool(number % 2) for number in range(20)]

    asked = len(remote.asked)
    assert wye("train", *town, "--no-elsewhere", "--latency-weight", "0")[0] in {0, 1}
    assert len(remote.asked) == asked  # all is kept, and costs nothing


@pytest.mark.parametrize(("price", "told"), [(0.02, "costs 1.2"), (0.0, "has no known price")])
def test_nobody_to_be_asked_agrees_to_nothing(
    town: list[str], remote: Remote, wye: Wye, price: float, told: str
) -> None:
    write_arms(Path(), remote, price=price)
    code, _, err = wye("train", *town)
    assert code == 2
    assert f"'dear' 60 questions: that {told}." in err
    assert "agree with --yes" in err
    assert remote.asked == []


def test_failures_teach_nothing_and_are_retried(town: list[str], remote: Remote, wye: Wye) -> None:
    remote.modes = [500, "garbled"] * 3
    code, _, err = wye("train", *town, "--yes", "--no-elsewhere")
    assert (code in {0, 1}, "6 questions got no answer: 'dear'" in err) == (True, True)
    assert len(remote.asked) == BRIDGES
    code, _, err = wye("train", *town, "--yes", "--no-elsewhere")
    assert (code in {0, 1}, "'dear' 6 questions" in err) == (True, True)
    assert len(remote.asked) == BRIDGES + 6


def test_a_killed_run_goes_on_where_it_was(town: list[str], remote: Remote, tmp_path: Path) -> None:
    program = "import sys; from wye.service.cli import run; sys.exit(run(sys.argv[1:]))"
    remote.mode, remote.seconds = "slow", 0.5
    options = ["train", *town, "--yes"]
    command = [sys.executable, "-c", program, *options]
    running = subprocess.Popen(command, cwd=tmp_path, env={**os.environ}, stderr=subprocess.PIPE)
    kept = Path(town[-1]) / "remote" / "answers.jsonl"
    try:
        until(lambda: kept.is_file() and kept.read_bytes().count(b"\n") >= 5)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    time.sleep(1)  # for what was sent before the kill to arrive
    done = kept.read_bytes().count(b"\n")
    with kept.open("ab") as file:
        file.write(b'{"key": "half a li')
    before = len(remote.asked)
    assert before - done <= 16  # what was under way
    remote.mode = "ok"
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    assert len(remote.asked) - before == BRIDGES - done


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["train"], "Give --questions"),
        (["train", "--questions", "town"], "Which index answers"),
        (["train", "--questions", "town", "--index", "none", "--arms", "no.toml"], "cannot be"),
    ],
)
def test_what_cannot_be_is_said(town: list[str], command: list[str], says: str, wye: Wye) -> None:
    code, _, err = wye(*command)
    assert (code, says in err) == (2, True)
