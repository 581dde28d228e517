"""The published systems on the demo, each by one setting, with the models that ship."""

import json
from contextlib import AbstractContextManager
from math import ceil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.fakes import Wye
from tests.live import inside
from tests.service.fakes import Endpoint
from wye import Error
from wye import open as open_index
from wye.backends.sources import DocumentSource
from wye.backends.text import split_sentences
from wye.router.presets import PRESETS
from wye.router.session import Session
from wye.service.app import build
from wye.service.settings import load_settings

DEMO = Path(__file__).parents[2] / "service" / "demo"
BRIDGE = "Which phrase was coined by the designer of Lisp?"
ROUTE = {"linearrag": "graph", "clue-rag": "clue", "zoom-rag": "zoom"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's index, by the settings that `make demo` has."""
    folder: Path = tmp_path_factory.mktemp("demo") / "index"
    with Session.create(load_settings(), folder) as session:
        session.ingest(DocumentSource(DEMO).passages())
    return folder


def served(index: Path, preset: str) -> AbstractContextManager[TestClient]:
    return inside(build(load_settings(index=index, preset=preset)))


def test_presets_answer_on_the_command_line_and_in_python(
    demo: Path, tmp_path: Path, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    def titles(*options: object) -> list[str]:
        code, out, _ = wye("search", BRIDGE, "--json", "-k", "3", *options)
        (reply,) = json.loads(out)
        assert code == 0
        return [hit["title"] for hit in reply["hits"]]

    linear = tmp_path / "linear"
    code, _, err = wye("search", BRIDGE, "--index", demo, "--preset", "linearrag")
    assert (code, "`wye index SOURCE --index DIR --preset linearrag`" in err) == (2, True)
    assert wye("index", DEMO, "--index", linear, "--preset", "linearrag")[0] == 0
    for preset in PRESETS:
        index = linear if preset == "linearrag" else demo
        shown = titles("--index", index, "--preset", preset)
        assert "Lisp" in shown
        with monkeypatch.context() as patched:
            patched.setenv("WYE_PRESET", preset)
            assert titles("--index", index) == shown
        with open_index(index, preset=preset) as opened:
            hits = opened.search(BRIDGE, k=3)
        assert [hit.title for hit in hits] == shown
        assert hits.route == ROUTE.get(preset, hits.route)


def test_ea_graphrag_takes_three_routes(demo: Path) -> None:
    lines = (DEMO / "queries.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["text"] for line in lines]
    with open_index(demo, preset="ea-graphrag") as index:
        decisions = index.route_many(questions)
        assert {decision.route for decision in decisions} == {"dense", "fusion", "graph"}
        pairs = zip(questions, decisions, strict=True)
        fused = next(text for text, decision in pairs if decision.route == "fusion")
        hits = index.search(fused, k=3)
    assert {*hits.reply.arms} == {"dense", "graph"}
    assert hits.decision is not None
    assert hits.decision.model == "router-syntax-en/v1"


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("clue-rag", {"CLUE__NEAREST": "1"}),
        ("clue-rag", {"CLUE__ROUNDS": "1", "CLUE__SETS": "1"}),
        ("zoom-rag", {"ZOOM__DEVIATIONS": "2"}),
        ("zoom-rag", {"ZOOM__NEIGHBOURS": "0"}),
    ],
)
def test_a_server_takes_their_numbers(
    demo: Path, preset: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores() -> list[float]:
        with served(demo, preset) as client:
            reply = client.post("/v1/retrieve", json={"question": BRIDGE, "k": 10}).json()
        return [passage["score"] for passage in reply["passages"]]

    as_published = scores()
    for name, value in settings.items():
        monkeypatch.setenv(f"WYE_{name}", value)
    assert scores() != as_published


def test_a_language_model_reads_what_chunk_zoom_leaves(
    demo: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WYE_GENERATOR__URL", endpoint.url)
    monkeypatch.setenv("WYE_GENERATOR__MODEL", "tiny")
    with served(demo, "zoom-rag") as client:
        answer = client.post("/v1/answer", json={"question": BRIDGE, "k": 5}).json()
        body = {"model": "wye-auto", "messages": [{"role": "user", "content": BRIDGE}]}
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    assert answer["retrieval"]["route"]["path"] == "zoom"
    answered, chatted = (sent["messages"][-1]["content"] for sent, _ in endpoint.seen)
    assert "coined the phrase artificial intelligence" in answered
    whole = [passage["text"] for passage in answer["retrieval"]["passages"]]
    sentences = [sentence for text in whole for sentence in split_sentences(text)]
    left = sum(sentence in answered for sentence in sentences)
    assert left == ceil(0.7 * len(sentences))
    assert "…" in chatted


def test_a_question_is_routed_by_its_syntax_without_an_index(wye: Wye) -> None:
    for options, shown in (((), "router-syntax-en/v1"), (("--preset", "clue-rag"), "clue")):
        code, out, _ = wye("route", BRIDGE, *options)
        assert (code, shown in out) == (0, True)


def test_an_unknown_preset_lists_the_four(demo: Path, wye: Wye) -> None:
    code, _, err = wye("search", BRIDGE, "--index", demo, "--preset", "hipporag")
    assert (code, "no preset 'hipporag'" in err) == (2, True)
    assert all(preset in err for preset in PRESETS)
    with pytest.raises(Error, match="Give settings or a preset"):
        open_index(demo, settings=load_settings(), preset="clue-rag")
