"""Every command of the README is run, as it stands there, and prints what it is said to print."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cli import run
from tests.docs.conftest import ADDRESS, Curl
from tests.docs.examples import DOCUMENTS, ROOT, Block, Command, blocks
from tests.live import Live

README = blocks("README.md", (ROOT / "README.md").read_text(encoding="utf-8"))


def commands(runner: str) -> list[Command]:
    return [
        command
        for block in README
        if block.language == "console" and runner_of(block) == runner
        for command in block.commands
    ]


def runner_of(block: Block) -> str:
    """Which test runs a block of commands."""
    programs = {command.words[0] for command in block.commands}
    if programs == {"make"}:
        return "make"
    assert programs <= {"wye", "curl"}, f"{block.place}: nothing here knows how to run {programs}"
    # They take judged questions by the hundred, for which tests/training has a small town:
    # test_readme.py for the first, log_replay/test_feedback.py for a server's log.
    offline = {"train", "tune"} & {command.words[1] for command in block.commands}
    return "training" if offline else "here"


def test_every_block_of_every_document_is_run() -> None:
    known = {"console", "python"}
    assert [block.place for block in README if block.language not in known] == []
    others = [path for path in DOCUMENTS if path != ROOT / "README.md"]
    for path in others:
        found = blocks(str(path), path.read_text(encoding="utf-8"))
        assert found == [], f"{path} has a block; run it here, as those of README.md are."
    assert {runner_of(block) for block in README if block.language == "console"} == {
        "make",
        "training",
        "here",
    }


@pytest.mark.parametrize("command", commands("make"), ids=lambda command: command.text)
def test_make_knows_the_targets(command: Command) -> None:
    done = subprocess.run(
        [*command.words, "--dry-run"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


def test_the_commands_do_what_is_said(
    folder: Path, curl: Curl, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    servers: list[Live] = []
    try:
        for command in commands("here"):
            if command.words[:2] == ["wye", "serve"]:
                servers.append(Live(command.words[1:], folder=folder))
            elif command.words[0] == "curl":
                assert json.loads(curl(command, servers[-1].url))["passages"], command
            else:
                printed = wye(command, folder, capsys, monkeypatch)
                assert is_part_of(" ".join(command.output), printed), (command, printed)
        assert servers
        for block in README:
            if block.language == "python":
                assert python(block, servers[-1].url).strip(), block
    finally:
        codes = [server.stop() for server in servers]
    assert codes == [0] * len(servers)


def wye(
    command: Command,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Run a command in this process; what it prints."""
    with monkeypatch.context() as patched:
        for name, value in command.variables.items():
            patched.setenv(name, value)
        code = run(command.expanded(folder)[1:])
    captured = capsys.readouterr()
    assert code == 0, (command, captured.err)
    return captured.out


def python(block: Block, url: str) -> str:
    """Run a program that asks a server; what it prints."""
    program = block.text.replace(f"http://{ADDRESS}", url)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, (block.place, done.stderr)
    return done.stdout


def is_part_of(said: str, printed: str) -> bool:
    """Whether all words are printed, in order; numbers may be off by a little.

    Encoders differ in the last digits from one processor to another.
    """
    words = iter(words_of(printed))
    return all(any(are_alike(word, other) for other in words) for word in words_of(said))


def words_of(text: str) -> Iterator[str]:
    return (word for word in text.split() if not re.fullmatch("─+", word))


def are_alike(said: str, printed: str) -> bool:
    number = re.compile(r"-?\d*\.\d+")
    if number.fullmatch(said) and number.fullmatch(printed):
        return abs(float(said) - float(printed)) < 0.02
    return said == printed


def test_what_is_compared() -> None:
    assert is_part_of("1 0.4902 River Dee", "1 0.4899 River Dee river-dee")
    assert not is_part_of("1 0.4902 River Dee", "1 0.4302 River Dee")
    assert not is_part_of("Dee River", "River Dee")
    assert is_part_of("a ─── b", "a ───── b c")
