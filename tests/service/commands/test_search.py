"""`wye search --url`: a running server is asked; all else of the command is in `test_cli`."""

import json
from collections.abc import Iterator

import pytest

from tests.fakes import Wye
from tests.live import listening
from tests.service.fakes import Library
from tests.service.test_cli import HEAVY, imported
from wye.service.app import build
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import ServeSettings, ServiceSettings


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    secret, key = new_key("me", [Scope.READ])
    monkeypatch.setenv("WYE_KEY", secret)
    settings = ServiceSettings(serve=ServeSettings(keys=(str(key),)))
    with listening(build(settings, {"default": Library})) as base:
        yield base


def test_a_server_is_asked_with_the_key_of_the_environment(
    url: str, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = wye("search", "Which bridge is in Mostar?", "--url", f"{url}/", "-k", "2")
    assert code == 0
    assert "Which bridge is in Mostar?" in out
    assert "  1  " in out
    _, out, _ = wye("search", "Which bridge is in Mostar?", "--url", url, "--explain")
    assert "How it is built speaks for" in out
    code, out, _ = wye("search", "Mostar", "--url", url, "--route", "dense", "-k", "2", "--json")
    (reply,) = json.loads(out)
    assert (code, reply["question"], reply["route"]["path"]) == (0, "Mostar", "dense")
    assert 0 < len(reply["passages"]) <= 2
    monkeypatch.setenv("WYE_KEY", "wye_wrong")
    code, _, err = wye("search", "Mostar", "--url", url)
    assert code == 2
    assert "answered 401: " in err
    assert "API key is unknown" in err


def test_asking_a_server_loads_no_model_and_no_arm(url: str) -> None:
    out, packages = imported("search", "Which bridge is in Mostar?", "--url", url, "--explain")
    assert "  1  " in out
    assert not packages & HEAVY


def test_a_question_that_a_server_has_no_answer_to_is_told(url: str, wye: Wye) -> None:
    code, out, _ = wye("search", "A cake of the bridge", "--url", url)
    assert (code, "probably not in this corpus (probability of an answer 0.02)" in out) == (0, True)


def test_another_program_is_told(url: str, wye: Wye, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wye.service.commands.search._post", lambda *_: {"question": "Mostar"})
    code, _, err = wye("search", "Mostar", "--url", url)
    assert (code, "answered, but not as this version's `wye serve` does" in err) == (2, True)


def test_what_the_server_refuses_is_told(url: str, wye: Wye) -> None:
    for words in (["--route", "sideways"], ["-k", "0"], ["--collection", "other"]):
        code, out, err = wye("search", "Mostar", "--url", url, *words)
        assert (code, out) == (2, "")
        assert "/v1/retrieve answered 4" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--url", "http://127.0.0.1:1"], "No `wye serve` answers at http://127.0.0.1:1"),
        (["--url", "nonsense"], "No `wye serve` answers at nonsense"),
        (["--url", "http://127.0.0.1:1", "--index", "x"], "not both"),
    ],
)
def test_mistakes_are_told_in_a_sentence(words: list[str], sentence: str, wye: Wye) -> None:
    code, out, err = wye("search", "Mostar", *words)
    assert (code, out) == (2, "")
    assert sentence in err
