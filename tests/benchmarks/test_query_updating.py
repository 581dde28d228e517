from pathlib import Path

import pytest

from backends.store.index import PassageStore
from backends.store.ingest import ingest
from backends.types import Query
from benchmarks.query_updating import ROUNDS, SETS, QueryUpdating
from router.session import Snapshot
from router.settings import Settings
from tests.router.test_batch import HASHES, LIBRARY


@pytest.fixture
def updating(tmp_path: Path) -> QueryUpdating:
    index = PassageStore.create(tmp_path, HASHES.dimension, HASHES.fingerprint)
    ingest(index, LIBRARY, HASHES)
    return QueryUpdating(Snapshot(index, Settings()))


def _query(text: str) -> Query:
    return Query(text, HASHES.encode_surfaces([text])[0])


def test_a_passage_that_has_the_words_is_found(updating: QueryUpdating) -> None:
    passage = LIBRARY[0]
    found = updating.search(_query(f"{passage.title} {passage.text}"), 3)
    assert passage.id in {hit.id for hit in found.hits}
    assert [hit.rank for hit in found.hits] == [1, 2, 3]
    assert updating.search(_query(passage.title), 3) == updating.search(_query(passage.title), 3)


def test_sets_are_few_and_scored_by_the_words_they_have(updating: QueryUpdating) -> None:
    sets = updating._sets(_query(LIBRARY[0].title))
    assert 0 < len(sets) <= SETS * ROUNDS
    assert all(0 <= score <= 1 for score in sets.values())
    assert all(1 <= len(sentences) <= ROUNDS for sentences in sets)
