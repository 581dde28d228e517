from pathlib import Path
from tempfile import TemporaryDirectory

import ir_measures
from hypothesis import given
from hypothesis import strategies as st

from backends.types import Hit
from training.evaluation.measures import score, write_trec


def hits(*scores: float) -> list[Hit]:
    return [Hit(f"p{rank}", score_, rank) for rank, score_ in enumerate(scores, start=1)]


def test_a_run_reads_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "dense.trec"
    write_trec(path, "dense", {"q1": hits(0.9, 0.5), "q2": hits(0.1)})
    assert path.read_text(encoding="utf-8").splitlines() == [
        "q1 Q0 p1 1 0.9 dense",
        "q1 Q0 p2 2 0.5 dense",
        "q2 Q0 p1 1 0.1 dense",
    ]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.integers(0, 11))
def test_trec_eval_sees_our_order_whatever_the_ties(scores: list[float], gold: int) -> None:
    ordered = hits(*sorted([*scores, *scores], reverse=True))
    judgements = {"q": {f"p{gold + 1}": 1}}
    with TemporaryDirectory() as place:
        path = Path(place) / "a.trec"
        write_trec(path, "a", {"q": ordered})
        found = ir_measures.calc_aggregate(
            [ir_measures.parse_measure("nDCG@10")],
            [ir_measures.Qrel("q", f"p{gold + 1}", 1)],
            list(ir_measures.read_trec_run(str(path))),  # type: ignore[no-untyped-call]
        )
    ours = score(judgements, {"q": [hit.id for hit in ordered]})
    assert next(iter(found.values())) == ours[0, 4]
