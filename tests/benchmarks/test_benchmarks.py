import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import harness, load, plain_dense
from benchmarks.__main__ import BENCHMARKS, main, usage
from benchmarks.harness import Table, intervals, number, percentiles, print_header
from benchmarks.papers import TABLES, gain_at
from benchmarks.quality import ALL, RECORDED, SYSTEMS
from benchmarks.remote_arms import FAULTS, Proxy, ask_all, called, declared
from tests.live import LocalServer, send
from tests.service.arms.fakes import Remote, arms_file
from wye.service.arms.file import read_arms


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_tells_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_an_unknown_name_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sprint"]) == 2
    assert usage() in capsys.readouterr().err
    assert main(["../x"]) == 2
    assert main(["--help"]) == 0
    assert "crash --kills" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("load FOLDER", "cannot be read"),
        ("load FOLDER/asked.txt", "name an index with --index"),
        ("quality --against FOLDER/none.json", "has no figures"),
        ("quality FOLDER", "queries.jsonl"),
    ],
)
def test_what_is_missing_is_a_sentence_and_exit_code_2(
    arguments: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked.txt").write_text("Who came?\n")
    assert main(arguments.replace("FOLDER", str(tmp_path)).split()) == 2
    assert said in capsys.readouterr().err


def test_header_names_machine_commit_seed_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    print_header("Speed", seed=None, data="2 passages")
    printed = capsys.readouterr().out
    assert printed.startswith("# Speed\n# machine  ")
    assert "# commit   " in printed
    assert "# seed     none\n# data     2 passages\n" in printed


def test_table_aligns_names_left_and_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(["arm", "p50 ms", "passages"], width=6)
    table.row("dense", 0.25, 6119)
    assert capsys.readouterr().out.splitlines() == [
        "arm        p50 ms   passages",
        "------  ---------  ---------",
        "dense       0.250      6,119",
    ]
    with pytest.raises(ValueError, match="longer than"):
        table.row("dense")


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        *[(0.1234, "0.123"), (12.3456, "12.346"), (123.45, "123.5"), (12345.6, "12,346")],
        *[(6119, "6,119"), (0.0, "0.0"), (np.nan, "-")],
    ],
)
def test_numbers(value: float, printed: str) -> None:
    assert number(value) == printed


def test_percentiles_are_milliseconds() -> None:
    assert percentiles([0.001, 0.002, 0.003]) == pytest.approx((2.0, 2.9, 2.98))


