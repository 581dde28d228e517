import json
from importlib.resources import files
from pathlib import Path

import pytest
import typer

from training.data.dataset import read_dataset
from training.data.respell import main, mistype, respell, unmark, write_respelt
from training.errors import DatasetError

DEMO = Path(str(files("service"))) / "demo"


def test_capitals_and_the_mark_go_and_nothing_else() -> None:
    assert respell("Who is Ada O'Neil? ") == "who is ada o'neil"
    assert respell("is it (yes?) or no") == "is it (yes?) or no"


def test_only_the_mark_goes() -> None:
    assert unmark("Who is Ada? ") == "Who is Ada"


def test_some_long_words_have_two_letters_swapped_always_the_same() -> None:
    text = "Which engineer finished the bridge after the death of her father-in-law in Trenton?"
    found = mistype(text)
    assert found == mistype(text) != text
    before, after = text.split(), found.split()
    assert [sorted(word) for word in before] == [sorted(word) for word in after]
    assert [word[0] for word in before] == [word[0] for word in after]
    assert all(a == b for a, b in zip(before, after, strict=True) if len(a) < 5)


def test_a_dataset_keeps_all_but_the_spelling(tmp_path: Path) -> None:
    out = tmp_path / "demo-respelt"
    lines = (DEMO / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    assert write_respelt(out, DEMO) == len(lines)
    before, after = read_dataset(DEMO, "test"), read_dataset(out, "test")
    assert after.judgements == before.judgements
    assert [q.text for q in after.questions] == [respell(q.text) for q in before.questions]
    assert [q.answers for q in after.questions] == [q.answers for q in before.questions]
    assert (out / "corpus.jsonl").read_bytes() == (DEMO / "corpus.jsonl").read_bytes()


def test_what_cannot_be_respelt(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is not empty"):
        write_respelt(DEMO, DEMO)
    with pytest.raises(DatasetError, match="has no qrels"):
        write_respelt(tmp_path / "out", tmp_path)
    folder = tmp_path / "marks"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "??"}) + "\n")
    (folder / "qrels" / "dev.tsv").write_text("q\tp\t1\n")
    with pytest.raises(DatasetError, match=r"Question 'q' of .* has no word"):
        write_respelt(tmp_path / "respelt", folder)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tmp_path / "out", DEMO)
    assert "questions" in capsys.readouterr().out
    with pytest.raises(typer.BadParameter, match="is not empty"):
        main(tmp_path / "out", DEMO)
    main(tmp_path / "mistyped", DEMO, "mistyped")
    with pytest.raises(typer.BadParameter, match="no spelling 'shouted'"):
        main(tmp_path / "shouted", DEMO, "shouted")
