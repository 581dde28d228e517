"""The budget of lines, on a repository that is made for it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / ".ci" / "budget.py"
MODULE = '''"""A docstring
of two lines."""

LIMIT = 3
"""What it is."""

# A comment.
TEXT = """one

two"""  # code, but for the blank line within


def double(n: int) -> int:
    """Twice as much."""
    return (
        2 * n
    )
'''


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "change")


def check(root: Path) -> tuple[int, str]:
    command = [sys.executable, str(PROGRAM), str(root)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def budget(router: str = "files = 1, lines = 20, code = 10", console: int = 5) -> str:
    parts = ("backends", "featurizer", "service", "training", "client", "wye", "benchmarks")
    none = [f"{part} = {{files = 0, lines = 0, code = 0}}" for part in (*parts, "tests", "other")]
    console_line = f"console = {{files = 1, lines = {console}}}"
    return "\n".join([*none, f"router = {{{router}}}", console_line])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    root = tmp_path / "made"
    (root / "router").mkdir(parents=True)
    (root / "service" / "ui").mkdir(parents=True)
    (root / "router" / "a.py").write_text(MODULE)
    (root / "service" / "ui" / "a.js").write_text("a()\n" * 5)
    (root / "budget.toml").write_text(budget())
    git(tmp_path, "init", "-q", str(root))
    commit(root)
    return root


def test_lines_and_code_stand_beside_what_is_allowed(made: Path) -> None:
    code, said = check(made)
    assert code == 0, said
    (router,) = [line.split() for line in said.splitlines() if line.startswith("router")]
    assert router == ["router", "1", "(1)", "17", "(20)", "7", "(10)"]
    (console,) = [line.split() for line in said.splitlines() if line.startswith("console")]
    assert console == ["console", "1", "(1)", "5", "(5)"]
    (product,) = [line.split() for line in said.splitlines() if line.startswith("product")]
    assert product == ["product", "1", "17", "7"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("router/a.py", MODULE + "\n" * 4, "router has 21 lines, 1 more than budget.toml allows."),
        ("router/a.py", "a = 1\n" * 11, "router has 11 lines of code, 1 more than"),
        ("router/b.py", "", "router has 2 files, 1 more than"),
        ("src/wye/a.py", "a = 1\n", "wye has 1 lines, 1 more than"),
        ("deploy/a.py", "a = 1\n", "other has 1 lines, 1 more than"),
        ("service/ui/a.js", "a()\n" * 6, "console has 6 lines, 1 more than"),
    ],
)
def test_what_is_over_is_told_with_what_to_do(made: Path, name: str, text: str, says: str) -> None:
    (made / name).parent.mkdir(exist_ok=True, parents=True)
    (made / name).write_text(text)
    code, said = check(made)
    assert (code, says in said) == (1, True), said
    assert "Delete as much there, or give it `room` with a reason" in said


def test_room_is_given_for_a_reason(made: Path) -> None:
    (made / "router" / "a.py").write_text(MODULE + "a = 1\n" * 5)
    roomy = "files = 1, lines = 20, code = 10, room = {lines = 2, reason = 'Slides'}"
    (made / "budget.toml").write_text(budget(roomy))
    assert check(made)[0] == 0
    (made / "budget.toml").write_text(budget(roomy.replace("Slides", " ")))
    code, said = check(made)
    assert (code, "router: the room says no `lines` above 0, or no `reason`" in said) == (1, True)


def test_a_number_only_falls(made: Path) -> None:
    (made / "budget.toml").write_text(budget(console=9))
    code, said = check(made)
    assert (code, "allows console 9 lines, but 5 in commit" in said) == (1, True), said
    (made / "service" / "ui" / "a.js").write_text("a()\n")
    (made / "budget.toml").write_text(budget(console=3))
    commit(made)
    (made / "budget.toml").write_text(budget(console=4))
    commit(made)
    code, said = check(made)
    assert (code, "allows console 4 lines, but 3 in commit" in said) == (1, True), said
    git(made, "rm", "-q", "budget.toml")
    commit(made)
    (made / "budget.toml").write_text(budget(console=4))
    commit(made)
    assert check(made)[0] == 1, "a number that was away for a while"
    (made / "budget.toml").write_text(budget(console=2))
    assert check(made)[0] == 0


def test_every_part_has_its_numbers(made: Path) -> None:
    text = budget().replace("wye =", "wie =")
    (made / "budget.toml").write_text(text.replace(", code = 10", ""))
    code, said = check(made)
    assert code == 1
    assert "an entry 'wie', which is no part" in said
    assert "does not say how many lines of code router may have" in said


def test_without_history_it_says_so(made: Path, tmp_path: Path) -> None:
    (made / "budget.toml").write_text(budget() + "\n")
    commit(made)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{made}", str(tmp_path / "shallow"))
    code, said = check(tmp_path / "shallow")
    assert (code, "lacks the history of budget.toml" in said) == (1, True), said
    shutil.rmtree(made / ".git")
    code, said = check(made)
    assert (code, "cannot be checked: fatal: not a git repository" in said) == (1, True), said