def test_a_star_marks_a_difference_that_excludes_zero() -> None:
    base = np.tile([[0.0], [1.0]], (50, 1))
    values = np.hstack([base, base + 0.5, 1 - base])
    same, better, other = intervals(values, np.hstack([base] * 3), seed=0)
    assert same.startswith("0.500 [0.4")
    assert same.endswith("] ")
    assert better.startswith("1.000 [0.9")
    assert better.endswith("]*")
    assert other.endswith("] ")


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server that refuses every third request."""
    asked = itertools.count(1)

    def answer(to: BaseHTTPRequestHandler, _: bytes) -> None:
        send(to, 200 if next(asked) % 3 else 503, b"{}")

    with closing(LocalServer(answer, "HTTP/1.1")) as server:
        yield server.url


def test_a_sample_counts_what_came(url: str) -> None:
    async def scene() -> load.Sample:
        client = load.LoadClient(url)
        try:
            return await load.open_loop(client, [{"question": "x"}], 300, 0.1)
        finally:
            await client.close()

    sample = asyncio.run(scene())
    assert (len(sample.answered), len(sample.refused), sample.failed) == (20, 10, 0)


def test_every_table_is_printed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        harness.ServerProcess, "of", lambda _: nullcontext(SimpleNamespace(url=url))
    )
    questions = tmp_path / "questions.txt"
    questions.write_text("one\n\ntwo\n", encoding="utf-8")
    options = ["--seconds", "0.1", "--clients", "1,4"]
    assert main(["load", str(questions), "--index", str(tmp_path), *options]) == 0
    printed = capsys.readouterr().out
    assert "Overload: 4 times" in printed
    assert "\n503 " in printed


def test_a_table_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "x", "--indexes", "x", "--tables", "recall,prices"]) == 2
    assert f"No table 'prices'; there is {', '.join(TABLES)}." in capsys.readouterr().err


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 9)), min_size=1, max_size=8), st.data())
def test_the_gain_of_a_share_is_that_of_its_first_questions_and_the_mean_of_equal_ones(
    rows: list[tuple[float, int]], data: st.DataObject
) -> None:
    taken = data.draw(st.integers(0, len(rows)))
    # Questions with equal scores are as good as their mean.
    means = {s: np.mean([gain for gain, own in rows if own == s]) for _, s in rows}
    first = sorted((score for _, score in rows), reverse=True)[:taken]
    gains, scores = np.array(rows, float).T
    slow = sum(means[score] for score in first) / len(rows)
    assert gain_at(gains, scores, taken / len(rows)) == pytest.approx(slow, abs=1e-9)


def test_systems_take_turns_and_each_is_first_as_often() -> None:
    order: list[str] = []

    def system(name: str) -> Callable[[str], object]:
        return lambda question: order.append(name + question)

    times = harness.in_turns({name: system(name) for name in "ab"}, ["0", "1", "2", "3"])
    assert order[: -2 * 4] == [f"{name}{number}" for name in "ab" for number in range(4)]
    assert order[-2 * 4 :] == ["a0", "b0", "b1", "a1", "a2", "b2", "b3", "a3"]
    assert {name: len(own) for name, own in times.items()} == {"a": 4, "b": 4}
    assert harness.WARM_UP >= 4


def test_a_ratio_of_medians_lies_in_its_interval() -> None:
    other = np.random.default_rng(0).uniform(1, 2, 200)
    ratio, interval = plain_dense.ratio_of_medians(other / 2, other, seed=1)
    assert (ratio, interval) == (0.5, "[0.50 0.50]")
    noise = np.random.default_rng(1).uniform(1, 2, 200)
    ratio, interval = plain_dense.ratio_of_medians(noise, other, seed=1)
    low, high = map(float, interval.strip("[]").split())
    assert low < ratio < high
    assert high - low < 0.3


@pytest.mark.slow
def test_figures_are_recorded_and_a_difference_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    command = f"quality --limit 4 --indexes {tmp_path}"
    assert main(f"{command} --write {file}".split()) == 0
    figures = json.loads(file.read_text("utf-8"))
    assert [*figures["demo"]] == [*SYSTEMS]
    assert figures["demo"] == figures[ALL]
    hybrid, steps = (figures["demo"][route] for route in ("hybrid", "steps"))
    assert (hybrid["without graph"], hybrid["in steps"]) == (1, 0)
    assert (steps["without graph"], steps["ms"] > 1) == (0, True)
    assert main(f"{command} --against {file}".split()) == 0
    figures["demo"]["fusion"]["nDCG@10"] -= 0.003
    file.write_text(json.dumps(figures), "utf-8")
    assert main(f"{command} --against {file}".split()) == 1
    assert "1 figures differ by more than 0.002." in capsys.readouterr().out


def test_every_route_is_recorded() -> None:
    for dataset, means in json.loads(RECORDED.read_text("utf-8")).items():
        assert [*means] == [*SYSTEMS], dataset


async def test_the_proxy_fails_as_it_is_told_to(remote: Remote, tmp_path: Path) -> None:
    passage = {"id": "a", "text": "Text.", "title": "", "score": 0.5, "metadata": {}}
    remote.reply = {"passages": [passage], "degraded": ""}
    async with Proxy(remote.url, 0.3, 0) as proxy:
        path = arms_file(tmp_path, declared(proxy.url, 1000))
        (arm,) = read_arms(path, ["default"], 5.0)["default"]
        fine = await arm.search("?", 5, None, 5.0)
        assert (fine.outcome, fine.hits[0].id, fine.spent) == ("ok", "a", 0.02)
        assert fine.seconds > 0.2
        proxy.faulty = 1.0
        outcomes = {}
        for fault in FAULTS:
            proxy.faults = (fault,)
            outcomes[fault] = (await arm.search("?", 5, None, 5.0)).outcome
            arm.breaker.succeed()
        await arm.close()
    assert outcomes == {
        "refused": "broken",
        "hanging": "timeout",
        "slow": "timeout",
        "garbled": "garbled",
        "busy": "refused",
        "broken": "broken",
    }


async def test_a_question_is_timed(remote: Remote) -> None:
    remote.reply = {"arms": {"remote": {"remote": {"calls": 1}}}}
    (reply,) = await ask_all(remote.url, ["Which?"], 1, route="graph")
    remote.mode, remote.reply = 503, {"detail": "Busy."}
    (refused,) = await ask_all(remote.url, ["Which?"], 1)
    assert reply.elapsed.total_seconds() > 0
    assert remote.asked[0] == {"question": "Which?", "k": 10, "route": "graph"}
    assert (called(reply), called(refused), refused.status_code) == (True, False, 503)
