"""Passages as an index has stored them."""

from collections.abc import Sequence

from wye.backends.store.index import PassageStore, any_of
from wye.backends.store.schema import PASSAGE_COLUMNS, to_passages
from wye.backends.types import Passage


def fetch(index: PassageStore, ids: Sequence[str]) -> list[Passage]:
    """Passages by id, in the given order; ids that the version in view lacks are left out."""
    table = index.newest().snapshot().to_table([*PASSAGE_COLUMNS], filter=any_of("id", ids))
    stored = {passage.id: passage for passage in to_passages(table)}
    return [stored[id_] for id_ in ids if id_ in stored]
