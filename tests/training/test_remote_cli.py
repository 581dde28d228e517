"""`wye train` and `wye tune` on remote arms: told, asked for, kept, and learned from."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import inside
from tests.service.arms.fakes import Remote
from tests.training.remote_town import BRIDGES, question, write_arms, write_corpus, write_dataset
from wye.service.app import build
from wye.service.cli import run
from wye.service.settings import ServiceSettings


@pytest.fixture
def dear() -> Iterator[Remote]:
    made = Remote()
    yield made
    made.close()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("town")
    assert run(["index", str(write_corpus(folder)), "--index", str(folder / "index")]) == 0
    return folder / "index"


@pytest.fixture
def town(tmp_path: Path, index: Path, dear: Remote, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a command over the index and the arm."""
    monkeypatch.chdir(tmp_path)
    arms = write_arms(tmp_path, dear)
    data = write_dataset(tmp_path / "town")
    cache = index.parent / "cache"
    shutil.rmtree(cache / "remote", ignore_errors=True)  # what the index replies is kept
    options = ["--questions", str(data), "--arms", str(arms), "--index", str(index)]
    return [*options, "--cache", str(cache)]


def test_a_router_is_learned_and_serves_the_same_arms(
    town: list[str],
    index: Path,
    dear: Remote,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(["train", *town, "--yes", "--no-elsewhere", "--name", "town"])
    told = capsys.readouterr()
    assert code in {0, 1}, told.err
    assert "'dear' 60 questions: that costs 1.2." in told.err
    assert "A price of 0.02 counts as 2000 ms" in told.err
    assert len(dear.asked) == BRIDGES
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

    asked = len(dear.asked)
    assert run(["train", *town, "--no-elsewhere", "--latency-weight", "0"]) in {0, 1}
    assert len(dear.asked) == asked  # all is kept, and costs nothing


@pytest.mark.parametrize(("price", "told"), [(0.02, "costs 1.2"), (0.0, "has no known price")])
def test_nobody_to_be_asked_agrees_to_nothing(
    town: list[str],
    dear: Remote,
    capsys: pytest.CaptureFixture[str],
    price: float,
    told: str,
) -> None:
    write_arms(Path(), dear, price=price)
    assert run(["train", *town]) == 2
    err = capsys.readouterr().err
    assert f"'dear' 60 questions: that {told}." in err
    assert "agree with --yes" in err
    assert dear.asked == []


def test_what_fails_is_not_learned_from_and_asked_again(
    town: list[str], dear: Remote, capsys: pytest.CaptureFixture[str]
) -> None:
    dear.modes = [500, "garbled"] * 3
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    told = capsys.readouterr().err
    assert "6 questions got no answer: 'dear'" in told
    assert len(dear.asked) == BRIDGES
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    assert "'dear' 6 questions" in capsys.readouterr().err
    assert len(dear.asked) == BRIDGES + 6


def test_a_run_that_is_killed_goes_on_where_it_was(
    town: list[str], dear: Remote, tmp_path: Path
) -> None:
    program = "import sys; from wye.service.cli import run; sys.exit(run(sys.argv[1:]))"
    dear.mode, dear.seconds = "slow", 0.5
    options = ["train", *town, "--yes"]
    command = [sys.executable, "-c", program, *options]
    running = subprocess.Popen(command, cwd=tmp_path, env={**os.environ}, stderr=subprocess.PIPE)
    kept = Path(town[-1]) / "remote" / "answers.jsonl"
    try:
        patience = time.monotonic() + 60
        while not kept.is_file() or kept.read_bytes().count(b"\n") < 5:
            assert time.monotonic() < patience
            time.sleep(0.02)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    time.sleep(1)  # for what was sent before the kill to arrive
    done = kept.read_bytes().count(b"\n")
    with kept.open("ab") as file:
        file.write(b'{"key": "half a li')
    before = len(dear.asked)
    assert before - done <= 16  # what was under way
    dear.mode = "ok"
    assert run(["train", *town, "--yes", "--no-elsewhere"]) in {0, 1}
    assert len(dear.asked) - before == BRIDGES - done


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["train"], "Give --questions"),
        (["train", "--questions", "town"], "Which index answers"),
        (["train", "--questions", "town", "--index", "none", "--arms", "no.toml"], "cannot be"),
    ],
)
def test_what_cannot_be_is_said(
    town: list[str], command: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 2
    assert says in capsys.readouterr().err
