"""One version of an index with its arms, each built when a question first needs it."""

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import Any

from backends.corpus import Corpus
from backends.dense import DenseRetriever
from backends.filters import Columns, parse_filter
from backends.index import Index
from backends.lexical import LexicalRetriever
from backends.reading import read_corpus
from backends.trigraph import TriGraphRetriever
from backends.types import Mask, Retriever
from router.settings import Settings
from router.types import Route


class Snapshot:
    """Everything derived from one version; nothing of it changes when the index is written to."""

    def __init__(self, index: Index, settings: Settings, before: "Snapshot | None" = None) -> None:
        """Take the version that an index has in view.

        Args:
            index: To read from.
            settings: Of the arms.
            before: An earlier version of the same index with the same settings, from which what
                both have is taken over; kept until `settle`.
        """
        self._settings = settings
        self._building = RLock()
        self._before = before
        self.version = index.version
        self.corpus: Corpus = read_corpus(index, before.corpus if before else None)

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.corpus)

    def retriever(self, arm: Route) -> Retriever:
        """An arm by name; the first call builds it.

        Raises:
            ValueError: It is a mix of arms rather than one.
        """
        arms: dict[Route, Callable[[], Retriever]] = {
            Route.DENSE: lambda: self.dense,
            Route.LEXICAL: lambda: self.lexical,
            Route.GRAPH: lambda: self.graph,
        }
        if arm not in arms:
            raise ValueError(f"'{arm}' is not a single arm")
        with self._building:
            return arms[arm]()

    @cached_property
    def dense(self) -> DenseRetriever:
        """The dense arm."""
        return DenseRetriever(self.corpus.ids, self.corpus.vectors, self._settings.dense)

    @cached_property
    def lexical(self) -> LexicalRetriever:
        """The lexical arm."""
        before = self._built("lexical")
        follows = isinstance(before, LexicalRetriever) and not before.is_worn
        rows = self.corpus.changed if follows else None
        return LexicalRetriever(
            self.corpus.ids,
            (f"{title}\n{text}" for title, text in self.corpus.iter_texts(rows)),
            self._settings.lexical,
            (before, self.corpus.places_after(len(before.ids))) if follows else None,
        )

    @cached_property
    def graph(self) -> TriGraphRetriever:
        """The graph arm."""
        settings = self._settings.graph
        # Building the lexical arm takes time and memory, so only where its scores count.
        wanted = settings.lexical_weight or settings.lexical_weight_titled
        return TriGraphRetriever(
            self.corpus,
            settings,
            self.lexical.scores if wanted else None,
            self._built("graph"),
        )

    def settle(self) -> None:
        """Let go of the version before, now that all arms are built."""
        self._before = None

    def _built(self, arm: str) -> Any:  # noqa: ANN401 - as many types as arms
        """An arm of the version before, if this one was read after it and the arm was built."""
        if self._before is None or self.corpus.origin is None:
            return None
        return self._before.__dict__.get(arm)

    def allowed(self, filter_: object | None) -> Mask | None:
        """(n,) passages that a metadata filter lets through, in id order; None lets all through.

        Raises:
            FilterError: It is no filter.
        """
        if filter_ is None:
            return None
        parsed = parse_filter(filter_)
        with self._building:
            return parsed.mask(self._columns)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.corpus.metadata)
