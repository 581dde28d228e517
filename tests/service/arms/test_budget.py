"""What API keys may spend in a day: in the file, and in requests."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.live import until
from tests.service.arms.fakes import Remote, table
from tests.service.fakes import Serve
from tests.service.fakes import retrieve as ask
from wye.service.arms.budget import Ledger
from wye.service.errors import ServiceError
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key

COSTLY = "In which of the towns by the river Neretva is it?"
SPENDER = """
import sys
from pathlib import Path
from wye.service.arms.budget import Ledger
while Ledger(Path(sys.argv[1])).take("ada", 0.02, 1e9)[0]:
    print("x", end="", flush=True)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "wye.spent")


def test_no_more_is_taken_than_is_left(ledger: Ledger) -> None:
    taken = [ledger.take("ada", 0.1, 0.3)[0] for _ in range(5)]
    assert taken == pytest.approx([0.1, 0.1, 0.1, 0.0, 0.0])
    assert min(taken[:3]) >= 0.1, "what is left is not lost to a sum of binary fractions"
    assert ledger.spent("ada") == pytest.approx(0.3)
    assert ledger.take("bob", 0.5, 0.3)[0] == 0.3
    assert ledger.spent("eve") == 0.0


def test_what_was_not_spent_goes_back_to_its_day(tmp_path: Path) -> None:
    days = [date(2026, 3, 1)]
    ledger = Ledger(tmp_path / "wye.spent", lambda: days[-1])
    _, day = ledger.take("ada", 1.0, 1.0)
    ledger.give_back("ada", 0.75, day)
    assert ledger.spent("ada") == 0.25
    days.append(date(2026, 3, 2))
    assert ledger.take("ada", 1.0, 1.0)[0] == 1.0
    ledger.give_back("ada", 0.25, day)
    assert ledger.spent("ada") == 1.0


def test_all_who_ask_at_once_take_no_more_than_there_is(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path / "wye.spent") for _ in range(4)]
    ledgers[0].check()
    with ThreadPoolExecutor(4) as threads:
        taken = threads.map(lambda n: ledgers[n % 4].take("ada", 0.02, 0.2)[0], range(24))
        assert sum(taken) == pytest.approx(0.2)
    assert ledgers[0].spent("ada") == pytest.approx(0.2)


def test_what_was_taken_is_there_after_a_kill(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "wye.spent")
    for _ in range(3):
        before = ledger.spent("ada")
        with subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(ledger.path)], stdout=subprocess.PIPE
        ) as spender:
            assert spender.stdout
            stats = len(os.read(spender.stdout.fileno(), 3))
            spender.send_signal(signal.SIGKILL)
            stats += len(spender.stdout.read())
        spent = ledger.spent("ada") - before
        assert stats * 0.02 - 1e-9 <= spent <= (stats + 1) * 0.02 + 1e-9
        assert ledger.take("ada", 0.02, 1e9)[0] == 0.02


def test_a_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wye.spent"
    path.write_text("a shopping list, and by no means short " * 100, encoding="utf-8")
    with pytest.raises(ServiceError, match=r"wye\.spent.*WYE_SERVE__SPENT_FILE"):
        Ledger(path).check()


@pytest.fixture
def limited(gateway: Serve) -> Serve:
    """A server whose keys may spend so much a day; the arm far costs 0.02."""

    def start(*more: str, most: float | None = 0.05, **options: Any) -> TestClient:  # noqa: ANN401
        return gateway(*more, retries=1, options={"max_cost_per_day": most, **options})

    return start


SPENT = "budget: a call costs 0.02, more than is left of max_cost_per_day"


@pytest.mark.parametrize("route", ["auto", "fusion", "graph", "steps"])
def test_when_it_is_spent_what_costs_nothing_answers(
    limited: Serve, remote: Remote, tmp_path: Path, route: str
) -> None:
    client = limited()
    replies = [ask(client, COSTLY, route=route) for _ in range(4)]
    assert [one["spent"] for one in replies] == [0.02, 0.02, 0.0, 0.0]
    assert [one["missing"] for one in replies[1:3]] == [[], [{"arm": "far", "reason": SPENT}]]
    assert len(remote.asked) == 2
    assert all(one["passages"] and not one["degraded"] for one in replies)
    assert Ledger(tmp_path / "wye.spent").spent("local") == pytest.approx(0.04)


