import doctest
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wye
from tests.fakes import Router
from wye.backends.errors import FilterError, IndexNotFoundError
from wye.router.gateway import Gateway
from wye.router.model_files import save_policy
from wye.router.policy import Policy
from wye.router.settings import RoutingSettings
from wye.router.types import Thresholds

BRIDGES = (
    wye.Document("mostar", "Stari Most", "The Old Bridge is in Mostar.", {"year": 1566}),
    wye.Document("neretva", "Neretva", "The Neretva flows through Mostar."),
    wye.Document("tower", "Tower Bridge", "Tower Bridge is in London.", {"year": 1894}),
)
RIVER = "Which river flows through Mostar?"


@pytest.fixture
def index(tmp_path: Path, fake_models: None) -> Iterator[wye.Index]:
    with wye.create(tmp_path / "index") as made:
        made.add(BRIDGES)
        yield made


def test_the_example_of_the_module_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(wye) == (0, 7)


ROOT = Path(__file__).parents[1]
NAMES = ("backends", "featurizer", "router", "service", "training")


def python(folder: Path, *words: str) -> str:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, check=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone has of the package, in a folder named like it."""
    made = tmp_path_factory.mktemp("above") / "wye"
    made.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, made)
    for name in ("src", "models", *NAMES):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, made / name, symlinks=True, ignore=ignored)
    return made


def test_a_user_may_have_files_of_the_same_names(clone: Path, tmp_path: Path) -> None:
    """An editable install exposes `wye` alone; above a clone, its folder is no package."""
    build = "from setuptools import build_meta as b; b.build_editable({!r})"
    python(clone, "-c", build.format(str(tmp_path / "site")))
    [wheel] = (tmp_path / "site").glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    folder = tmp_path / "work"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text("raise ImportError('a file of the user')")
    look = f"import site; site.addsitedir({str(tmp_path / 'site')!r}); from importlib import util\n"
    where = look + "print(util.find_spec('wye').origin)"
    for place in (folder, clone.parent):
        assert python(place, "-S", "-c", where) == str(clone / "src" / "wye" / "__init__.py")
    old = look + f"print([name for name in {NAMES} if util.find_spec(name)])"
    assert python(tmp_path, "-S", "-c", old) == "[]"
    used = "import wye; print(wye.Document('a', text='b').id, wye.read.__module__)"
    assert python(folder, "-c", used) == "a wye.library"


def test_a_wheel_has_the_code_and_the_models_in_plain_folders(clone: Path, tmp_path: Path) -> None:
    program = "from setuptools import build_meta as b; b.build_wheel({0!r}); b.build_sdist({0!r})"
    python(clone, "-c", program.format(str(tmp_path)))
    [wheel], [sdist] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    names = {*zipfile.ZipFile(wheel).namelist()}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"wye"}
    # What the demo's files were made from is for developers.
    paths = [*NAMES, "models", ":!service/demo_work/sources"]
    tracked = subprocess.run(
        ["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {f"wye/{name}" for name in tracked} <= names
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isreg()}
    assert {f"src/wye/{name}" for name in tracked} <= packed


def test_it_imports_nothing_of_what_stands_above_it() -> None:
    above = "{name for name in sys.modules if name.startswith(('wye.service', 'wye.training'))}"
    program = f"import sys, wye; wye.open; assert not {above}"
    subprocess.run([sys.executable, "-c", program], check=True)
    program = "import sys, wye; assert 'wye.library' not in sys.modules"  # for `wye --help`
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_added_is_found_at_once(index: wye.Index) -> None:
    assert (len(index), index.path.name) == (3, "index")
    version = index.version
    again = index.add(BRIDGES)
    assert (again.added, again.unchanged, index.version) == (0, 3, version)
    changed = wye.Document("tower", "Tower Bridge", "Tower Bridge opened in 1894.")
    assert index.add(changed).updated == 1
    assert index.version > version
    (hit,) = index.search("Tower Bridge", k=1, route="lexical")
    assert (hit.id, hit.rank, hit.text, hit.metadata) == ("tower", 1, changed.text, {})
    assert index.delete(["tower", "nowhere"]) == ["tower"]
    found = {hit.id for hit in index.search("Tower Bridge", k=9, route="dense")}
    assert found == {"mostar", "neretva"}


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ({"documents": ["mostar"]}, 2),
        ({"ids": "mostar", "documents": "tower"}, 1),
        ({"filter": {"type": "gte", "key": "year", "value": 1800}}, 2),
        ({"ids": ["mostar"], "documents": ["neretva", "tower"]}, 0),
    ],
)
def test_passages_are_deleted_by_what_names_them(
    index: wye.Index, wanted: dict[str, Any], left: int
) -> None:
    deleted = index.delete(**wanted)
    assert (len(deleted), len(index)) == (3 - left, left)


@pytest.mark.parametrize("route", sorted(set(wye.Route) - {wye.Route.AUTO}))
def test_hits_say_how_they_came_about(index: wye.Index, route: wye.Route) -> None:
    hits = index.search(RIVER, k=2, route=route, explain=True)
    assert (hits.question, hits.route, hits.degraded) == (RIVER, route, "")
    decision = hits.decision
    assert (decision.route, decision.score, decision.reason) == (route, None, "forced")
    assert [hit.rank for hit in hits] == [1, 2]
    assert (len(hits[:1]), hits[-1], next(reversed(hits))) == (1, hits[1], hits[1])
    assert sum(hits.seconds.values()) > 0
    every = ["dense", "graph", "lexical"]
    arms = {wye.Route.HYBRID: ["dense", "lexical"], **dict.fromkeys(("fusion", "steps"), every)}
    for hit in hits:
        ranks, _, names = hit.why.partition("; names ")
        ranked = {part.split()[0] for part in ranks.split(", ")}
        added = {"steps"} if route == wye.Route.STEPS else set()
        assert {arms.get(route, [route])[0]} <= ranked <= {*arms.get(route, [route]), *added}
        assert ("Mostar" in names) == (hits.explanation is not None and "Mostar" in hit.text)
    assert (hits.explanation is None) == ("graph" not in hits.reply.arms)
    (bare,) = index.search_many([RIVER], k=2, route=route)
    assert [(hit.id, hit.score, hit.why) for hit in bare] == [(h.id, h.score, "") for h in hits]
    assert bool(hits.reply.ranking.hits[0].sources) == (route in arms)


def test_hits_of_steps_say_which_names_they_gave(index: wye.Index, reading_models: None) -> None:
    with wye.open(index.path) as read:
        hits = read.search(
            "Which sea is reached by the river of Mostar?", route="steps", explain=True
        )
        why = {hit.id: hit.why for hit in hits}
    assert hits.reply.chain
    assert "steps 1" in " ".join(why.values())
    assert "; gave Neretva" in why["neretva"]


def test_questions_asked_together_have_the_same_hits(index: wye.Index) -> None:
    questions = [RIVER, "Where is Tower Bridge?"]
    together = index.search_many(questions, route="fusion")
    assert [hits.question for hits in together] == questions
    old = index.search(RIVER, route="fusion", filter="year<1800")
    assert [hit.id for hit in old] == ["mostar"]
    alone = [index.search(question, route="fusion") for question in questions]
    assert [list(hits) for hits in together] == [list(hits) for hits in alone]
    assert index.search_many([]) == []
    assert [hits.question for hits in index.search_many(RIVER, route="fusion")] == [RIVER]


def test_the_router_decides_and_follows_its_thresholds(
    tmp_path: Path, handmade_router: Router, reading_models: None
) -> None:
    file = tmp_path / "thresholds.json"
    save_policy(file, Policy(Thresholds(0.4, 0.6), wye.Route.LEXICAL), {})
    router = RoutingSettings(str(handmade_router(tmp_path / "models", "words", 4.0)), str(file))
    settings = wye.Settings(router=router)
    with wye.create(tmp_path / "index", settings=settings) as index:
        assert index.search(RIVER).degraded == "the index is empty"
        index.add(BRIDGES)
        decision = index.route(RIVER)
        assert (decision.route, decision.reason) == (wye.Route.GRAPH, "score")
        assert sum(part.logit for part in decision.contributions) == pytest.approx(decision.logit)
        assert index.route(RIVER, explain=False).contributions == ()
        hits = index.search(RIVER)
        assert (hits.route, hits.decision) == (wye.Route.GRAPH, index.route(RIVER, explain=False))
        save_policy(file, Policy(Thresholds(1.0, 1.0), wye.Route.LEXICAL), {})
        assert index.refresh()
        assert not index.refresh()
        assert [each.route for each in index.route_many([RIVER, "Why?"])] == ["lexical"] * 2


def test_a_reader_moves_on_when_it_is_told_to(index: wye.Index) -> None:
    with wye.open(index.path) as reader:
        assert not reader.refresh()
        index.add([wye.Document("new", text="A new bridge.")])
        assert (len(reader), len(reader.search("bridge", k=9, route="lexical"))) == (3, 2)
        assert reader.refresh()
        assert (len(reader), reader.version) == (4, index.version)


def test_files_are_read_and_long_documents_cut(index: wye.Index, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "engines.md").write_text("# Engines\n\n" + "Babbage built one. " * 100)
    passages = list(wye.read(folder))
    assert [passage.id for passage in passages] == ["engines.md#0000", "engines.md#0001"]
    assert index.add(passages).added == 2
    assert index.add([wye.Document("long", text="Ada wrote. " * 100)], chunk_words=50).added == 4
    assert index.delete(documents=["long", "engines.md"])[0] == "engines.md#0000"


def test_files_are_read_as_told(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_bytes("gate = café".encode("cp1252"))
    (tmp_path / "b.csv").write_text("who,what,more\nAda,cook,x\n")
    read = wye.read(
        tmp_path,
        as_text=[".conf"],
        encoding="cp1252",
        text_columns=["what"],
        title_column="who",
        has_header=True,
    )
    found = [(each.title, each.text) for each in read]
    assert found == [("a.conf", "gate = café"), ("Ada", "cook")]


def test_a_document_called_as_a_part_of_another_is_stored_beside_it(index: wye.Index) -> None:
    part = wye.Document("long#0001", text="Ada is mine.")
    long = wye.Document("long", text="Ada wrote. " * 100)
    for documents in ([part], [long], [part], [long, part]):
        index.add(documents, chunk_words=50)
    hits = {hit.id: hit.text for hit in index.search("Ada", k=9, route="lexical")}
    assert hits["long#0001#0000"] == "Ada is mine."
    assert len(index.delete(documents=["long"])) == 4
    assert len(index) == 4


def test_a_passage_is_stored_as_a_document_is_but_whole(index: wye.Index, tmp_path: Path) -> None:
    index.add(wye.Passage("p", "A\ttitle", "txt \ud800 ?", {"a": "\ud800"}, "of", 3))
    (tmp_path / "a.md").write_text("# Top\n\nOne two.\n\n## Sub\n\nThree four.\n" * 9)
    read = list(wye.read(tmp_path / "a.md", chunk_words=9))
    index.add(read)
    stored = index._session.snapshot.passages(["p", *(one.id for one in read)])
    assert stored.pop("p") == wye.Passage("p", "A title", "txt  ?", {"a": ""}, "of", 3)
    assert stored == {one.id: one for one in read}


def test_a_lone_question_is_asked_once(index: wye.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(index.search_many(RIVER, route="lexical")) == 1
    monkeypatch.setattr(Gateway, "decide", lambda _, questions, _ask: [*questions])
    assert [*index.route_many(RIVER)] == [RIVER]  # type: ignore[comparison-overlap]


def test_a_name_that_no_passage_can_have_deletes_none(index: wye.Index) -> None:
    assert index.delete(["\ud800", "tower"], documents=["\udcff"]) == ["tower"]
    assert index.delete(["\ud800"]) == []


def test_a_closed_index_says_so(index: wye.Index) -> None:
    index.close()
    uses: list[Callable[[], object]] = [
        lambda: index.search(RIVER),
        lambda: index.route(RIVER),
        lambda: index.add(BRIDGES),
        lambda: index.delete(["tower"]),
        index.refresh,
        index.keep_derived,
    ]
    for use in uses:
        with pytest.raises(wye.Error, match=r"is closed; open it again with wye\.open"):
            use()
    index.close()
    assert (len(index), index.path.name) == (3, "index")


def test_mistakes_are_one_kind_of_error(index: wye.Index, tmp_path: Path) -> None:
    broken, file = tmp_path / "broken.jsonl", tmp_path / "file"
    broken.write_text("{}\n")
    file.write_text("")
    note = tmp_path / "note.txt"
    note.write_text("A note.")
    many = {"a": [1] * 257}
    like, yeer = {"type": "like"}, {"type": "eq", "key": "yeer", "value": 1566}
    mistakes: list[tuple[str, type[Exception] | None, Callable[[], object]]] = [
        ("There is no index at", IndexNotFoundError, lambda: wye.open(tmp_path / "nowhere")),
        ("There is no file or folder", None, lambda: wye.read(tmp_path / "nowhere")),
        (r"broken\.jsonl:1: text is missing", None, lambda: list(wye.read(broken))),
        ("'d' cannot be added: text is empty", None, lambda: index.add([wye.Document("d")])),
        ("text is empty", None, lambda: index.add(wye.Document("d", "\u200b\u2060 "))),
        ("no route 'best'. Use one of auto, dense", None, lambda: index.search("x", route="best")),
        ("The question is empty", None, lambda: index.search(" ", route="dense")),
        ("A dict cannot be added; give a list of wye", None, lambda: index.add([{"id": "d"}])),  # type: ignore[list-item]
        ("filter", FilterError, lambda: index.search("x", route="dense", filter=like)),
        ("'yeer'. Did you mean year", FilterError, lambda: index.search("x", filter=yeer)),
        ("chunk_words is -1;", None, lambda: index.add(wye.Document("d", "", "x"), chunk_words=-1)),
        ("chunk_words is 0; a passage", None, lambda: index.add(BRIDGES, chunk_words=0)),
        ("'x' is no known encoding", None, lambda: wye.read(note, encoding="x")),
        ("chunk_words is 0", None, lambda: list(wye.read(note, chunk_words=0))),
        ("text is empty", None, lambda: index.add(wye.Passage("d", "", "\u200b"))),
        ("_id is empty", None, lambda: index.add(wye.Passage("", "", "x"))),
        ("_id is empty", None, lambda: index.add(wye.Passage("a", "", "x", {}, " "))),
        ("unpaired surrogate", None, lambda: index.add(wye.Passage("\ud800", "", "x"))),
        ("_id is a boolean", None, lambda: index.add(wye.Passage(True, "", "x"))),  # type: ignore[arg-type]
        ("title is a number", None, lambda: index.add(wye.Passage("a", 3, "x"))),  # type: ignore[arg-type]
        ("k is 1.5; ask for a whole", None, lambda: index.search("x", k=1.5)),  # type: ignore[arg-type]
        ("no route 'None'", None, lambda: index.search("x", route=None)),  # type: ignore[arg-type]
        ("1 is of type int; give a string", None, lambda: index.delete([1])),  # type: ignore[list-item]
        ("3 is of type int; give a string", None, lambda: index.search_many([3])),  # type: ignore[list-item]
        ("257 values; at most 256", None, lambda: index.add(wye.Document("a", "", "x", many))),
        ("257 values; at most 256", None, lambda: index.add(wye.Passage("a", "", "x", many))),
        ("is a file; an index is a folder", None, lambda: wye.create(file)),
    ]
    for says, cause, mistake in mistakes:
        with pytest.raises(wye.Error, match=says) as found:
            mistake()
        assert cause is None or isinstance(found.value.__cause__, cause)
