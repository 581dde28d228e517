"""How an entity is written: as it is most often, in the eyes of a reader."""

from collections.abc import Sequence

import numpy as np

from backends.corpus import Corpus
from backends.linking import entity_key, title_names
from backends.types import Int64


class Spelling:
    """The names of entities as people write them."""

    def __init__(self, corpus: Corpus, keys: Sequence[str], surface: Int64, titles: Int64) -> None:
        """Count spellings; nothing is looked at entity by entity before somebody asks.

        Args:
            corpus: One version.
            keys: e entity keys.
            surface: Entity of each named-entity surface, -1 where it is none.
            titles: (2, t) passage and entity of each title, ascending by passage.
        """
        self._keys = keys
        self._titles = corpus.titles
        self._surfaces = corpus.entities.names
        frequency = np.bincount(corpus.entities.code, minlength=len(surface))
        # The first in code point order among those that are as frequent.
        order = np.lexsort((np.arange(len(surface)), -frequency))
        order = order[surface[order] >= 0]
        entities, first = np.unique(surface[order], return_index=True)
        self._tagged = np.full(len(keys), -1, np.int64)
        self._tagged[entities] = order[first]
        passages, titled = titles
        entities, first = np.unique(titled, return_index=True)
        self._titled = np.full(len(keys), -1, np.int64)
        self._titled[entities] = passages[first]

    def of(self, entity: int) -> str:
        """One entity: as most often tagged, else as its first title, else its key."""
        if self._tagged[entity] >= 0:
            surface: str = self._surfaces[self._tagged[entity]]
            return surface.strip()
        key = self._keys[entity]
        if self._titled[entity] >= 0:
            names = title_names(self._titles[self._titled[entity]])
            return next(name for name in reversed(names) if entity_key(name) == key)
        return key

    def all(self) -> list[str]:
        """Every entity, by its number."""
        return [self.of(entity) for entity in range(len(self._keys))]
