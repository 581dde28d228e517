"""The command line with the real models, in processes of its own, as a person runs it."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path

import pytest

import wye
from tests.featurizer.encoders import write_encoder
from wye.featurizer.constituency.tree import parse_brackets
from wye.router.session import Session
from wye.router.types import ABSTAIN_BELOW, USUAL, Ask, Route
from wye.service.cli import run
from wye.service.commands.demo import judged_questions, one_of_each_kind
from wye.service.settings import load_settings

ROOT = Path(__file__).parents[2]
DEMO, NESTED = ROOT / "service" / "demo", ROOT / "service" / "demo_steps"
ROWS = [
    ("ada", "Ada Lovelace", "Ada Lovelace met Charles Babbage at a party in London in 1833."),
    ("babbage", "Charles Babbage", "Charles Babbage designed the Analytical Engine."),
    ("engine", "Analytical Engine", "The Analytical Engine had a mill and a store."),
    ("menabrea", "Luigi Menabrea", "Luigi Menabrea, later prime minister of Italy, described it."),
    ("turin", "Turin", "Babbage gave a talk on his engine in Turin, where Menabrea heard it."),
]
MACHINE = "Who designed the machine that Menabrea described?"
MEETING = "Where did Ada meet Babbage?"

# What a process runs: every way to a network raises, then several commands as a person gives them.
OFFLINE = """
import json, socket, sys

def refuse(*arguments, **_):
    raise AssertionError(f"network access: {arguments}")

socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = socket.gethostbyname = socket.create_connection = refuse
from wye.service.cli import run
for command in json.loads(sys.argv[1]):
    code = run(command)
    if code:
        sys.exit(f"{command} ended with {code}")
"""


def offline(*commands: Sequence[str | Path], hash_seed: int) -> list[str]:
    """Run commands one after another in one process; the lines they print."""
    given = json.dumps([[str(argument) for argument in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, given],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def write_corpus(path: Path, seed: int) -> Path:
    rows = list(ROWS)
    random.Random(seed).shuffle(rows)
    lines = (json.dumps({"_id": i, "title": title, "text": text}) for i, title, text in rows)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What two processes print that index and search the same passages.

    Each has its own order of the corpus file and its own hash seed.
    """
    printed = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("real")
        corpus, index = write_corpus(folder / "corpus.jsonl", seed), folder / "index"
        searches = [
            ("search", question, "--index", index, "--route", route, "--json", "--explain")
            for question, route in ((MACHINE, "fusion"), (MEETING, "graph"))
        ]
        lines = offline(("index", corpus, "--index", index), *searches, hash_seed=seed)
        # What comes first names the folder and the seconds.
        printed.append([*dropwhile(lambda line: not line.startswith(("{", "[")), lines)])
    return printed


def test_nothing_needs_a_network(answers: list[list[str]]) -> None:
    text = "\n".join(answers[0])
    assert '"id": "babbage"' in text
    assert '"mention": "Menabrea"' in text


def test_the_same_passages_and_questions_give_the_same_bytes(answers: list[list[str]]) -> None:
    assert answers[0] == answers[1]


def test_what_the_readme_and_the_demo_ask_is_answered_first_by_auto(tmp_path: Path) -> None:
    """Over the real demo index; a newcomer's first question must not come out wrong."""
    judged = [
        *judged_questions(NESTED, ("test",)),
        *judged_questions(DEMO, ("train", "dev", "test")),
    ]
    gold = {one.text: one.gold for one in judged}
    readme = (ROOT / "README.md").read_text("utf-8")
    asked = re.findall(r'wye search "(.+?)"([^\n]*demo-index[^\n]*)', readme)
    texts_of_readme = {text for text, options in asked if "--route" not in options}
    assert texts_of_readme
    assert "merge branches in git, the demo says" in readme
    kinds = one_of_each_kind(judged_questions(DEMO, ("train", "dev")))
    questions = texts_of_readme | {one.text for one in kinds}
    with wye.create(tmp_path / "index") as index:
        index.add(wye.read(DEMO))
        answerability = index.search("How do I merge two branches in git?").answerability
        by_text = {hits.question: hits for hits in index.search_many([*questions], k=2)}
    assert answerability is not None
    assert answerability < ABSTAIN_BELOW
    assert {
        text: hits[0].id for text, hits in by_text.items() if hits[0].id not in gold[text]
    } == {}
    assert all({hit.id for hit in by_text[text]} == gold[text] for text in texts_of_readme)


def test_documents_move_to_another_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, lines = tmp_path / "old", tmp_path / "new", tmp_path / "corpus.jsonl"
    lines.write_text("\n".join((DEMO / "corpus.jsonl").read_text().splitlines()[:4]))
    assert run(["index", str(lines), "--index", str(old)]) == 0
    title = json.loads(lines.read_text().splitlines()[0])["title"]
    monkeypatch.setenv("WYE_ANALYSER__ENCODER__MODEL", str(write_encoder(tmp_path)))
    assert run(["search", title, "--index", str(old), "--route", "dense"]) == 2
    assert run(["index", str(old), "--index", str(new)]) == 0
    with wye.open(new) as moved:
        for route in USUAL:
            assert title in {hit.title for hit in moved.search(title, k=4, route=route)}


def test_a_title_that_the_parser_cuts_is_looked_up_as_a_whole(tmp_path: Path) -> None:
    films = {"Calling Philo Marsh": "Dora Finch", "The Witch's Ladder": "Abel Stone"}
    with wye.create(tmp_path / "index") as index:
        index.add(
            wye.Passage(id=title, title=title, text=f"{title} is a film of 1951 by {director}.")
            for title, director in films.items()
        )
        question = "Which film has the director who died later, {} or {}?".format(*films)
        hits = index.search(question, route=Route.STEPS, explain=True)
    names_of = {step.phrase: [one.name for one in step.candidates] for step in hits.reply.chain}
    assert {film: names_of[film] for film in films} == {
        film: [director] for film, director in films.items()
    }


def test_answers_of_nested_questions_stand_in_their_last_passage() -> None:
    lines = (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    texts = {row["_id"]: row["text"] for row in map(json.loads, lines)}
    judged = (NESTED / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    last = {question: passage for question, passage, _ in (line.split("\t") for line in judged)}
    rows = (NESTED / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, rows):
        assert all(answer in texts[last[row["_id"]]] for answer in row["metadata"]["answers"])


def test_a_question_ranks_alike_alone_and_in_a_batch(tmp_path: Path) -> None:
    settings = load_settings(index=tmp_path / "index")
    corpus = write_corpus(tmp_path / "corpus.jsonl", seed=3)
    assert run(["index", str(corpus), "--index", str(settings.index)]) == 0
    container = Session.open(settings, tmp_path / "index")
    try:
        for route in Route:
            together = container.gateway.search([MACHINE, MEETING], Ask(route, 5))
            alone = [container.gateway.search([q], Ask(route, 5))[0] for q in (MACHINE, MEETING)]
            assert [reply.ranking for reply in together] == [reply.ranking for reply in alone]
        decisions = container.gateway.decide([MACHINE, MEETING], Ask(explain=True))
        trees = [parse_brackets(decision.trees[0]) for decision in decisions]
        words = [tree.words() for tree in trees]
        assert [row[-2] for row in words] == ["described", "Babbage"]
        assert container.policy is not None
    finally:
        container.close()