def test_an_arm_that_costs_nothing_is_asked_all_the_same(limited: Serve, remote: Remote) -> None:
    client = limited(table(remote.url, "free", role="list", price=0), most=0.0)
    reply = ask(client, COSTLY, route="fusion")
    assert reply["arms"]["free"]["returned"] == 2
    assert reply["missing"] == [{"arm": "far", "reason": SPENT}]


def test_each_key_has_its_own(limited: Serve, tmp_path: Path) -> None:
    made = {
        "ada": new_key("ada", [Scope.READ], max_cost_per_day=0.02),
        "bob": new_key("bob", [Scope.READ], max_cost_per_day=0.0),
        "eve": new_key("eve", [Scope.READ]),
    }
    client = limited(most=None, keys=tuple(str(key) for _, key in made.values()))
    spent = {
        name: [
            ask(client, COSTLY, headers={"authorization": f"Bearer {secret}"})["spent"]
            for _ in range(2)
        ]
        for name, (secret, _) in made.items()
    }
    assert spent == {"ada": [0.02, 0.0], "bob": [0.0, 0.0], "eve": [0.02, 0.02]}
    assert (tmp_path / "wye.spent").exists()


def test_without_a_bound_there_is_no_file(limited: Serve, tmp_path: Path) -> None:
    ask(limited(most=None), COSTLY)
    assert not (tmp_path / "wye.spent").exists()


def test_two_arms_share_what_there_is(limited: Serve, remote: Remote) -> None:
    client = limited(table(remote.url, "more", role="list", price=0.02), most=0.03)
    reply = ask(client, COSTLY)
    assert (reply["spent"], [one["arm"] for one in reply["missing"]]) == (0.02, ["more"])


def test_questions_at_once_spend_no_more_than_there_is(limited: Serve, remote: Remote) -> None:
    client = limited()
    remote.mode = "slow"
    with ThreadPoolExecutor(6) as threads:
        replies = threads.map(lambda _: ask(client, COSTLY, deadline_ms=60_000), range(6))
        assert sum(reply["spent"] for reply in replies) == pytest.approx(0.04)


def test_what_calls_did_not_cost_goes_back(limited: Serve, remote: Remote, tmp_path: Path) -> None:
    client = limited(table(remote.url, "more", role="list", price=0.02), most=1.0)
    remote.modes = [401]
    assert ask(client, COSTLY)["spent"] == 0.02
    assert Ledger(tmp_path / "wye.spent").spent("local") == pytest.approx(0.02)


@pytest.mark.parametrize("how", ["damaged", "locked"])
def test_a_file_that_fails_costs_nobody_an_answer_and_holds_nobody_up(
    limited: Serve, remote: Remote, tmp_path: Path, how: str
) -> None:
    client = limited()
    if how == "damaged":
        (tmp_path / "wye.spent").write_bytes(b"a shopping list " * 500)
    with closing(sqlite3.connect(tmp_path / "wye.spent", isolation_level=None)) as holder:
        if how == "locked":
            holder.execute("BEGIN EXCLUSIVE")
        reply = ask(client, COSTLY, deadline_ms=2_000)
    assert (reply["missing"], remote.asked) == ([{"arm": "far", "reason": SPENT}], [])


def test_a_server_that_cannot_write_it_does_not_begin(limited: Serve, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="WYE_SERVE__SPENT_FILE"):
        limited(spent_file=tmp_path / "missing" / "spent")


def test_who_goes_away_has_spent_it(limited: Serve, remote: Remote, tmp_path: Path) -> None:
    client = limited(most=0.05)
    remote.mode = "hang"
    assert ask(client, COSTLY, deadline_ms=300)["spent"] == 0.02
    ledger = Ledger(tmp_path / "wye.spent")
    until(lambda: ledger.spent("local") == pytest.approx(0.02))
