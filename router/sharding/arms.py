"""The arms of an index divided into shards: each question goes to all, and their lists are merged.

Dense and lexical rankings equal those of one index: inner products do not depend on other passages,
and the counts that BM25 needs are summed. The graph is `router.sharding.graph`.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

from backends.coverage import WordCoverage
from backends.filters import check, keys_of, parse_filter
from backends.lexical import content_terms
from backends.types import Float32, Int64, Mask, Passage
from router.batch import FurtherArm
from router.errors import ShardError
from router.settings import Settings
from router.sharding.calls import LOST, Shards, call
from router.sharding.graph import ShardedGraph
from router.sharding.text_arms import (
    Allowed,
    ShardedDense,
    ShardedLexical,
    bits_of,
    by_id,
    listed,
)
from router.types import Route


class ShardedArms:
    """`router.batch.Arms` over shards, for one batch: what they answered is kept.

    Attributes:
        version: Sum of the shards' versions, so it grows with each of them.
    """

    def __init__(self, shards: Shards, settings: Settings) -> None:
        self.shards, self._settings = shards, settings
        self.version = shards.total("version")
        self._read: dict[str, Passage] = {}
        self._kinds: dict[str, set[int]] = {}
        self.dense = ShardedDense(shards)
        self.lexical = ShardedLexical(shards, settings.lexical)
        self.graph = ShardedGraph(shards, settings.graph, self.lexical)

    def within(self, until: float) -> "ShardedArms":
        """The same arms for one batch, whose calls all end by `until`; see `Shards.within`."""
        return ShardedArms(self.shards.within(until), self._settings)

    def __len__(self) -> int:
        """How many passages there are."""
        return self.shards.total("passages")

    @cached_property
    def passages(self) -> "ShardedPassages":
        """Access to the names and sentences of passages, for steps."""
        return ShardedPassages(self.shards)

    def fetch(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Id -> passage; a placeholder for those of shards that do not answer."""
        unknown = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._read]
        found = self.shards.ask("passages", ids=unknown).values() if unknown else ()
        known = self._read | {one["id"]: Passage(**one) for own in found for one in own}
        return {id_: known.get(id_) or Passage(id_, "", LOST) for id_ in ids}

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        self._read |= self.fetch(ids)  # the reply will need most of them
        return [(self._read[id_].title, self._read[id_].text) for id_ in ids]

    def further(self, arm: Route) -> FurtherArm:
        """Refuse: shards have no further arms.

        Raises:
            ShardError: Always.
        """
        raise ShardError(f"Route '{arm}' is not available on a sharded index.")

    def allowed(self, filter_: object | None) -> Mask | None:
        """A placeholder for a filter's mask, from which each shard makes its own.

        Raises:
            FilterError: The filter is not well formed, or `check` refuses it for all shards.
        """
        if filter_ is None:
            return None
        parsed = parse_filter(filter_)
        if unknown := sorted(keys_of(parsed) - self._kinds.keys()):
            for own in self.shards.ask("kinds", keys=unknown).values():
                for key, kinds in own.items():
                    self._kinds[key] = self._kinds.get(key, set()).union(kinds)
        if len(self) and not self.shards.missing:  # a shard that is missing may have others
            check(parsed, self._kinds, lambda: {*chain(*self.shards.ask("keys").values())})
        return cast(Mask, Allowed(filter_))

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        """How some passages of each question cover its content words."""
        asked = [content_terms(text) for text in texts]
        works = [call("words", text=text, ids=[*own]) for text, own in zip(texts, ids, strict=True)]
        found = map(by_id, self.shards.together(works))
        weights = self.lexical.idf(word for words in asked for word in words)
        return [
            tuple(
                WordCoverage(word, weights[word], *bits_of(of, own, place))
                for place, word in enumerate(words)
            )
            for words, of, own in zip(asked, found, ids, strict=True)
        ]


class ShardedPassages:
    """See `steps.Passages`. Sentences are numbered in the order in which shards return them."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._sentences: list[str] = []

    def names(self, id_: str, vector: Float32, sentences: int) -> Iterator[tuple[str, int]]:
        """The title, then the entities of the sentences nearest to a vector."""
        given: dict[str, Any] = {"id_": id_, "vector": listed(vector), "sentences": sentences}
        for answer in self._shards.ask("candidates", **given).values():
            for name, sentence in answer:
                if not sentence:
                    yield name, -1
                    continue
                if sentence not in self._sentences[-1:]:
                    self._sentences.append(sentence)
                yield name, len(self._sentences) - 1

    def sentence(self, row: int) -> str:
        """The text of a sentence."""
        return self._sentences[row]

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """A placeholder for the mask of some passages."""
        return cast(Mask, Allowed(None, tuple(ids[row] for row in rows)))
