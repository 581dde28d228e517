import json
import os
import re
import shlex
from contextlib import ExitStack, nullcontext
from io import BytesIO, TextIOWrapper
from pathlib import Path
from subprocess import run as run_process
from sys import executable
from threading import Timer
from unittest.mock import Mock

import pytest

from tests.docs.examples import parse
from tests.fakes import Router, Wye
from tests.hashing import FakeAnalyser
from wye.backends.files import VISIBLE
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import IngestReport, ingest
from wye.backends.types import Passage
from wye.featurizer.analyser import AnalyserSettings
from wye.service.cli import build
from wye.service.settings import ServeSettings

pytestmark = pytest.mark.usefixtures("fake_models")
CORPUS = [
    {"_id": "a", "title": "Ada", "text": "Ada met Babbage in London.", "metadata": {"year": 1833}},
    {"_id": "b", "title": "Babbage", "text": "Babbage built engines.", "metadata": {"year": 1822}},
    {"_id": "c", "title": "", "text": "Nobody is named here, only gardens."},
    {"_id": "d", "title": "Δ 🚂 שלום", "text": "Trains run \u202eright to left."},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in CORPUS), encoding="utf-8")
    return path


@pytest.fixture
def index(tmp_path: Path, corpus: Path, wye: Wye) -> Path:
    place = tmp_path / "index"
    code, out, _ = wye("index", corpus, "--index", place)
    assert (code, "4 added" in out) == (0, True)
    return place


def test_a_bad_line_is_named_and_skipped(tmp_path: Path, corpus: Path, wye: Wye) -> None:
    with corpus.open("a", encoding="utf-8") as file:
        file.write('not json\n{"_id": "e", "text": ""}\n{"_id": "a", "text": "again"}\n')
    code, out, err = wye("index", corpus, "--index", tmp_path / "new")
    assert (code, "4 added, 3 skipped" in out) == (0, True)
    assert [f"{corpus}:{line}" in err for line in (5, 6, 7)] == [True] * 3


def test_a_document_with_anothers_id_is_named(tmp_path: Path, corpus: Path, wye: Wye) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        text = f"Ada wrote {folder} letters to Babbage. " * 20
        (tmp_path / folder / "note.txt").write_text(text, encoding="utf-8")
    sources = tmp_path / "one", tmp_path / "two", corpus, "--chunk-words", "20"
    code, out, err = wye("index", *sources, "--index", tmp_path / "new")
    assert (code, "1 skipped" in out) == (0, True)
    said = f"{tmp_path / 'two' / 'note.txt'}: id 'note.txt' is in {tmp_path / 'one' / 'note.txt'}"
    assert err.splitlines()[0].startswith(f"Skipped: {said} as well; index the folder that")
    texts = PassageStore.open(tmp_path / "new").snapshot().to_table(columns=["text"])["text"]
    assert not [text for text in texts.to_pylist() if "two letters" in text]


def test_many_bad_lines_are_counted_not_listed(tmp_path: Path, corpus: Path, wye: Wye) -> None:
    corpus.write_text("{}\n" * 50, encoding="utf-8")
    code, _, err = wye("index", corpus, "--index", tmp_path / "new")
    assert (code, err.count("Skipped: "), "Skipped: 30 more." in err) == (2, 21, True)
    assert "Nothing in the sources could be read" in err
    assert not (tmp_path / "new").exists()


def test_text_files_are_chunked(tmp_path: Path, wye: Wye) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "note.md").write_text("# Engines\n\n" + "Babbage built one. " * 20, encoding="utf-8")
    code, out, _ = wye("index", folder, "--index", tmp_path / "new", "--chunk-words", "9")
    assert (code, "7 added" in out) == (0, True)


def test_a_search_of_an_older_version_tells_the_damage(index: Path, corpus: Path, wye: Wye) -> None:
    with corpus.open("a", encoding="utf-8") as file:
        file.write('{"_id": "e", "text": "Menabrea heard Babbage."}\n')
    wye("index", corpus, "--index", index)
    newest = max((index / "passages.lance" / "data").iterdir(), key=os.path.getmtime)
    newest.unlink()
    command = ("search", "Babbage", "--index", index, "--route", "dense")
    code, out, err = wye(*command)
    assert (code, "Babbage" in out) == (0, True)
    assert f"{newest.name} is missing, and version 2 is used instead of 3. `wye repair" in err
    for path in (index / "passages.lance" / "data").iterdir():
        path.unlink()
    code, out, err = wye(*command)
    assert (code, out, "is empty" in err) == (2, "", False)
    assert "is missing, and version 1 is used instead of 3. `wye repair" in err


