"""The library's functions and types; `import wye` gives them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from wye.backends.documents import CHUNK_WORDS, checked_passage, chunk_passage, parse_record
from wye.backends.errors import BackendError, SourceError
from wye.backends.index_source import IndexSource
from wye.backends.readers.decode import known_encoding
from wye.backends.readers.drafts import Limits, Options
from wye.backends.readers.records import OnBad
from wye.backends.readers.records import refuse as refuse_bad_line
from wye.backends.sources import DocumentSource, open_source
from wye.backends.store.documents import Removal, remove
from wye.backends.store.ingest import IngestReport
from wye.backends.types import Metadata, Passage, Progress
from wye.featurizer.errors import FeaturizerError
from wye.hits import Hit as Hit  # noqa: PLC0414 - `import wye` gives it
from wye.hits import Hits, hits_of
from wye.router.errors import RouterError
from wye.router.session import Session
from wye.router.settings import Settings, load_settings
from wye.router.types import Ask, Decision, Route, route_named


class Error(RouterError):
    """An error that the caller can correct; `__cause__` is the original error.

    The message says what is wrong, where, and what to do.
    """


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except Error:
        raise
    except (BackendError, FeaturizerError, RouterError) as error:
        raise Error(str(error)) from error


@dataclass(frozen=True, slots=True)
class Document:
    """A text to search; a long one is stored as several passages.

    Attributes:
        id: Unique in an index. Adding another document with the same id replaces this one.
        title: May be empty.
        text: Never empty.
        metadata: Flat JSON values, or lists of them, to filter by.
    """

    id: str
    title: str = ""
    text: str = ""
    metadata: Metadata = field(default_factory=dict)


class Index:
    """An open index, made by `wye.open` or `wye.create` and closed by `with` or `close`.

    It sees the version that was newest when it was opened, and its own changes; `refresh` shows
    those of others.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Number of passages."""
        return self._session.index.count()

    @property
    def path(self) -> Path:
        """Folder of the index."""
        return self._session.folder

    @property
    def version(self) -> int:
        """Number of the version in view; every change increases it."""
        return self._session.index.version

    @property
    def fault(self) -> str:
        """Why the version in view is not the last commit; "" if it is."""
        return self._session.index.fault

    @_errors()
    def add(
        self,
        documents: Iterable[Document | Passage] | Document | Passage,
        *,
        chunk_words: int = CHUNK_WORDS,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Store documents; unchanged ones that are stored already cost nothing.

        Args:
            documents: One or several. A document with a known id replaces the stored one; others
                are added. A passage, as `wye.read` yields them, is not cut.
            chunk_words: Longer documents are cut at sentence ends into passages of so many words,
                at least 1.
            progress: Called for every passage that is done.

        Returns:
            How many passages were added, updated, unchanged and removed.

        Raises:
            Error: A document without id or text, a passage with the id of another document's, an
                index that another process is writing to, or models that are missing.
        """
        several = (documents,) if isinstance(documents, Document | Passage) else documents
        passages = (each for document in several for each in _passages(document, chunk_words))
        report = self._opened().ingest(passages, progress=progress)
        self.refresh()
        return report

    @_errors()
    def delete(
        self,
        ids: Iterable[str] = (),
        *,
        documents: Iterable[str] = (),
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
    ) -> list[str]:
        """Delete passages by id, all passages of documents, and all that match a filter.

        Returns:
            Ids of the passages that were deleted, ascending.

        Raises:
            Error: Another process is writing, or the filter is not well formed.
        """
        deleted, _ = remove(
            self._opened().folder, Removal(_several(ids), _several(documents), filter)
        )
        self.refresh()
        return deleted

    def search(
        self,
        question: str,
        *,
        k: int = 5,
        route: str = Route.AUTO,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        min_relevance: float = 0.0,
        explain: bool = False,
        duplicates: str = "",
    ) -> Hits:
        """Find passages for a question.

        Args:
            question: At least one word.
            k: Number of hits.
            route: "dense", "lexical", "hybrid", "graph", "fusion", "steps", "clue" or "zoom"; with
                "auto" the router chooses.
            filter: A metadata filter, such as "year>=1800", or parsed JSON in the form of OpenAI's
                vector stores.
            min_relevance: Leave out hits with a lower probability of relevance, 0 to 1.
            explain: Whether to explain the route and the ranking.
            duplicates: "fold" for near-duplicates of a hit behind all others, "keep" for each in
                its place; "" for what the settings say.

        Raises:
            Error: An empty question, an unknown route, a filter that is not well formed, or models
                that are missing.
        """
        return self.search_many(
            [question],
            k=k,
            route=route,
            filter=filter,
            min_relevance=min_relevance,
            explain=explain,
            duplicates=duplicates,
        )[0]

    @_errors()
    def search_many(
        self,
        questions: Sequence[str],
        *,
        k: int = 5,
        route: str = Route.AUTO,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        min_relevance: float = 0.0,
        explain: bool = False,
        duplicates: str = "",
    ) -> list[Hits]:
        """As `search` for several questions at once: the same hits, in less time."""
        session = self._opened()
        ask = Ask(
            route_named(route),
            k,
            filter,
            min_relevance=min_relevance,
            explain=explain,
            duplicates=duplicates,
        )
        replies = session.gateway.search(_several(questions), ask)
        ids = {hit.id for reply in replies for hit in reply.ranking.hits}
        passages = session.snapshot.passages(sorted(ids)) if ids else {}
        return [hits_of(reply, passages, explain=explain) for reply in replies]

    def route(self, question: str, *, explain: bool = True) -> Decision:
        """Which route `search` would take, and what each feature of the question adds to its score.

        Raises:
            Error: An empty question, or a router that is missing.
        """
        return self.route_many([question], explain=explain)[0]

    @_errors()
    def route_many(self, questions: Sequence[str], *, explain: bool = True) -> list[Decision]:
        """As `route` for several questions at once."""
        return self._opened().gateway.decide(_several(questions), Ask(explain=explain))

    @_errors()
    def keep_derived(self) -> None:
        """Write what is derived from at least 1,000 passages, for the next to open the index.

        After many additions this saves the next to open it one second per 5,000 passages.
        """
        self._opened().keep_derived()

    @_errors()
    def build_indices(self, *, again: bool = False, progress: Progress | None = None) -> int:
        """Have Lance index the passages, to search its dataset on the disk (`WYE_ENGINE`).

        Args:
            again: Count and link all names again, too; otherwise only what was added since is taken
                into indices that are there.
            progress: Called for every passage that is done.

        Returns:
            The new version.

        Raises:
            Error: Another process is writing, or the indices were built for other settings.
        """
        version = self._opened().build_indices(again=again, progress=progress)
        self.refresh()
        return version

    @_errors()
    def refresh(self) -> bool:
        """Move to the newest version and thresholds, and return whether anything is newer.

        Raises:
            Error: The index was removed or created again with other models, or the thresholds are
                invalid.
        """
        before = self._opened()
        self._session = before.reload() or before
        self._session = self._session.reload_thresholds() or self._session
        return self._session is not before

    def close(self) -> None:
        """Stop the models' threads and processes; all but the properties is an error afterwards."""
        self._is_closed = True
        self._session.close()

    def _opened(self) -> Session:
        if self._is_closed:
            raise Error(f"The index {self.path} is closed; open it again with wye.open.")
        return self._session


