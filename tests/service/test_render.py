import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from wye import Hit, Hits
from wye.backends.types import RankedHit, Ranking
from wye.featurizer.plan import Plan, Step
from wye.router.types import (
    BASELINE,
    Candidate,
    ChainStep,
    Contribution,
    Decision,
    Reply,
    Route,
    Thresholds,
)
from wye.service import render

WHY = (
    Contribution(BASELINE, 0.5),
    Contribution("clauses", 0.75, 2.0),
    Contribution("depth", -0.25, 7.0),
    Contribution("width", 0.125, 3.0),
)
DECISION = Decision(Route.GRAPH, 0.75, 1.125, Thresholds(0.25, 0.5), "score", "router/v1", WHY)


def printed(decision: Decision) -> str:
    out = StringIO()
    render.show_decision(Console(file=out, width=100, highlight=False), decision)
    return out.getvalue()


def test_all_of_a_decision_is_shown() -> None:
    text = printed(DECISION)
    assert "route graph  score 0.750  router/v1" in text
    assert "Simple up to 0.250, the graph from 0.500 on." in text
    assert max(map(len, text.splitlines())) <= 80
    assert "more)" not in text


def test_what_is_left_out_is_summed_so_that_the_table_adds_up() -> None:
    shown = [Contribution(f"clauses {n}", 0.25, 2.0) for n in range(render.SHOWN_FEATURES)]
    text = printed(replace(DECISION, contributions=(WHY[0], *shown, *WHY[2:])))
    rows = [line.split() for line in text.splitlines()]
    assert ["(2", "more)", "-0.125"] in rows
    assert ["sum", f"{0.5 + 0.25 * render.SHOWN_FEATURES - 0.125:+.3f}"] in rows
    assert not any(row[:1] == ["depth"] for row in rows)


def test_without_a_score_there_is_only_the_route_and_the_reason() -> None:
    decision = Decision(Route.DENSE, None, None, None, "degraded: the index is empty")
    assert printed(decision) == "route dense  degraded: the index is empty\n"


def test_a_chain_tells_names_and_where_they_stand() -> None:
    names = [
        Candidate(f"Name [b]{n}[/b]", 1 / (n + 1), f"p{n}") for n in range(render.SHOWN_NAMES + 1)
    ]
    names[0] = replace(names[0], row=7, sentence="Sibelius wrote Finlandia.")
    out = StringIO()
    chain = [
        ChainStep("the composer of Finlandia", "the composer of Finlandia", 1, tuple(names)),
        ChainStep("the country where he was born", "the country where", 2, ()),
    ]
    render.show_chain(Console(file=out, width=160, highlight=False), chain)
    lines = out.getvalue().splitlines()
    (first,) = [line for line in lines if "p0" in line]
    assert "the composer of Finlandia" in first
    assert "Name [b]0[/b]" in first
    assert "p0: Sibelius wrote Finlandia." in first
    assert sum("Name [b]" in line for line in lines) == render.SHOWN_NAMES
    assert "nothing" in next(line for line in lines if "the country where" in line)


def test_a_hit_is_one_line_whatever_its_id() -> None:
    ranking = Ranking("far", (RankedHit("a\nb", 0.5, 1),))
    reply = Reply("Which?", Route.GRAPH, ranking, {}, {}, 0)
    hits = Hits([Hit("a\nb", 1, 0.5, "An\r\nold  bridge", "Text.", {})], reply)
    printed = StringIO()
    render.list_hits(Console(file=printed, width=80), hits, gold=())
    assert printed.getvalue().splitlines()[-1].strip() == "1  0.5000   An old bridge  a b"


def test_what_was_searched_for_instead_is_said_and_its_phrases_are_shown() -> None:
    question, searched = "Who is the keper of the lamp?", "Who is the keeper of the lamp?"
    plan = Plan((Step((7, 29), "bridge", "person"),))
    decision = replace(DECISION, plan=plan, contributions=())
    reply = Reply(question, Route.STEPS, Ranking("steps", ()), {}, {}, 0, decision=decision)
    hits, out = Hits([], replace(reply, searched=searched)), StringIO()
    render.show_hits(Console(file=out, width=80), hits)
    assert f"searched for: {searched}" in out.getvalue()
    assert "the keeper of the lamp  person" in out.getvalue()
    assert json.loads(render.hits_json([hits], explain=False))[0]["searched"] == searched


def test_a_servers_reply_says_what_was_searched_for_and_folded() -> None:
    out = StringIO()
    reply: dict[str, object] = {"question": "Who?", "route": {"path": "fusion", "summary": ""}}
    reply |= {"answerability": None, "degraded": "", "passages": [], "timings_ms": {"total": 1.0}}
    reply |= {"searched": "Whom?", "folded": 2}
    render.show_reply(Console(file=out, width=80), reply)
    assert "searched for: Whom?" in out.getvalue()
    assert "2 near-duplicates were put behind the other passages" in out.getvalue()
