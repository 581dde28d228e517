import json
from pathlib import Path

import pytest

from benchmarks import lexical


def beir(folder: Path, passages: int = 130) -> Path:
    """A dataset of a few passages with one question."""
    rows = [
        {"_id": f"p{i}", "title": f"River {i}", "text": f"It is {i} km."} for i in range(passages)
    ]
    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "How long is River 7?"}')
    (folder / "qrels/dev.tsv").write_text("query-id\tcorpus-id\tscore\nq\tp7\t1\n")
    return folder


def test_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lexical.main([str(beir(tmp_path))])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in printed[-3:]] == ["ours", "ours,", "lance"]
    assert printed[-3].split()[2:5] == ["1", "1.000", "1.000"]