@_errors()
def open(  # noqa: A001 - wye.open
    path: str | Path, *, settings: Settings | None = None, preset: str | None = None
) -> Index:
    """Open the newest version of an index; models are loaded when they are first needed.

    Args:
        settings: None for those of the environment.
        preset: A published system, "ea-graphrag", "linearrag", "clue-rag" or "zoom-rag", from
            which the environment's settings start; None for WYE_PRESET. Leave out with `settings`.

    Raises:
        Error: There is no index or no such preset, or another version of Wye wrote the index.
    """
    return Index(Session.open(_settings(settings, preset), Path(path)))


@_errors()
def create(
    path: str | Path, *, settings: Settings | None = None, preset: str | None = None
) -> Index:
    """Create an empty index in a folder that is missing or empty, or open an index for writing.

    Args:
        settings: None for those of the environment.
        preset: As in `open`; "linearrag" needs an index that was created with it.

    Raises:
        Error: The folder holds something else, the existing index was written with other models, or
            models are missing.
    """
    return Index(Session.create(_settings(settings, preset), Path(path)))


def _settings(settings: Settings | None, preset: str | None) -> Settings:
    if settings is not None and preset is not None:
        raise Error("Give settings or a preset, not both: load_settings(preset=…) has both.")
    return settings or load_settings(preset=preset)


