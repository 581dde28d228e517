import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from wye.backends.store.ingest import ingest
from wye.backends.types import Passage
from wye.router.model_files import save_policy
from wye.router.policy import Policy
from wye.router.session import Session
from wye.router.settings import load_settings as load_routers
from wye.router.types import Thresholds
from wye.service.cli import run
from wye.service.doctor import Finding, Health, examine
from wye.service.http.edge import Scope
from wye.service.http.keys import append_key, new_key
from wye.service.settings import ServeSettings, ServiceSettings

pytestmark = pytest.mark.usefixtures("reading_models")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    target = Session.create(load_routers(), folder)
    ingest(target.index, [Passage("a", "Ada", "Ada met Babbage.")], target.analyser)
    return folder


def findings(serve: ServeSettings) -> dict[str, Finding]:
    settings = ServiceSettings(serve=serve)
    return {finding.subject: finding for finding in examine(settings)}


def check(finding: Finding, state: Health, says: str) -> None:
    assert (finding.state, says in finding.says) == (state, True), finding.says


def free() -> ServeSettings:
    return ServeSettings(port=0)


def test_a_server_that_would_work(index: Path) -> None:
    checks = findings(replace(free(), indexes=(f"a={index}",)))
    check(checks["index a"], Health.GOOD, "1 passages; every route answers")
    assert {checks[name].state for name in ("access", "address")} == {"good"}


def test_a_route_that_is_not_available_is_a_warning(fake_models: None, tmp_path: Path) -> None:
    target = Session.create(load_routers(), tmp_path / "index")
    ingest(target.index, [Passage("a", "Ada", "Ada met Babbage.")], target.analyser)
    checks = findings(replace(free(), indexes=(f"a={tmp_path / 'index'}",)))
    check(checks["index a"], Health.WARNING, "auto: Router 'router-en/v1' was trained")


def test_an_index_that_is_not_there_and_one_that_is_empty(tmp_path: Path) -> None:
    Session.create(load_routers(), tmp_path / "empty")
    wanted = (f"a={tmp_path / 'missing'}", f"b={tmp_path / 'empty'}")
    checks = findings(replace(free(), indexes=wanted))
    check(checks["index a"], Health.BAD, "There is no index")
    check(checks["index b"], Health.WARNING, "is empty")
    assert findings(free())["indexes"].says.startswith("Serve what?")


def test_keys(index: Path, tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    public = replace(free(), host="0.0.0.0", indexes=(str(index),))
    assert "there is no API key" in findings(public)["access"].says
    append_key(path, new_key("ada", [Scope.READ])[1])
    assert findings(replace(public, keys_file=path))["access"].says == "1 API keys."
    path.chmod(0o644)
    assert findings(replace(public, keys_file=path))["access"].state == Health.WARNING
    path.chmod(0o662)
    check(findings(replace(public, keys_file=path))["access"], Health.BAD, "so add keys")
    path.chmod(0o600)
    bound = new_key("bob", [Scope.READ], ["docs"], {"type": "eq", "key": "acl", "value": "all"})[1]
    append_key(path, bound)
    sentence = findings(replace(public, keys_file=path))["access"].says
    assert sentence == "2 API keys, 1 bound to collections or filters."
    path.write_text(f"{path.read_text(encoding='utf-8')}garbage\n", encoding="utf-8")
    check(
        findings(replace(public, keys_file=path))["access"], Health.BAD, "Line 3 of the keys file"
    )


def test_the_filter_of_a_key_that_keeps_out_nothing_or_everything(
    index: Path, tmp_path: Path
) -> None:
    target = Session.open(load_routers(), index)
    ingest(target.index, [Passage("b", "", "Bob left.", {"level": 3})], target.analyser)
    for number, (type_, key, value, says) in enumerate(
        [
            ("ne", "level", "3", "\"3\" is text, but the values of 'level' are numbers."),
            ("ne", "levle", 3, "No passage has the key 'levle'. Did you mean level?"),
            ("eq", "level", "3", "filter of key 'ada2' keep out what it should?"),
            ("ne", "level", 3, ""),
        ]
    ):
        path, filter_ = tmp_path / f"{number}", {"type": type_, "key": key, "value": value}
        append_key(path, new_key(f"ada{number}", [Scope.READ], ["a"], filter_)[1])
        checks = findings(replace(free(), keys_file=path, indexes=(f"a={index}", f"b={index}")))
        check(checks["index a"], Health.WARNING if says else Health.GOOD, says)
        check(checks["index b"], Health.GOOD, "")


def test_an_address_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finding = findings(replace(free(), port=taken.getsockname()[1]))["address"]
    check(finding, Health.BAD, "choose another --port")


def test_the_command(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--index", f"a={index}"]) == 0
    assert "ok       index a: " in capsys.readouterr().out
    assert run(["doctor", "--index", "a=/nowhere", "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)
    assert {finding["state"] for finding in checks} == {"good", "bad"}


def test_a_router_and_thresholds_of_a_collection(
    index: Path,
    tmp_path: Path,
    handmade_router: Callable[[Path, str, float], Path],
) -> None:
    router = handmade_router(tmp_path / "models", "words", 1.0)
    file = tmp_path / "thresholds.json"
    save_policy(file, Policy(Thresholds(0.25, 0.5), router="handmade/v1"), {})
    wanted = replace(
        free(),
        indexes=(f"a={index}", f"b={index}", f"c={index}"),
        routers=(f"a={router}", f"b={router}"),
        thresholds=(f"a={file}",),
    )
    checks = findings(wanted)
    assert {checks[f"index {name}"].state for name in "abc"} == {Health.GOOD}
    save_policy(file, Policy(Thresholds(0.25, 0.5), router="another/v1"), {})
    missing = replace(wanted, routers=(*wanted.routers, "c=nobody/v1"))
    checks = findings(missing)
    for name, says in (("a", "'another/v1', not 'handmade/v1'"), ("c", "'nobody/v1'")):
        check(checks[f"index {name}"], Health.BAD, says)
    unknown = replace(wanted, thresholds=(f"z={file}",))
    assert "'z', which is not a collection" in findings(unknown)["indexes"].says


def test_a_damaged_index_is_bad_and_the_rest_is_looked_at(index: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(index, other)
    for path in (other / "passages.lance" / "data").iterdir():
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    checks = findings(replace(free(), indexes=(f"a={other}", f"b={index}")))
    check(checks["index a"], Health.BAD, "has changed since it was committed. `wye repair")
    check(checks["index b"], Health.GOOD, "every route answers")


def test_what_nobody_foresaw_is_bad_and_the_rest_is_looked_at(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Session, "build", fail)
    checks = findings(replace(free(), indexes=(f"a={index}",)))
    check(checks["index a"], Health.BAD, "ZeroDivisionError: division by zero")
    assert "address" in checks
