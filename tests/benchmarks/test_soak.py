import random
from typing import Any

from benchmarks.soak import HOSTILE, Known, OracleState, hostile_documents


def reply(*ids: str, version: int = 5, tag: str = "red", queue: float = 3.0) -> dict[str, Any]:
    passages = [{"document": id_, "metadata": {"tag": tag}} for id_ in ids]
    index = {"version": version}
    return {"index": index, "passages": passages, "timings_ms": {"queue": queue}}


def test_what_is_lost_or_back_is_seen() -> None:
    oracle = OracleState(
        {
            "kept": Known(2, sure=2),
            "lost": Known(1, sure=1),
            "older": Known(3, sure=3),
            "unsure": Known(1),
            "leaving": Known(1, sure=1, leaving=True),
            "gone": Known(1, sure=1, leaving=True, gone=4),
            "back": Known(1, sure=1, leaving=True, gone=4),
        }
    )
    ids = {"kept": 2, "older": 2, "back": 1}
    oracle.check_stored({"id": id_, "metadata": {"revision": r}} for id_, r in ids.items())
    assert oracle.faults == {
        "lost document": ["lost"],
        "lost revision": ["older: 2 of 3"],
        "deleted document is back": ["back"],
    }
    assert oracle.living("k") == ["kept"]
    assert oracle.deleted() == {"gone": 4, "back": 4}


def test_replies_are_held_against_deletions_and_filters() -> None:
    oracle = OracleState()
    oracle.check_reply(reply("a", "b"), {"c": 3}, "red")
    assert not oracle.faults
    oracle.check_reply(reply("a", "b"), {"b": 3}, "blue")
    assert {kind: len(seen) for kind, seen in oracle.faults.items()} == {
        "deleted passage in a reply": 1,
        "filtered-out passage in a reply": 2,
    }


def test_a_question_that_waits_for_a_document_is_seen() -> None:
    oracle = OracleState()
    oracle.check_reply(reply("a", queue=1_999), {}, None)
    assert not oracle.faults
    oracle.check_reply(reply("a", queue=2_345), {}, None)
    assert oracle.faults == {"question that waited for more than 2 s": ["2345 ms"]}


def test_hostile_documents_are_of_so_many_kinds() -> None:
    kinds = [kind for kind, _ in hostile_documents(random.Random(0))]
    assert len({*kinds}) == len(kinds) == HOSTILE
