"""Some rows of a dataset as an index of their own, for what is asked of a few passages."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from wye.backends.dataset.arms import CountedLexical
from wye.backends.dataset.columns import Row, UInt64, hashed
from wye.backends.dataset.version import DatasetVersion
from wye.backends.dense import DenseRetriever, DenseSettings
from wye.backends.store.corpus import Corpus, Mentions
from wye.backends.trigraph.graph import PlainLists, TriGraph
from wye.backends.trigraph.names import DisplayNames, NameTrie
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Int64


class _Names(DisplayNames):
    """The names in some rows as the keys of a graph and their spellings, read when needed."""

    def __init__(self, hashes: UInt64, rows: Sequence[Row], owners: Int64, places: Int64) -> None:
        """Number names.

        Args:
            hashes: (e,) hashes of their keys, ascending.
            owners: (e,) position of a row with each name.
            places: (e,) position of the name in it.
        """
        self.hashes, self._rows, self._size = hashes, rows, len(hashes)
        self._places: list[tuple[int, int]] = [*zip(owners.tolist(), places.tolist(), strict=True)]

    def of(self, entity: int) -> str:
        """See `DisplayNames`."""
        row, place = self._places[entity]
        return self._rows[row].name(place).shown

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, entity: int) -> str:
        row, place = self._places[entity]
        return self._rows[row].name(place).key

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(self._size))

    def find(self, key: str) -> int:
        """The name with a key, -1 if there is none."""
        hash_ = np.uint64(hashed(key))
        at = int(np.searchsorted(self.hashes, hash_))
        return at if at < self._size and self.hashes[at] == hash_ else -1


class _Tagged(Mentions):
    """The named entities of sentences as they are written."""

    def __init__(self, rows: Sequence[Row], starts: Int64) -> None:
        self._rows, self._starts = rows, starts

    def of(self, sentence: int) -> list[str]:
        """See `Mentions`."""
        row = int(np.searchsorted(self._starts, sentence, side="right")) - 1
        return self._rows[row].tagged(sentence - int(self._starts[row]))


class _Texts(Sequence[str]):
    """The texts of rows, each read when it is needed."""

    def __init__(self, version: DatasetVersion, rows: Sequence[Row]) -> None:
        self._version, self._rows = version, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: Any) -> Any:  # noqa: ANN401 - a slice would be a list
        return self._version.passages([self._rows[row].id])[0].text


class SmallIndex:
    """Some rows as a corpus of their own, with arms whose counts are those of the whole corpus."""

    def __init__(
        self,
        version: DatasetVersion,
        rows: Sequence[Row],
        lexical: CountedLexical,
        *,
        is_filtered: bool = False,
    ) -> None:
        """Take rows, ascending by id.

        Args:
            lexical: The lexical arm over these rows.
            is_filtered: Whether the rows are only those that a filter lets through, which then are
                all that counts.
        """
        self.version, self.rows, self.lexical = version, rows, lexical
        self._is_filtered = is_filtered

    def retriever(self, settings: TriGraphSettings) -> TriGraphRetriever:
        """The graph arm over the rows."""
        corpus, lexical = self.corpus, self.lexical.score if settings.weighs_lexical else None
        dense = DenseRetriever(corpus.ids, corpus.vectors, DenseSettings(kind="exact"))
        return TriGraphRetriever(corpus, settings, lexical, self.graph, near=dense.scores)

    @cached_property
    def corpus(self) -> Corpus:
        """The rows as a corpus, without metadata."""
        rows, version = self.rows, self.version
        nothing = np.empty((0, version.dimension), np.float16)
        return Corpus(
            version=version.index.version,
            ids=[row.id for row in rows],
            titles=[row.title for row in rows],
            documents=[row.document for row in rows],
            chunks=np.array([row.chunk for row in rows], np.int32),
            vectors=np.concatenate([nothing, *(row.vector[None] for row in rows)], dtype="f4"),
            sentence_vectors=np.concatenate([nothing, *(row.sentences for row in rows)]),
            sentence_passage=np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(self._starts)),
            entities=_Tagged(rows, self._starts),
            phrases=_Tagged([], self._starts),
            hashes=[],
            two=None,
            metadata=[],
            _texts=_Texts(version, rows),
            addresses=np.array([row.address for row in rows], np.int64),
            _fragments={},
            _dataset=version.dataset,
            _index=version.index,
        )

    @cached_property
    def _starts(self) -> Int64:
        """(n + 1,) where the sentences of each row begin, and where those of the last end."""
        return np.cumsum([0, *(len(row.sentences) for row in self.rows)], dtype=np.int64)

    @cached_property
    def graph(self) -> TriGraph:
        """The graph of the rows, assembled from the names that are stored in them."""
        rows = self.rows
        sizes = [len(row.hashes) for row in rows]
        titled = [len(row.titles) for row in rows]
        several = [len(row.mentions) for row in rows]
        starts = np.cumsum([0, *sizes], dtype=np.int64)
        owners = np.repeat(np.arange(len(rows)), sizes)
        stored = np.concatenate([np.empty(0, np.uint64), *(row.hashes for row in rows)])
        hashes, first, entities = np.unique(stored, return_index=True, return_inverse=True)
        e, names = len(hashes), _Names(hashes, rows, owners[first], first - starts[owners[first]])
        counts = np.zeros((e, 3), np.int32)  # the highest of several is the newest
        stated = np.concatenate([np.empty((0, 3), np.int32), *(row.counts for row in rows)])
        np.maximum.at(counts, entities, stated)
        pairs = np.concatenate([np.empty((0, 2), np.int32), *(row.mentions for row in rows)])
        sentence = pairs[:, 0] + np.repeat(self._starts[:-1], several)
        entity = entities[pairs[:, 1] + np.repeat(starts[:-1], several)]
        places = np.concatenate([np.empty(0, np.int32), *(row.titles for row in rows)])
        titles = entities[places + np.repeat(starts[:-1], titled)]
        passage = np.repeat(np.arange(len(rows)), titled)
        by_title, by_name = (np.argsort(each, kind="stable") for each in (titles, entities))
        times = np.concatenate([np.empty(0, np.int64), *(row.times for row in rows)])
        degrees = np.bincount(entities, minlength=e) if self._is_filtered else counts[:, 0]
        of = PlainLists.from_owners
        return TriGraph(
            keys=names,
            is_phrase=counts[:, 2] > 0,
            degrees=degrees.astype(np.int32),
            passages=of(entities[by_name], owners[by_name], e),
            entities=of(owners, entities, len(rows)),
            counts=of(owners, times, len(rows)),
            mentions=of(sentence, entity, int(self._starts[-1])),
            titled=of(titles[by_title], passage[by_title], e),
            titles=of(passage, titles, len(rows)),
            owners=self.corpus.sentence_passage,
            names=NameTrie.of([]),  # seeds are found among all names of the corpus
            display_names=names,
        )
