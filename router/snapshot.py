"""One version of an index with its arms, each built when a question first needs it."""

from collections.abc import Callable
from functools import cached_property
from threading import RLock

from backends.corpus import Corpus, read_corpus
from backends.dense import DenseRetriever
from backends.filters import Columns, parse_filter
from backends.index import Index
from backends.lexical import LexicalRetriever
from backends.trigraph import TriGraphRetriever
from backends.types import Mask, Retriever
from router.settings import Settings
from router.types import Route


class Snapshot:
    """Everything derived from one version; nothing of it changes when the index is written to."""

    def __init__(self, index: Index, settings: Settings) -> None:
        """Take the version that an index has in view.

        Args:
            index: To read from.
            settings: Of the arms.
        """
        self._settings = settings
        self._building = RLock()
        self.version = index.version
        self.corpus: Corpus = read_corpus(index)

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
        texts = (f"{title}\n{text}" for title, text in self.corpus.iter_texts())
        return LexicalRetriever(self.corpus.ids, texts, self._settings.lexical)

    @cached_property
    def graph(self) -> TriGraphRetriever:
        """The graph arm."""
        settings = self._settings.graph
        # Building the lexical arm takes time and memory, so only where its scores count.
        wanted = settings.lexical_weight or settings.lexical_weight_titled
        return TriGraphRetriever(self.corpus, settings, self.lexical.scores if wanted else None)

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