def test_json_is_stable_and_complete(index: Path, wye: Wye) -> None:
    options = ("--index", index, "--route", "fusion", "--top-k", "1", "--json")
    code, first, _ = wye("search", "Babbage", *options)
    assert (code, wye("search", "Babbage", *options)[1]) == (0, first)
    (reply,) = json.loads(first)
    (hit,) = reply["hits"]
    known = {"id", "rank", "score", "title", "text", "metadata", "relevance", "sources"}
    assert {*hit} == known
    assert reply["route"] == "fusion"


def test_a_terminal_obeys_nothing_that_an_index_holds(index: Path, wye: Wye) -> None:
    """Of an index that another program made: what Wye reads from files has none of these."""
    hostile = "\x9b31m\u202e\x1b]0;owned\x07\x7f"
    analyser = FakeAnalyser(AnalyserSettings())
    passage = Passage(f"id{hostile}", f"Title {hostile}", f"The Old Bridge {hostile}.", {})
    ingest(PassageStore.open(index), [passage], analyser)
    for options in ([], ["--explain"], ["--json"], ["--explain", "--json"]):
        code, out, err = wye(
            "search", f"Bridge {hostile}", "--index", index, "--route", "graph", "-k", "9", *options
        )
        assert (code, "owned" in out) == (0, True), err
        assert not any(ord(each) in VISIBLE for each in out + err)


def test_explain_names_seeds_and_passages(index: Path, wye: Wye) -> None:
    arguments = ("search", "Who met Babbage?", "--index", index, "--route", "graph", "--explain")
    assert re.search(r"(?s)Seeds.*Babbage", wye(*arguments)[1])
    explanation = json.loads(wye(*arguments, "--json")[1])[0]["explanation"]
    assert explanation["seeds"][0]["entity"] == "Babbage"
    assert explanation["passages"]


def test_a_filter_limits_what_is_found(index: Path, wye: Wye) -> None:
    command = ("search", "Babbage", "--index", index, "-k", "99", "--json", "--route")
    assert len(json.loads(wye(*command, "dense")[1])[0]["hits"]) == 4
    filter_json = '{"type": "gt", "key": "year", "value": 1830}'
    _, out, _ = wye(*command, "graph", "--filter", filter_json)
    assert [hit["id"] for hit in json.loads(out)[0]["hits"]] == ["a"]
    for short in ("year>1830", "year >= 1833", "year=1833", "year!=1822"):
        _, out, _ = wye(*command, "dense", "--filter", short)
        assert "a" in {hit["id"] for hit in json.loads(out)[0]["hits"]}, short
        assert "b" not in {hit["id"] for hit in json.loads(out)[0]["hits"]}, short


@pytest.mark.parametrize("route", ["dense", "lexical", "graph", "fusion"])
def test_every_route_answers_and_says_if_nothing_passes(index: Path, wye: Wye, route: str) -> None:
    command = ("search", "What did Babbage build?", "--index", index, "--route", route)
    code, out, err = wye(*command)
    assert (code, "Babbage built engines." in out) == (0, True)
    assert re.fullmatch(
        r"Loading took \d+\.\d s(; `wye serve` loads once, and --url asks it)?\.\n", err
    )
    code, out, _ = wye(*command, "--filter", '{"type": "eq", "key": "year", "value": 1}')
    assert (code, "nothing found" in out) == (0, True)


def test_questions_from_standard_in(index: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", iter(["Who met Ada?\n", "\n", "\ufeff\n", "gardens\n"]))
    command = ("search", "-", "--index", index, "--route", "lexical", "--json")
    replies = json.loads(wye(*command)[1])
    assert [reply["question"] for reply in replies] == ["Who met Ada?", "gardens"]
    code, _, err = wye(*command)
    assert (code, "no question on standard input" in err) == (2, True)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    code, _, err = wye(*command)
    assert (code, "Standard input is not UTF-8" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["search", "x", "-k", "0"], "k is 0"),
        (["search", "x", "-k", "-1"], "k is -1"),
        (["search", " "], "The question is empty"),
        (["search", "\u200b"], "The question is empty"),
        (["search", "x", "--route", "sideways"], "There is no route 'sideways'. Use one of auto,"),
        (["search", "x", "--route", "grph"], "There is no route 'grph'. Did you mean graph?"),
        (["search", "x", "--filter", "{"], "is neither a comparison, like year<1850, nor JSON"),
        (["search", "x", "--filter", '{"type": "like"}'], "filter.type must be one of"),
        (["search", "x", "--filter", "year"], "nor JSON"),
        (["search", "x", "--filter", "yeer<1850"], "No passage has the key 'yeer'. Did you mean"),
        (["delete", "--filter", "yeer!=1850"], "No passage has the key 'yeer'. Did you mean year"),
        (["search"], "Missing argument"),
        (["delete"], "Delete what?"),
        (["index", "missing.jsonl"], "There is no file or folder missing.jsonl"),
        (["index", "missing.jsonl", "--preset", "x"], "There is no preset 'x'"),
    ],
)
def test_mistakes_are_one_sentence(index: Path, wye: Wye, arguments: list[str], says: str) -> None:
    code, out, err = wye(*arguments, "--index", index)
    assert code == 2
    assert says in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in out + err


