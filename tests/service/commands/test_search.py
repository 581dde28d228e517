"""`wye search --url`: a running server is asked; all else of the command is in `test_cli`."""

import json
from collections.abc import Callable, Iterator

import pytest

from service.app import build
from service.http.keys import Scope, new_key
from service.settings import ServeSettings, ServiceSettings
from tests.live import listening
from tests.service.fakes import Library

Wye = Callable[..., tuple[int, str, str]]


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    secret, key = new_key("me", [Scope.READ])
    monkeypatch.setenv("WYE_KEY", secret)
    settings = ServiceSettings(serve=ServeSettings(keys=(str(key),)))
    with listening(build(settings, {"default": Library})) as found:
        yield found


def test_a_server_is_asked_with_the_key_of_the_environment(
    url: str, wye: Wye, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = wye("search", "Which bridge is in Mostar?", "--url", f"{url}/", "-k", "2")
    assert code == 0
    assert "Which bridge is in Mostar?" in out
    assert "  1  " in out
    code, out, _ = wye("search", "Mostar", "--url", url, "--route", "dense", "-k", "2", "--json")
    (reply,) = json.loads(out)
    assert (code, reply["question"], reply["route"]["path"]) == (0, "Mostar", "dense")
    assert 0 < len(reply["passages"]) <= 2
    monkeypatch.setenv("WYE_KEY", "wye_wrong")
    code, _, err = wye("search", "Mostar", "--url", url)
    assert code == 2
    assert "answered 401: " in err
    assert "API key is unknown" in err


def test_what_the_server_refuses_is_told(url: str, wye: Wye) -> None:
    for words in (["--route", "sideways"], ["-k", "0"], ["--collection", "other"]):
        code, out, err = wye("search", "Mostar", "--url", url, *words)
        assert (code, out) == (2, "")
        assert "/v1/retrieve answered 4" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "http://127.0.0.1:1"], "No `wye serve` answers at http://127.0.0.1:1"),
        (["--url", "nonsense"], "No `wye serve` answers at nonsense"),
        (["--url", "http://127.0.0.1:1", "--index", "x"], "not both"),
    ],
)
def test_mistakes_are_told_in_a_sentence(words: list[str], said: str, wye: Wye) -> None:
    code, out, err = wye("search", "Mostar", *words)
    assert (code, out) == (2, "")
    assert said in err
