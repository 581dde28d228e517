"""`wye features`, with the packaged models."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from wye.featurizer.constituency.tree import parse_brackets
from wye.featurizer.registry import FEATURE_NAMES
from wye.service.commands.features import draw

QUESTION = "Who painted the boats in the harbour of Lisbon?"
Run = Callable[..., tuple[int, str, str]]


def test_without_a_question_all_features_are_listed(wye: Run) -> None:
    code, out, _ = wye("features")
    assert (code, [name for name in FEATURE_NAMES if name not in out]) == (0, [])
    assert "Prepositional phrases (PP)." in out
    assert f"{len(FEATURE_NAMES)} features" in out
    code, out, _ = wye("features", "--json")
    rows = json.loads(out)
    assert (code, [row["name"] for row in rows]) == (0, list(FEATURE_NAMES))
    assert set(rows[0]) == {"name", "group", "unit", "meaning", "source", "version"}


def test_a_question_is_shown_with_its_tree_and_values(wye: Run) -> None:
    code, out, _ = wye("features", QUESTION)
    assert code == 0
    assert "NP  the DT  boats NNS" in out
    (line,) = [line for line in out.splitlines() if line.startswith("prepositional_phrases")]
    assert line.split()[1] == "2"
    assert "note:" not in out


def test_a_question_as_json_is_the_same_bytes_every_time(wye: Run) -> None:
    first, again = wye("features", QUESTION, "--json"), wye("features", QUESTION, "--json")
    assert first == again
    facts = json.loads(first[1])
    assert [row["name"] for row in facts["features"]] == list(FEATURE_NAMES)
    assert re.fullmatch("[0-9a-f]{16}", facts["schema_id"])
    (sentence,) = facts["sentences"]
    assert sentence["text"] == QUESTION
    assert sentence["flat"] is False
    assert parse_brackets(sentence["tree"]).words()[1] == "painted"
    assert {row["name"]: row["value"] for row in facts["features"]}["prepositional_phrases"] == 2
    assert facts["plan"] == {"steps": [], "open": False}
    assert facts["notes"] == []


@pytest.mark.parametrize("question", ["", "\n\t"])
def test_an_empty_question_is_a_sentence_and_exit_code_2(wye: Run, question: str) -> None:
    code, out, err = wye("features", question)
    assert (code, out, "The question is empty" in err) == (2, "", True)


def test_punctuation_alone_has_features(wye: Run) -> None:
    code, out, _ = wye("features", "?!")
    assert (code, "tokens" in out) == (0, True)


def test_what_is_left_out_is_said(wye: Run) -> None:
    code, out, _ = wye("features", "boat " * 1000 + "?")
    assert (code, "note: The last 3," in out) == (0, True)
    assert "1 of 1 sentences have no tree" in out
    assert "X" in out


def test_a_missing_model_is_a_sentence_and_exit_code_2(
    wye: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WYE_ANALYSER__CONSTITUENCY__MODEL", str(tmp_path))
    code, out, err = wye("features", QUESTION)
    assert (code, out, "has no file" in err) == (2, "", True)


def test_a_tree_is_drawn_with_its_words_in_order() -> None:
    console = Console(width=60, force_terminal=False)
    tree = parse_brackets("(ROOT (S (NP (DT the) (NN boat)) (VP (VBZ rows) (ADVP (RB on)))))")
    with console.capture() as drawn:
        console.print(draw(tree))
    assert [line.rstrip() for line in drawn.get().splitlines()] == [
        "ROOT",
        "└── S",
        "    ├── NP  the DT  boat NN",
        "    └── VP",
        "        ├── rows VBZ",
        "        └── ADVP  on RB",
    ]