def test_a_missing_extra_is_told(index: Path) -> None:
    """In a process of its own, since what needs the extra may be loaded here."""
    for missing, extra, command in (
        ("ir_measures", "train", "eval x"),
        ("lance_ray", "ray", f"index {__file__} --engine ray"),
    ):
        program = (
            f"import sys; sys.modules[{missing!r}] = None; import wye.service.cli as c; c.main()"
        )
        call = [executable, "-c", program, *command.split(), f"--index={index}"]
        done = run_process(call, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 2
        assert f"{missing} is not installed; run `pip install -e '.[{extra}]'`" in done.stderr


def test_no_index_given(wye: Wye) -> None:
    code, _, err = wye("search", "x")
    assert (code, err) == (2, "Error: Which index? Give --index DIR, or set WYE_INDEX.\n")


def test_a_missing_and_a_foreign_index(tmp_path: Path, corpus: Path, wye: Wye) -> None:
    for command in (["search", "x"], ["info"], ["delete", "a"]):
        code, _, err = wye(*command, "--index", tmp_path / "missing")
        assert (code, "There is no index at" in err) == (2, True)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("mine", encoding="utf-8")
    code, _, err = wye("index", corpus, "--index", tmp_path / "foreign")
    assert (code, "thesis.txt" in err) == (2, True)
    assert (tmp_path / "foreign" / "thesis.txt").read_text(encoding="utf-8") == "mine"


def test_an_index_of_other_models(
    index: Path, corpus: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.hashing.HashAnalyser.fingerprint", {"encoder": "other"})
    for command in (["search", "x"], ["index", str(corpus)]):
        code, _, err = wye(*command, "--index", index)
        assert (code, "was written by another analyser" in err) == (2, True)


def test_no_memory_is_one_sentence(index: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PassageStore, "open", Mock(side_effect=MemoryError))
    code, _, err = wye("delete", "a", "--index", index)
    assert (code, "There is not enough memory for this" in err) == (2, True)


def test_a_disk_that_refuses_is_one_sentence(
    index: Path, corpus: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = wye("index", corpus, "--index", corpus / "x")
    said = f"{corpus / 'x'} cannot be read or written: Not a directory. Check"
    assert (code, said in err) == (2, True)

    def refuse(*_: object) -> PassageStore:
        raise OSError("LanceError(IO): No space left (os error 28), /rust/structural.rs:190:9")

    monkeypatch.setattr(PassageStore, "open", refuse)
    for command in (["index", str(corpus)], ["delete", "a"]):
        code, _, err = wye(*command, "--index", index)
        assert code == 2
        assert err.startswith("Error: LanceError(IO): No space left (os error 28). Check the")


def test_an_index_that_is_being_written_is_waited_for(
    index: Path, corpus: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["index", str(corpus)], ["delete", "a"]):
        writing = ExitStack()
        writing.enter_context(PassageStore.open(index).writer())
        Timer(0.5, writing.close).start()
        assert wye(*command, "--index", index)[0] == 0
    monkeypatch.setattr("wye.backends.files.patient", lambda _: nullcontext())
    with PassageStore.open(index).writer():
        for command in (["index", str(corpus)], ["delete", "a"]):
            code, _, err = wye(*command, "--index", index)
            assert (code, "is being written by process" in err) == (2, True)
        assert wye("search", "Ada", "--index", index, "--route", "dense")[0] == 0


def test_an_empty_index(index: Path, wye: Wye) -> None:
    wye("delete", "a", "b", "c", "d", "--index", index)
    code, _, err = wye("search", "Ada", "--index", index)
    assert (code, "is empty" in err) == (2, True)
    assert wye("info", "--index", index)[0] == 0


def test_delete_by_id_document_and_filter(index: Path, wye: Wye) -> None:
    _, out, _ = wye("delete", "a", "b", "--index", index, "--dry-run")
    assert (out, PassageStore.open(index).count()) == ("Would delete 2 passages: a, b.\n", 4)
    code, out, err = wye("delete", "a", "nobody", "--document", "none", "--index", index)
    assert (code, out) == (1, "Deleted 1 passage: a.\n")
    assert err == "Not in the index: nobody, none.\n"
    assert wye("delete", "--document", "c", "--index", index)[1] == "Deleted 1 passage: c.\n"
    for said in ("Deleted 1 passage: b.\n", "Deleted 0 passages.\n"):
        assert wye("delete", "--filter", "year=1822", "--index", index)[:2] == (0, said)
    assert wye("delete", "a", "--index", index)[:2] == (1, "Deleted 0 passages.\n")
    assert PassageStore.open(index).count() == 1


def test_info_counts(index: Path, wye: Wye) -> None:
    _, out, _ = wye("info", "--index", index, "--json")
    counts = json.loads(out)
    assert counts["passages"] == 4
    assert counts["pins"]["encoder"] == "hash"
    assert counts["bytes on disk"] > 0
    assert "passages" in wye("info", "--index", index)[1]


def test_the_index_can_come_from_the_environment(
    index: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WYE_INDEX", str(index))
    assert wye("search", "Ada", "--route", "dense")[0] == 0
    monkeypatch.setenv("WYE_INDX", "typo")
    code, _, err = wye("search", "Ada")
    assert (code, "Did you mean WYE_INDEX" in err) == (2, True)


def test_control_c_before_anything_was_committed(
    tmp_path: Path, corpus: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_early(*_: object, **__: object) -> IngestReport:
        raise KeyboardInterrupt

    monkeypatch.setattr("wye.router.session.ingest", too_early)
    code, _, err = wye("index", corpus, "--index", tmp_path / "new")
    assert (code, "Interrupted." in err) == (130, True)


def test_demo_indexes_and_asks_over_every_route(
    tmp_path: Path,
    wye: Wye,
    handmade_router: Router,
    reading_models: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WYE_ROUTER__MODEL", str(handmade_router(tmp_path, "words", 12.0)))
    code, out, err = wye("demo")
    assert code == 0, err
    shown = ("auto, which takes [a-z]+", "dense", "hybrid", "graph", "steps")
    counts = [len(re.findall(rf"(?m)^{route} [\d.]+ ms$", out)) for route in shown]
    assert counts == [6 + 5] * 5
    assert "tickets/" in out
    assert wye("demo")[1].count("were there already") == 2


def test_demo_can_be_served(tmp_path: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServeSettings] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wye.service.commands.serve._run", lambda _, serve: served.append(serve))
    code, out, err = wye("demo", "--serve", "--port", "8123")
    assert (code, "199 passages" in out) == (0, True)
    assert "Loading demo.\n" in err
    assert [(serve.port, serve.indexes) for serve in served] == [(8123, ("demo=demo-index",))]
    code, _, err = wye("demo", "--serve", "--port", "0")
    assert (code, served[-1].port) == (0, 0)


def test_version(wye: Wye) -> None:
    assert wye("--version") == (0, "0.2.0\n", "")


def all_commands() -> list[str]:
    names = [command.callback.__name__ for command in build()[0].registered_commands]  # type: ignore[union-attr]
    return [*("eval" if name == "evaluate" else name for name in names), "keys new"]


@pytest.mark.parametrize("command", all_commands())
def test_help_is_for_people(command: str, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits a terminal, shows no type of Python's, and ends with an example that parses."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    code, said, _ = wye(*command.split(), "-h")
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    assert (code, max(map(len, lines)) <= 80) == (0, True)
    assert not re.search(r"<\w+[>| ]|\[x|range|Optional|list\[", said)
    *_, example = lines
    assert example.startswith(f" Example: wye {command}")
    parse(shlex.split(example.partition(": ")[2]))


def test_a_shell_completes_commands_and_routes() -> None:
    def completed(*words: str) -> list[str]:
        variables = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        script = "from wye.service.cli import main; main()"
        done = run_process(
            [executable, "-c", script],
            env={**os.environ, **variables, "_WYE_COMPLETE": "complete_bash"},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return done.stdout.split()

    assert completed("wye", "se") == ["search", "serve"]
    assert completed("wye", "search", "x", "--route", "g") == ["graph"]


HEAVY = {"torch", "spacy", "lance", "faiss", "scipy", "pyarrow", "openvino", "ir_measures"}
"""Packages that take a tenth of a second or more to import."""


def imported(*words: str) -> tuple[str, set[str]]:
    """What a command prints in a process of its own, and the packages that it imports."""
    script = (
        f"import sys\nfrom wye.service.cli import run\nrun({words!r})\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = run_process(
        [executable, "-c", script], capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout, {name.partition(".")[0] for name in done.stderr.splitlines()}


def test_help_loads_nothing_heavy() -> None:
    out, packages = imported("--help")
    assert "eval" in out
    assert not packages & {*HEAVY, "numpy", "pydantic"}
