"""Every block of README and docs is run as it stands there, and prints what it is said to."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.docs.conftest import Curl
from tests.docs.examples import ADDRESS, DOCUMENTS, GUIDES, ROOT, Block, Command, blocks, python
from tests.fakes import speaking
from tests.live import Live
from wye.service.arms.file import FILE
from wye.service.cli import build, run


def runner_of(block: Block) -> str:
    programs = {command.words[0] for command in block.commands}
    if programs == {"make"}:
        return "make"
    assert programs <= {"wye", "curl", "python"}, (
        f"{block.place}: nothing here knows how to run {programs}"
    )
    if block.place.startswith("docs/first-hour.md"):
        return "here"  # it has asked what it tunes on
    # They take judged questions by the hundred, for which tests/training has a small town.
    offline = {"train"} & {command.words[1] for command in block.commands}
    return "training" if offline else "here"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks_of(path: Path) -> list[Block]:
    return blocks(name_of(path), path.read_text(encoding="utf-8"))


def test_every_block_of_every_document_is_run() -> None:
    for path in DOCUMENTS:
        found = blocks_of(path)
        if path in GUIDES:
            other = [
                one.place for one in found if one.language not in {"console", "python", "toml"}
            ]
            assert other == []
        else:
            assert found == [], f"{path} has a block, and nothing runs it."
    assert {runner_of(block) for block in CONSOLE} == {"make", "training", "here"}


CONSOLE = [one for path in GUIDES for one in blocks_of(path) if one.language == "console"]
MAKE = [command for one in CONSOLE if runner_of(one) == "make" for command in one.commands]


@pytest.mark.parametrize("command", MAKE, ids=lambda command: command.text)
def test_make_knows_the_targets(command: Command) -> None:
    done = subprocess.run(
        [*command.words, "--dry-run"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


@pytest.mark.parametrize("path", [path for path in GUIDES if blocks_of(path)], ids=name_of)
def test_the_commands_do_what_is_said(
    path: Path,
    folder: Path,
    curl: Curl,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every block from the first to the last; a server that a block starts serves those below.

    What stands there as TOML is the file of remote arms for the servers below it.
    """
    monkeypatch.chdir(folder)
    servers: list[Live] = []
    ports: dict[str, str] = {}
    arms = folder / FILE
    try:
        for block in blocks_of(path):
            if block.language == "python":
                url = servers[-1].url if ADDRESS in block.text else ""
                assert python(block, url, folder).strip(), block
                continue
            if block.language == "toml":
                arms.write_text(block.text, encoding="utf-8")
                continue
            for command in block.commands if runner_of(block) == "here" else ():
                if command.words[:2] == ["wye", "serve"]:
                    servers.append(served(command, folder, ports))
                elif command.words[0] == "curl":
                    reply = json.loads(curl(command, servers[-1].url))
                    assert "/v1/retrieve" not in command.text or reply["passages"], command
                elif command.words[0] == "python":
                    script(command, folder)
                else:
                    printed = wye(command, folder, capsys, monkeypatch)
                    assert is_part_of(" ".join(command.output), printed), (command, printed)
    finally:
        codes = [server.stop() for server in servers]
        arms.unlink(missing_ok=True)
    assert codes == [0] * len(servers)


def served(command: Command, folder: Path, ports: dict[str, str]) -> Live:
    """A server on a port of its own; `ports` has that of each that the document names."""
    words, named = command.words[1:], ""
    if "--port" in words:
        at = words.index("--port")
        named = words[at + 1]
        del words[at : at + 2]
    variables = dict(command.variables)
    for said, port in ports.items():
        variables = {name: text.replace(f":{said}", f":{port}") for name, text in variables.items()}
    server = Live(words, variables, folder=folder)
    if named:
        ports[named] = server.url.rpartition(":")[2]
    return server


# They serve, take judged questions by the hundred, or ask others; others test them.
LONG = {"serve", "mcp", "demo", "eval", "train"}


def examples_of_help() -> Iterator[Command]:
    """What every `--help` ends with, in the order in which the commands are listed."""

    def inside(name: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
        yield name, command
        for word, own in getattr(command, "commands", {}).items():
            yield from inside(f"{name} {word}", own)

    for name, command in inside("wye", get_command(build()[0])):
        if not hasattr(command, "commands"):
            yield Command(f"{name} --help", command.epilog.removeprefix("Example: "))


def test_the_examples_of_every_help_do_what_they_say(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "keys.txt").unlink(missing_ok=True)  # the guide to serving makes the same key
    examples = [*examples_of_help()]
    assert {*LONG, "index", "new"} <= {one.place.split()[-2] for one in examples}
    for command in examples:
        if command.words[1] not in LONG:
            assert wye(command, folder, capsys, monkeypatch), command


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


def script(command: Command, folder: Path) -> None:
    """Run an example as a shell does, with a model that calls a passage's first sentence a unit."""

    def first(_: str, passage: str) -> str:
        return json.dumps({"units": [passage.partition(". ")[2].partition(". ")[0]]})

    with speaking(first) as model:
        text = command.text.replace(command.variables["WYE_GENERATOR__URL"], model.url)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
        subprocess.run(["bash", "-c", text], cwd=folder, env=environment, check=True)


def is_part_of(said: str, printed: str) -> bool:
    """Whether all words are printed, in order; numbers and ranks from 10 may be off by a little.

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
    ranks = [word[:-1] for word in (said, printed) if re.fullmatch(r"\d\d[,)]", word)]
    far = len(ranks) == 2 and abs(int(ranks[0]) - int(ranks[1])) < 3
    return said == printed or (far and said[-1] == printed[-1])


def test_what_is_compared() -> None:
    assert is_part_of("1 0.4902 River Dee", "1 0.4899 River Dee river-dee")
    assert not is_part_of("1 0.4902 River Dee", "1 0.4302 River Dee")
    assert not is_part_of("Dee River", "River Dee")
    assert is_part_of("a ─── b", "a ───── b c")
