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
from featurizer.constituency.tree import parse_brackets
from router.session import Session
from router.types import Route
from service.commands.demo import judged_questions, one_of_each_kind
from service.commands.index import BadLines, ingest_files
from service.settings import load_settings

ROOT = Path(__file__).parents[2]

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
from service.cli import run
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
    demo = ROOT / "service" / "demo"
    judged = judged_questions(demo)
    asked = {*re.findall(r'wye search "(.+?)"[^\n]*demo-index', (ROOT / "README.md").read_text())}
    rows = map(json.loads, (demo / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    ids = {row["_id"]: row["text"] for row in rows if row["text"] in asked}
    assert {*ids.values()} == asked != set()
    qrels = "".join(path.read_text("utf-8") for path in (demo / "qrels").glob("*.tsv"))
    gold = {
        text: {*re.findall(rf"^{id_}\t(\S+)\t1", qrels, re.MULTILINE)} for id_, text in ids.items()
    }
    gold |= {one.text: {*one.gold} for one in one_of_each_kind(judged)}
    with wye.create(tmp_path / "index") as index:
        index.add(wye.read(demo))
        found = {hits.question: hits for hits in index.search_many([*gold], k=2)}
    assert {text: hits[0].id for text, hits in found.items() if hits[0].id not in gold[text]} == {}
    assert all({hit.id for hit in found[text]} == gold[text] for text in asked)


def test_a_question_ranks_alike_alone_and_in_a_batch(tmp_path: Path) -> None:
    settings = load_settings(index=tmp_path / "index")
    corpus = write_corpus(tmp_path / "corpus.jsonl", seed=3)
    ingest_files(settings, [corpus], BadLines(strict=True))
    container = Session.open(settings, tmp_path / "index")
    try:
        for route in Route:
            together = container.gateway.search([MACHINE, MEETING], route, 5)
            alone = [container.gateway.search([q], route, 5)[0] for q in (MACHINE, MEETING)]
            assert [reply.ranking for reply in together] == [reply.ranking for reply in alone]
        decisions = container.gateway.decide([MACHINE, MEETING], explain=True)
        trees = [parse_brackets(decision.trees[0]) for decision in decisions]
        words = [tree.words() for tree in trees]
        assert [own[-2] for own in words] == ["described", "Babbage"]
        assert container.policy is not None
    finally:
        container.close()
