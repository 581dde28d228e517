"""Questions that a language model writes, over a real connection, from a small land of towns."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wye
from tests.fakes import LanguageModel, Wye, speaking
from wye.backends.types import Silent
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.training.data import read_dataset
from wye.training.errors import DatasetError, EndpointError, TrainingError
from wye.training.questions import (
    BRIDGE,
    LONGEST,
    QUERIES,
    REPLIES,
    SINGLE,
    ChatClient,
    QuestionWriter,
    candidates,
    fault_of,
    parse,
)

TOWNS = ("Mostar", "Jajce", "Travnik", "Livno", "Konjic", "Bihac", "Tuzla", "Zenica")
GOODS = ("plums", "bridges", "cheese", "horses", "boats", "carpets", "salt", "steel")
TEXT = "{} is a town that is known for its {}, which are sold in spring. A road leads to {}."
pytestmark = pytest.mark.usefixtures("fake_models")


def told(question: str, answer: str) -> str:
    return json.dumps({"question": question, "answer": answer})


def writes_well(instructions: str, passages: str) -> str:
    """What is known of the towns, with a fence around it, as models have it."""
    *_, goods = (words.split(",")[0] for words in passages.split("known for its ")[1:])
    town = passages.split("\n", maxsplit=1)[0].removeprefix("[1] ")
    asked = f"the town at the end of the road from {town}" if "Both" in instructions else town
    return f"```json\n{told(f'What is {asked} known for?', goods)}\n```"


@pytest.fixture
def endpoint() -> Iterator[LanguageModel]:
    with speaking(writes_well) as model:
        yield model


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with wye.create(tmp_path / "index") as made:
        made.add(
            wye.Document(town, town, TEXT.format(town, goods, TOWNS[(n + 1) % len(TOWNS)]))
            for n, (town, goods) in enumerate(zip(TOWNS, GOODS, strict=True))
        )
        made.add([wye.Document("short", "Short", "Too short to ask.")])
    return tmp_path / "index"


@pytest.fixture
def session(index: Path) -> Iterator[Session]:
    with Session.open(load_settings(), index) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


@pytest.fixture
def client(endpoint: LanguageModel) -> Iterator[ChatClient]:
    with ChatClient(endpoint.url, "writer", seconds=0.3, tries=1) as opened:
        yield opened


Writer = Callable[[], QuestionWriter]


@pytest.fixture
def writer(session: Session, folder: Path, client: ChatClient) -> Writer:
    """As it is begun anew by each run of the command."""
    return lambda: QuestionWriter(folder, session.snapshot, client)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_single_passages_and_pairs_that_share_a_name_take_turns(session: Session) -> None:
    found = [*candidates(session.snapshot)]
    assert [one.kind for one in found[:4]] == [SINGLE, BRIDGE, SINGLE, BRIDGE]
    singles, bridges = ([one for one in found if one.kind == kind] for kind in (SINGLE, BRIDGE))
    assert sorted(one.passages for one in singles) == sorted((id_,) for id_ in (*TOWNS, "short"))
    # Every town is named by the one from which a road leads to it, and has itself for a title.
    pairs = {(TOWNS[n - 1], town) for n, town in enumerate(TOWNS)}
    assert {one.passages for one in bridges} == pairs
    assert {one.name for one in bridges} == set(TOWNS)
    assert len({one.id for one in found}) == len(found)


def test_questions_are_judged_by_what_they_were_written_from(
    writer: Writer, folder: Path, endpoint: LanguageModel
) -> None:
    written = writer()
    written.write(9, Silent())
    train, dev = (read_dataset(folder, split) for split in ("train", "dev"))
    assert (len(train.questions), len(dev.questions)) == (6, 3)
    for question in (*train.questions, *dev.questions):
        gold = {**train.judgements, **dev.judgements}[question.id]
        last = next(TOWNS[n] for n, goods in enumerate(GOODS) if (goods,) == question.answers)
        hop = "the road from" in question.text
        assert gold.keys() == ({TOWNS[TOWNS.index(last) - 1], last} if hop else {last})
    kept = lines(folder / "corpus.jsonl")
    assert {line["_id"] for line in kept} >= {id_ for g in train.judgements.values() for id_ in g}
    assert all(line["text"].startswith(line["title"]) for line in kept)
    assert len(endpoint.requests) == 9
    assert endpoint.requests[0]["max_tokens"] == 200
    assert endpoint.requests[0]["key"] is None
    assert "9 questions of 9 replies, which took 63 tokens" in str(written)


def test_it_goes_on_where_stopped(writer: Writer, folder: Path, endpoint: LanguageModel) -> None:
    class Stopped(Silent):
        def advance(self, steps: int) -> None:
            if len(endpoint.requests) == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer().write(9, Stopped())
    before = (folder / QUERIES).read_text(encoding="utf-8")
    assert len(before.splitlines()) == 4
    assert len(read_dataset(folder, "train").questions) == 3
    # Killed in the middle of a line, too.
    with (folder / QUERIES).open("a", encoding="utf-8") as file:
        file.write('{"_id": "sin')
    writer().write(9, Silent())
    assert (folder / QUERIES).read_text(encoding="utf-8").startswith(before)
    assert len(endpoint.requests) == 9
    shown = [request["messages"][1]["content"] for request in endpoint.requests]
    assert len(set(shown)) == 9
    writer().write(9, Silent())
    assert len(endpoint.requests) == 9


def test_what_was_deleted_stays_away(writer: Writer, folder: Path, endpoint: LanguageModel) -> None:
    writer().write(4, Silent())
    first, *others = (folder / QUERIES).read_text(encoding="utf-8").splitlines()
    (folder / QUERIES).write_text("\n".join(others), encoding="utf-8")
    writer().write(4, Silent())
    ids = [line["_id"] for line in lines(folder / QUERIES)]
    assert ids[:3] == [json.loads(line)["_id"] for line in others]
    assert json.loads(first)["_id"] not in ids
    assert len(endpoint.requests) == 5
    assert len(read_dataset(folder, "train").questions) == 3


NESTED = b"[" * 100_000
FAULTS: list[tuple[str | bytes | int | float, str]] = [
    ("", "no question, or no answer"),
    ("Here is a question about it.", "no question, or no answer"),
    ("{" * 5_000 + "}", "no question, or no answer"),
    ('{"question": ["What?"], "answer": 3}', "no question, or no answer"),
    (told("", "salt"), "no question, or no answer"),
    ("x" * 10_000, "no question, or no answer"),
    (told("What " * 3_000 + "?", "salt"), f"over {LONGEST} characters"),
    (told("Tell me of the goods.", "salt"), "not a question"),
    (told("What?\nAnd why?", "salt"), "not a question"),
    (told("What does the passage say of its goods?", "salt"), "speaks of the passage"),
    (told("Which town is known for known things?", "known"), "names its answer"),
    (told("What is the town with the \ud800 known for?", "gold"), "the passage lacks its answer"),
]


@pytest.mark.parametrize(("reply", "fault"), FAULTS)
def test_what_is_no_use_is_kept_apart_with_its_fault(
    reply: str, fault: str, writer: Writer, folder: Path, endpoint: LanguageModel
) -> None:
    def say(instructions: str, passages: str) -> str:
        return reply if len(endpoint.requests) == 1 else writes_well(instructions, passages)

    endpoint.say = say
    writer().write(1, Silent())
    asked = lines(folder / REPLIES)
    assert [line["fault"] for line in asked] == [fault, ""]
    assert len(asked[0]["said"]) <= 1_000
    assert len(lines(folder / QUERIES)) == 1


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (500, "status 500"),
        (401, "status 401"),
        (9.0, "timed out"),
        (b"<html>no JSON", "not a chat completion"),
        (NESTED, "not a chat completion"),
        (b'{"choices": []}', "not a chat completion"),
        (b" " * 2_000_000, "not a chat completion"),
    ],
)
def test_an_endpoint_that_fails_is_told_and_loses_nothing(
    reply: bytes | int | float, says: str, writer: Writer, folder: Path, endpoint: LanguageModel
) -> None:
    def say(instructions: str, passages: str) -> str | bytes | int | float:
        return reply if len(endpoint.requests) > 3 else writes_well(instructions, passages)

    endpoint.say = say
    start = time.monotonic()
    with pytest.raises(EndpointError, match=says):
        writer().write(9, Silent())
    assert time.monotonic() - start < 60
    assert len(read_dataset(folder, "train").questions) == 2
    assert len(read_dataset(folder, "dev").questions) == 1
    endpoint.say = writes_well
    writer().write(9, Silent())
    assert len(lines(folder / QUERIES)) == 9


def test_a_model_that_is_no_use_is_not_paid_for_long(
    writer: Writer, folder: Path, endpoint: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.say = lambda *_: told("What is sold in spring in the land?", "town")
    with pytest.raises(TrainingError, match=r"No passages are left to ask about: '.*' has 1"):
        writer().write(9, Silent())
    assert {line["fault"] for line in lines(folder / REPLIES)[1:]} == {"a duplicate"}
    endpoint.say = lambda *_: "no"
    (folder / REPLIES).unlink()
    monkeypatch.setattr("wye.training.questions.PATIENCE", 3)
    with pytest.raises(TrainingError, match=r"3 replies in a row.*no question, or no answer"):
        writer().write(9, Silent())


def test_names_that_join_passages_are_not_said() -> None:
    told_of = ("What is Mostar known for?", "plums", "Mostar", "Mostar has plums.")
    assert fault_of(*told_of) == "names what joins its passages"
    assert fault_of("What is the town known for?", *told_of[1:]) == ""
    assert parse('Sure! {"question": " A? ", "answer": "b"} Enjoy.') == ("A?", "b")


def test_other_questions_are_left_alone(writer: Writer, folder: Path) -> None:
    folder.mkdir()
    for line, says in (
        ('{"_id": "q1", "text": "Mine?"}', "'q1' of '.*' was not written here"),
        ("not JSON", "queries.jsonl:1 is not a JSON"),
    ):
        (folder / QUERIES).write_text(f"{line}\n", encoding="utf-8")
        with pytest.raises(DatasetError, match=says):
            writer()
        assert (folder / QUERIES).read_text(encoding="utf-8") == f"{line}\n"


def test_the_command(
    index: Path,
    folder: Path,
    endpoint: LanguageModel,
    wye: Wye,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WYE_GENERATOR__KEY", "secret")
    command = ["train", "--write-questions", "5", "--questions", folder, "--index", index]
    code, _, err = wye(*command)
    assert code == 2
    assert "give an http(s) url" in err
    asked = [*command, "--generator-url", endpoint.url, "--generator-model", "writer"]
    code, _, err = wye(*asked, "--questions", "other")
    assert code == 2
    assert "one folder with --questions" in err
    code, out, err = wye(*asked)
    assert (code, err) == (0, "")
    assert "has 5 questions of 5 replies" in out
    assert endpoint.requests[0]["key"] == "Bearer secret"
    assert endpoint.requests[0]["model"] == "writer"
    monkeypatch.setenv("WYE_GENERATOR__URL", endpoint.url)
    monkeypatch.setenv("WYE_GENERATOR__MODEL", "other")
    command[2] = "6"
    assert wye(*command)[0] == 0
    assert endpoint.requests[-1]["model"] == "other"


ASKED = "[1] Como is a lake in Lombardy.\n\nQuestion: Where lies Como?"


def test_an_endpoint_is_asked_and_what_may_pass_is_tried_again(endpoint: LanguageModel) -> None:
    said: list[int | str] = ["In Lombardy.", 503, 429, "In Italy."]
    endpoint.say = lambda *_: said.pop(0)
    with ChatClient(endpoint.url, "reader", key="secret") as client:
        assert client.complete("Answer.", ASKED) == "In Lombardy."
    (body,) = endpoint.requests
    expected = {"path": "/v1/chat/completions", "key": "Bearer secret", "model": "reader"}
    assert body.items() >= {**expected, "temperature": 0}.items()
    messages = body["messages"]
    assert isinstance(messages, list)
    assert [message["content"] for message in messages] == ["Answer.", ASKED]
    with ChatClient(endpoint.url, "reader") as client:
        assert client.complete("Answer.", ASKED) == "In Italy."
    assert [request["key"] for request in endpoint.requests[1:]] == [None] * 3
