import json
from pathlib import Path

import pytest
import typer

from training.data.dataset import read_dataset
from training.data.union import main, write_union
from training.errors import DatasetError


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    content: dict[str, tuple[list[tuple[str, str, str]], dict[str, list[str]]]] = {
        "one": (
            [("1", "Como", "A lake."), ("2", "", "A hill."), ("3", "", "A hill.")],
            {"train": ["q1\t1\t1", "q1\t3\t1"], "test": ["q2\t2\t1"]},
        ),
        "two": (
            [("1", "Como", "A lake."), ("2", "Como", "A film.")],
            {"train": ["q1\t1\t1", "q1\t2\t0"]},
        ),
    }
    for name, (passages, splits) in content.items():
        folder = tmp_path / name
        (folder / "qrels").mkdir(parents=True)
        rows = [json.dumps({"_id": i, "title": t, "text": x}) for i, t, x in passages]
        (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
        asked = [
            {"_id": q, "text": f"{q} of {name}?", "metadata": {"hops": 2}} for q in ("q1", "q2")
        ]
        (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
        for split, judged in splits.items():
            text = "query-id\tcorpus-id\tscore\n" + "\n".join(judged)
            (folder / "qrels" / f"{split}.tsv").write_text(text)
    return [tmp_path / name for name in content]


def test_one_passage_for_one_content_and_ids_that_never_meet(
    folders: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "both"
    assert write_union(out, folders) == 4
    corpus = lines(out / "corpus.jsonl")
    # Twice the same within one dataset stays twice.
    assert [row["_id"] for row in corpus] == ["one/1", "one/2", "one/3", "two/2"]
    assert corpus[-1]["metadata"] == {"dataset": "two"}
    questions = lines(out / "queries.jsonl")
    assert [row["_id"] for row in questions] == ["one/q1", "one/q2", "two/q1", "two/q2"]
    assert questions[2]["metadata"] == {"hops": 2, "dataset": "two"}


def test_judgements_follow_the_passage(folders: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "both"
    write_union(out, folders)
    train = read_dataset(out, "train")
    assert train.judgements == {
        "one/q1": {"one/1": 1, "one/3": 1},
        "two/q1": {"one/1": 1, "two/2": 0},
    }
    assert [question.group for question in train.questions] == ["one", "two"]
    assert list(read_dataset(out, "test").judgements) == ["one/q2"]


def test_what_cannot_be_joined(folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="two or more datasets with different names, not one"):
        write_union(tmp_path / "out", folders[:1])
    with pytest.raises(DatasetError, match="is not empty"):
        write_union(folders[0], folders)
    (folders[1] / "qrels" / "train.tsv").write_text("q1\tnowhere\t1\n")
    with pytest.raises(DatasetError, match=r"train.tsv:1 is not a judgement of a passage of 'two'"):
        write_union(tmp_path / "judged", folders)
    (folders[1] / "corpus.jsonl").write_text('{"_id": 3, "text": "x"}\n')
    with pytest.raises(DatasetError, match=r'corpus.jsonl:1 needs "_id" and "text"'):
        write_union(tmp_path / "numbered", folders)
    (folders[1] / "corpus.jsonl").unlink()
    with pytest.raises(DatasetError, match="cannot be read"):
        write_union(tmp_path / "missing", folders)


def test_the_command(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(tmp_path / "out", folders)
    assert "4 passages of 2 datasets" in capsys.readouterr().out
    with pytest.raises(typer.BadParameter, match="is not empty"):
        main(tmp_path / "out", folders)
