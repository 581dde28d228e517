"""Documents that cannot lie: commands, paths, links and settings are those of the code."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from tests.docs.examples import blocks
from wye.featurizer import registry
from wye.router.settings import markdown
from wye.service.arms.kinds import KINDS
from wye.service.cli import build
from wye.service.settings import ServiceSettings

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TOP_LEVEL = ("backends", "featurizer", "models", "notebooks", "router", "service", "tests", "wye")
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/tour.md"])
def test_every_path_that_is_named_exists(document: str) -> None:
    shape = re.compile(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(md|toml|txt)|Makefile|LICENSE|NOTICE")
    spans = map(str.strip, _CODE.findall(read(document)))
    named = [span for span in spans if shape.fullmatch(span)]
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_nothing_says_to_install_wye_from_a_registry_that_lacks_it() -> None:
    folders = ("backends", "docs", "featurizer", "notebooks", "router", "service", "training")
    texts = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    found = [path for path in [*DOCUMENTS, *texts] if b"install 'wye" in path.read_bytes()]
    assert found == []


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/tour.md"])
def test_every_name_that_is_said_to_be_in_a_file_is_there(document: str) -> None:
    """Written `path/to/file.py:Class.method`."""
    named = re.findall(r"`([\w/]+\.py):([\w.]+)`", read(document))
    missing = [f"{path}:{name}" for path, name in named if not defines(path, name)]
    assert missing == []


def defines(path: str, name: str) -> bool:
    """Whether a module defines a class, a function, a constant or a member."""
    nodes: list[ast.AST] = [ast.parse(read(path))]
    for part in name.split("."):
        nodes = [
            child
            for node in nodes
            for child in ast.iter_child_nodes(node)
            if getattr(child, "name", None) == part
            or (isinstance(child, ast.Assign | ast.AnnAssign) and part in names_of(child))
        ]
    return bool(nodes)


def names_of(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_what_is_looked_for_can_be_missing() -> None:
    assert defines("src/wye/library.py", "Index.search")
    assert not defines("src/wye/library.py", "Index.nope")
    assert not defines("src/wye/library.py", "Nope.search")


@pytest.mark.parametrize(
    ("document", "lines"), [("README.md", 120), ("ARCHITECTURE.md", 150), ("docs/tour.md", 120)]
)
def test_it_is_short_enough_to_be_read(document: str, lines: int) -> None:
    assert len(read(document).splitlines()) <= lines


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_resolves(document: Path) -> None:
    links = _LINK.findall(document.read_text(encoding="utf-8"))
    relative = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in relative if link and not (document.parent / link).exists()] == []


def test_every_setting_and_feature_is_documented() -> None:
    assert read("docs/reference/settings.md") == markdown(ServiceSettings), "Run `make docs`."
    assert read("docs/reference/features.md") == registry.markdown(), "Run `make docs`."


def test_the_readme_names_the_commands_that_ci_runs() -> None:
    script = read(".ci/run")
    targets = set(re.findall(r"^(?:nice )?make (?:VENV=\S+ )?([\w-]+)", script, re.MULTILINE))
    assert targets == {"install", "check", "test"}
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", read("README.md") + read("CONTRIBUTING.md")))
    assert targets <= named
    defined = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    assert named <= defined


def test_every_command_is_listed_and_no_other() -> None:
    app, _ = build()
    known = {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
    } | {group.name for group in app.registered_groups}
    named = set(re.findall(r"^\| `wye (\w+)`", read("docs/reference/commands.md"), re.MULTILINE))
    assert named == known


def test_every_benchmark_named_in_a_document_exists() -> None:
    for document in DOCUMENTS:
        for name in re.findall(r"-m benchmarks ([a-z]\w*)", document.read_text(encoding="utf-8")):
            assert name in BENCHMARKS, f"{document}: {name}"


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    pins = {_name(line) for line in read("constraints.txt").splitlines() if "==" in line}
    missing = [_name(entry) for entry in wanted if _name(entry) not in pins | {"wye"}]
    assert missing == []


def test_a_dependency_is_declared_where_it_is_imported_and_nowhere_else() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    serving = {_name(entry) for entry in project["dependencies"]}
    training = {_name(entry) for entry in extras["train"]}
    folders = ("backends", "featurizer", "router", "service", "src")
    imported = {name for folder in folders for name in _imported(folder)}
    # Needed for what only some do, and without them that is refused with the reason.
    others = {_name(entry) for extra in ("ray", "stanza", "torch") for entry in extras[extra]}
    assert imported - others <= serving
    offline = _imported("training") | _imported("benchmarks")
    assert offline - others <= serving | training
    assert training <= offline, "The extra `train` names what nothing of it imports."


def test_layers_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout


def _imported(folder: str) -> set[str]:
    owners = packages_distributions()
    modules = {
        name.partition(".")[0]
        for path in ([ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py"))
        for name in _imports(ast.parse(path.read_text(encoding="utf-8")))
    }
    foreign = modules - set(sys.stdlib_module_names) - {*TOP_LEVEL, "benchmarks", "training", "wye"}
    # Of a namespace that several share, as opentelemetry's, the one that has its name.
    found = {module: [_name(owner) for owner in owners.get(module, [module])] for module in foreign}
    return {
        min(names, key=lambda name: (not name.endswith("-api"), name)) for names in found.values()
    }


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _name(requirement: str) -> str:
    return re.split(r"[<>=!\[; ]", requirement)[0].lower().replace("_", "-")


GUIDE = ROOT / "docs" / "guides" / "remote-arms.md"
RECIPES = ROOT / "deploy" / "arms" / "recipes.toml"


def test_the_guide_has_every_kind_and_every_key() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = {*re.findall(r"`([a-z_-]+)`", text)}
    assert {*KINDS} <= named
    for kind in KINDS.values():
        assert {*kind.model_fields} <= named, kind


def test_every_file_of_it_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        one.text for one in blocks(GUIDE.name, GUIDE.read_text("utf-8")) if one.language == "toml"
    ]
    assert len(files) == 1
    for file in (*files, RECIPES.read_text("utf-8")):
        for table in tomllib.loads(file)["arms"].values():
            if "key_env" in table:
                monkeypatch.setenv(table["key_env"], "secret")
            assert KINDS[table["kind"]].model_validate(table)