class Reading(Iterator[Passage]):
    """Iterator over the passages of a file or a folder, which is read on demand.

    Attributes:
        files: Number of files that are read.
        left_out: Suffix -> number of files that are skipped, since their kind is not supported.
    """

    def __init__(self, source: DocumentSource | IndexSource, passages: Iterator[Passage]) -> None:
        self._source = source
        self._passages = passages
        self.files = source.files
        self.left_out: Mapping[str, int] = source.left_out

    @_errors()
    def __next__(self) -> Passage:
        return next(self._passages)

    @property
    def expected(self) -> int:
        """Estimated number of passages, which gets better the more has been read."""
        return self._source.expected


@_errors()
def read(
    source: str | Path,
    *,
    chunk_words: int | None = None,
    metadata: Metadata | None = None,
    limits: Limits | None = None,
    on_bad: OnBad = refuse_bad_line,
    encoding: str = "",
    as_text: Sequence[str] = (),
    text_columns: Sequence[str] = (),
    title_column: str = "",
    has_header: bool | None = None,
) -> Reading:
    """Read a BEIR folder, a file, a folder of files at any depth, or another index.

    `wye index --help` lists the kinds of files. The source may also be in an object store, such as
    s3://bucket/folder. A document of a folder has the metadata `path`, `folder` and `modified` (a
    date). Passages of an index keep their ids and, if they are added to one with the same models,
    their vectors and parses.

    Args:
        source: What to read, line by line and file by file as passages are consumed.
        chunk_words: Longest passage in words. By default texts are cut into passages of 200 words,
            and lines of .jsonl files stay whole.
        metadata: Metadata of every document; that of a document takes precedence.
        limits: Limits of time and memory for reading one file that is neither text nor lines.
        on_bad: Called for every line and file that cannot be read; by default the first is an
            error.
        encoding: Of texts that are not Unicode, as in "cp1252".
        as_text: Further suffixes of files that are read as text, as in [".conf"].
        text_columns: Columns of tables that are the text, alone.
        title_column: Column of tables that is the title.
        has_header: Whether tables have a first row of names; None to find out.

    Raises:
        Error: There is no such file or folder, its kind is not supported, or the encoding is not
            known.
    """
    try:
        encoding = known_encoding(encoding)
    except LookupError:
        raise Error(f"'{encoding}' is no known encoding, as cp1252 is.") from None
    reader = open_source(source, _several(as_text))
    passages = reader.passages(
        chunk_words=chunk_words,
        metadata=metadata,
        limits=limits,
        options=Options(encoding, _several(text_columns), title_column, has_header),
        on_bad=on_bad,
    )
    return Reading(reader, passages)


def _several(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts as a tuple; one that is not in a list counts as a whole, not letter by letter."""
    several = (texts,) if isinstance(texts, str) else tuple(texts)
    for text in several:
        if not isinstance(text, str):
            raise Error(f"{text!r:.80} is of type {type(text).__name__}; give a string.")
    return several


def _passages(document: Document | Passage, words: int) -> Iterator[Passage]:
    if not isinstance(document, Document | Passage):
        raise Error(
            f"A {type(document).__name__} cannot be added; give a list of wye.Document, such as "
            'wye.Document(id="a", text="…").'
        )
    try:
        if isinstance(document, Passage):
            yield checked_passage(document)
            return
        record = {name: getattr(document, name) for name in ("id", "title", "text", "metadata")}
        yield from chunk_passage(parse_record(record), words)
    except SourceError as error:
        raise SourceError(f"Document {document.id!r} cannot be added: {error}.") from error
