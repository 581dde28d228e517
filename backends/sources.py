"""Reading documents from files and folders, here or in an object store, one after another."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, NoReturn, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs, parquet

from wye.backends.documents import CHUNK_WORDS, LONGEST_WORDS, chunk_passage, document_of
from wye.backends.errors import SourceError
from wye.backends.files import open_regular, require_regular
from wye.backends.readers.drafts import DEFAULT, BadFileError, Draft, Limits, Options
from wye.backends.readers.extract import MOST_FILES, READERS
from wye.backends.readers.records import (
    PROSE,
    BadLine,
    Ids,
    OnBad,
    RefusedError,
    read_lines,
    read_parquet,
    refuse,
    text_document,
)
from wye.backends.readers.sandbox import Sandbox
from wye.backends.store.source import IndexSource, is_index
from wye.backends.types import Metadata, Passage


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file in an object store.

    Attributes:
        name: Name of the file, or its path relative to the folder that was listed.
        key: Its path in the store.
        store: Any address in the store, to connect by.
        size: Size in bytes.
    """

    name: str
    key: str
    store: str
    size: int
    modified: datetime | None

    @contextmanager
    def fetched(self) -> Iterator[Path]:
        """A local copy, which is deleted afterwards.

        Raises:
            OSError: The file cannot be read.
        """
        with tempfile.TemporaryDirectory(prefix="wye-source-") as folder:
            copy = Path(folder, "file").with_suffix(PurePosixPath(self.name).suffix)
            store, _ = fs.FileSystem.from_uri(self.store)
            source = store.open_input_stream(self.key, compression=None)
            with source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            yield copy


def local_path(source: str | Path) -> Path | None:
    """The local path of a source; None for an address elsewhere."""
    text = str(source)
    if isinstance(source, Path) or "://" not in text:
        return Path(source)
    address = urlsplit(text)
    return Path(unquote(address.path)) if address.scheme == "file" else None


def list_files(address: str) -> tuple[bool, list[RemoteFile]]:
    """Whether an address is a folder, and all files at any depth, by name.

    Raises:
        SourceError: There is nothing at the address, or its store is unknown or does not answer.
    """
    try:
        store, path = fs.FileSystem.from_uri(address)
        root = store.get_file_info(path)
        if root.type == fs.FileType.File:
            return False, [_remote_file(root, PurePosixPath(path).parent.as_posix(), address)]
        inside = store.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{address} cannot be read: {str(error).splitlines()[0]}. Check the address and the "
            "permissions."
        ) from error
    files = [_remote_file(info, path, address) for info in inside if info.type == fs.FileType.File]
    return True, sorted(files, key=lambda file: file.name)


def _remote_file(info: fs.FileInfo, base: str, address: str) -> RemoteFile:
    name = PurePosixPath(info.path).relative_to(base).as_posix()
    return RemoteFile(name, info.path, address, info.size or 0, info.mtime)


BEIR_CORPUS = "corpus.jsonl"
LINES = (".jsonl", ".ndjson")
"""Extensions of files in which each line is a document."""
ROWS = (*LINES, ".csv", ".xlsx", ".mbox")
"""Extensions of files with several documents."""
_CODE = """.bat .c .cpp .cs .css .go .h .hpp .java .js .jsx .kt .lua .php .ps1 .py .r .rb .rs .scala
    .sh .sql .swift .ts .tsx"""
TEXTS = (PROSE, ".log", ".yaml", ".yml", ".toml", ".ini", ".json", *_CODE.split())
"""Extensions of files that are read as text."""
SUFFIXES = (PROSE, *READERS, *LINES, *TEXTS[1:])
"""Extensions of supported files, also for uploads."""
PARQUET = ".parquet"
"""Also supported, except for uploads."""
_READ = (*SUFFIXES, PARQUET)
KINDS = f"{', '.join((PROSE, *READERS, *LINES, *TEXTS[1:7], PARQUET))}, or source code"
"""What is read, in words."""
# Files that are read in one go: each has at most so many bytes, and they are so close together.
_SMALL = 1 << 16
_LOOK_AHEAD = 256
# Names of hidden files, and of those by which Office locks others.
_HIDDEN = (".", "~$")
_ONE_FOLDER = "index the folder that holds both files, or rename one"
# For estimating the number of passages of a file that is one document.
_BYTES_PER_PASSAGE = 1_000


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read.

    Attributes:
        name: Name of the file, or its path relative to the folder; the id of its document.
        passages: Estimated number of its passages.
        size: Size in bytes; -1 if it is not known.
    """

    name: str
    path: Path | RemoteFile
    passages: int
    size: int = -1

    @property
    def suffix(self) -> str:
        """Extension in lower case, with the dot."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def shown(self) -> str:
        """Its path, for messages."""
        return str(self.path) if isinstance(self.path, Path) else self.path.key

    def here(self) -> AbstractContextManager[Path]:
        """Context manager that gives the local path of the file.

        Raises:
            OSError: It cannot be fetched.
        """
        return nullcontext(self.path) if isinstance(self.path, Path) else self.path.fetched()

    def modified(self) -> datetime | None:
        """When it was last modified; None if that is unknown.

        Raises:
            OSError: The file is missing.
        """
        if isinstance(self.path, Path):
            return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        return self.path.modified


class DocumentSource:
    """A file or a folder, and the passages of its documents.

    Attributes:
        files: Number of files that are read.
        left_out: Extension -> number of files in the folder that are skipped as unsupported.
    """

    def __init__(self, path: str | Path, as_text: Collection[str] = ()) -> None:
        """List the files; reading begins with `passages`.

        Args:
            path: A BEIR folder, a file with one of `SUFFIXES` or .parquet, or a folder of such
                files at any depth (names that begin with a dot are skipped); or the address of
                these in an object store, see `remote_files`.
            as_text: Further extensions of files that are text.

        Raises:
            SourceError: There is no such file, or its kind is not supported.
        """
        self.left_out = Counter[str]()
        self._path = path
        self._texts = frozenset([*TEXTS, *map(str.lower, as_text)])
        source = local_path(path)
        self._root = str(source.resolve() if source else path)
        if source is None:
            self._is_folder, self._files = self._listed(str(path))
        else:
            self._is_folder, self._files = self._local_files(source)
        if not self._files:
            others = f" It contains {in_words(self.left_out)}." if self.left_out else ""
            raise SourceError(
                f"{path} contains neither {BEIR_CORPUS} nor a file that ends in {KINDS}.{others} "
                "Check the path."
            )
        self.files = len(self._files)
        self._estimated = sum(file.passages for file in self._files)
        self._done = self._count = 0

    def _local_files(self, source: Path) -> tuple[bool, list[_File]]:
        """Whether a path is a folder, and its files."""
        corpus = source / BEIR_CORPUS
        if corpus.exists() and not corpus.is_dir():
            source = corpus
        if source.is_dir():
            return True, [_file(name, path) for name, path in self._walk(source)]
        if not source.exists():
            raise SourceError(f"There is no file or folder {source}. Check the path.")
        self._require_read(source.name)
        try:
            require_regular(source)
        except SourceError as error:
            raise SourceError(f"{source} {error}.") from None
        return False, [_file(source.name, source)]

    def _listed(self, address: str) -> tuple[bool, list[_File]]:
        """Whether an address is a folder, and its files."""
        is_folder, listed = list_files(address)
        corpus = [file for file in listed if file.name == BEIR_CORPUS]
        if not is_folder or corpus:
            (file,) = corpus or listed
            self._require_read(file.name)
            return False, [_remote(file)]
        hidden = (any(folder.startswith(".") for folder in file.name.split("/")) for file in listed)
        files = [file for file, is_hidden in zip(listed, hidden, strict=True) if not is_hidden]
        return True, [_remote(file) for file in files if self._is_read(file.name)]

    def _is_read(self, name: str) -> bool:
        """Whether a file of a folder is supported; others are counted in `left_out`."""
        suffix = PurePosixPath(name).suffix.lower()
        is_read = suffix in _READ or suffix in self._texts
        if not is_read:
            self.left_out[suffix] += 1
        return is_read

    def _require_read(self, name: str) -> None:
        if not self._is_read(name):
            raise SourceError(
                f"{name} has an unsupported type. Give a file that ends in {KINDS}, a folder of "
                f"such files, or a BEIR folder with {BEIR_CORPUS}; --as-text reads others as text."
            )

    def split(self) -> "list[DocumentSource]":
        """Sources of one file each, in order."""
        sources = []
        for file in self._files:
            source = copy(self)
            source._files, source.files, source._estimated = [file], 1, file.passages
            sources.append(source)
        return sources

    @property
    def listed(self) -> dict[str, list[str]]:
        """The folder that is read, and the names of its files; {} for a file."""
        return {self._root: [file.name for file in self._files]} if self._is_folder else {}

    def _address(self, file: _File) -> str:
        return f"{self._root}/{file.name}" if self._is_folder else self._root

    @property
    def shown(self) -> str:
        """The path of its first file, for messages."""
        return self._files[0].shown

    @property
    def expected(self) -> int:
        """Estimated number of passages, which gets better the more has been read."""
        if not self._done:
            return self._estimated
        passages_to_read = self._estimated - self._done
        return self._count + round(passages_to_read * self._count / self._done)

    def passages(
        self,
        *,
        chunk_words: int | None = None,
        metadata: Metadata | None = None,
        limits: Limits | None = None,
        options: Options = DEFAULT,
        on_bad: OnBad = refuse,
        on_note: Callable[[str], None] = lambda _: None,
        ids: Ids | None = None,
    ) -> Iterator[Passage]:
        """All passages, in the order of file names and of lines.

        Lines of JSON and rows of Parquet stay whole unless `chunk_words` is given or they exceed
        `LONGEST_WORDS`; all else is chunked by `CHUNK_WORDS` by default. Memory holds one document
        at a time, and the ids so far.

        Args:
            chunk_words: Longest chunk, in words.
            metadata: Metadata of every document; a document's own takes precedence.
            limits: Limits for reading a file that is neither text nor lines.
            options: What is known of the files in advance.
            on_bad: Called for every line and file that gives no passage; by default the first is an
                error.
            on_note: Called for a file that could be meant otherwise: a table whose text or title is
                a column of another name, or a text whose encoding was guessed.
            ids: Those of documents of other sources, which documents here may not have.

        Raises:
            SourceError: `chunk_words` is below 1.
        """
        ids = ids or Ids()
        with Sandbox(limits or Limits()) as sandbox:
            ahead = _Ahead(self._files, sandbox, options)
            for position, file in enumerate(self._files):
                if ids.is_read(file.name, file.shown):
                    continue  # by a source before this one
                is_whole = file.suffix in (*LINES, PARQUET)
                words = LONGEST_WORDS if is_whole else CHUNK_WORDS
                if chunk_words is not None:
                    words = chunk_words
                shared_metadata = {**self._path_metadata(file), **(metadata or {})}
                count = 0
                for document in self._documents(position, ahead, ids, on_bad, on_note):
                    ids.files[document.id] = self._address(file)
                    whole = replace(document, metadata={**shared_metadata, **document.metadata})
                    for passage in chunk_passage(whole, words):
                        count += 1
                        yield passage
                self._done += file.passages
                self._count += count

    def _documents(
        self,
        position: int,
        ahead: "_Ahead",
        ids: Ids,
        on_bad: OnBad,
        on_note: Callable[[str], None],
    ) -> Iterator[Passage]:
        file = self._files[position]
        encoding = ahead.options.encoding

        def note(bad: BadLine) -> None:
            on_bad(replace(bad, file=file.shown))

        once = partial(ids.once, source=file.shown)
        of_record = partial(ids.of_record, source=file.shown, file=self._address(file))
        try:
            with file.here() as path, open_regular(path) as content:
                if file.suffix in LINES:
                    yield from read_lines(content, note, of_record, encoding, file.name)
                elif file.suffix == PARQUET:
                    yield from read_parquet(content, note, of_record)
                elif file.suffix in self._texts:
                    document, remark = text_document(file.name, content.read(), encoding)
                    if remark:
                        on_note(f"{file.shown}: {remark}.")
                    yield once(document, advice=_ONE_FOLDER)
                else:
                    drafts = ahead.drafts(position, content)
                    if file.suffix in ROWS:
                        # The ids of its rows begin like this.
                        ids.claim(f"{file.name}:…", file.shown, _ONE_FOLDER)
                    for draft in drafts:
                        if draft.note:
                            on_note(f"{file.shown}: {draft.note}.")
                        try:
                            document = document_of(draft, file.name)
                            yield once(document, **({} if draft.line else {"advice": _ONE_FOLDER}))
                        except SourceError as error:
                            note(BadLine("", draft.line or None, str(error)))
        except RefusedError:
            raise
        except OSError as error:
            note(BadLine("", None, f"cannot be read: {error}"))
        except (BadFileError, SourceError) as error:
            note(BadLine("", None, str(error)))

    def _path_metadata(self, file: _File) -> Metadata:
        """Metadata on the path of a document of a folder, and when it was modified if it is a file.

        Empty for lines of JSON and rows of Parquet, whose metadata is their own.
        """
        if not self._is_folder or file.suffix in (*LINES, PARQUET):
            return {}
        folder = PurePath(file.name).parent.as_posix()
        metadata = {"path": file.name, "folder": "" if folder == "." else folder}
        if file.suffix in ROWS:  # one row of them may change
            return metadata
        try:
            changed = file.modified()
        except OSError:  # reported when the file is read
            return metadata
        return {**metadata, "modified": changed.date().isoformat()} if changed else metadata

    def _walk(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Relative and full paths of supported files; others are counted in `left_out`."""
        for directory, folders, files in os.walk(folder, onerror=_unreadable):
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".") and not is_index(Path(directory, name))
            )
            for name in sorted(files):
                path = Path(directory, name)
                if not name.startswith(_HIDDEN) and self._is_read(name):
                    yield path.relative_to(folder).as_posix(), path


class _Ahead:
    """Reads small files that follow one another by one process."""

    def __init__(self, files: Sequence[_File], sandbox: Sandbox, options: Options) -> None:
        self.options = options
        self._files = files
        self._sandbox = sandbox
        self._drafts: dict[int, list[Draft]] = {}

    def drafts(self, position: int, content: BinaryIO) -> Iterator[Draft]:
        """The documents of the file at a position, which is open; see `Sandbox.read`."""
        if position not in self._drafts and self._is_small(position):
            self._read_on(position)
        if position in self._drafts:
            return iter(self._drafts.pop(position))
        return self._sandbox.read(content, self._files[position].suffix, self.options)

    def _is_small(self, position: int) -> bool:
        file = self._files[position]
        return isinstance(file.path, Path) and file.suffix in READERS and 0 <= file.size <= _SMALL

    def _read_on(self, position: int) -> None:
        end = min(position + _LOOK_AHEAD, len(self._files))
        batch: list[int] = []
        with ExitStack() as stack:
            opened: list[tuple[BinaryIO, str]] = []
            for number in filter(self._is_small, range(position, end)):
                file = self._files[number]
                with suppress(OSError, SourceError):  # reported when its turn comes
                    content = stack.enter_context(open_regular(cast("Path", file.path)))
                    opened.append((content, file.suffix))
                    batch.append(number)
                if len(batch) == MOST_FILES:
                    break
            results = self._sandbox.read_small(opened, self.options)
        # The next one failed; `read` says why.
        self._drafts.update(zip(batch, results, strict=False))


def open_source(path: str | Path, as_text: Collection[str] = ()) -> DocumentSource | IndexSource:
    """Open what documents are read from: an index, or files, see `DocumentSource`.

    Raises:
        BackendError: The path is missing, of a kind that is not read, or a damaged index.
    """
    folder = local_path(path)
    return IndexSource(folder) if folder and is_index(folder) else DocumentSource(path, as_text)


def in_words(left_out: Mapping[str, int]) -> str:
    """Skipped files by extension, most first, as in "25 .xyz, 1 .png"."""
    most = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {suffix or 'without an ending'}" for suffix, count in most)


def _remote(file: RemoteFile) -> _File:
    return _File(file.name, file, 1 + file.size // _BYTES_PER_PASSAGE)


def _file(name: str, path: Path) -> _File:
    suffix = path.suffix.lower()
    try:
        with open_regular(path) as content:
            size = os.fstat(content.fileno()).st_size
            if suffix == PARQUET:
                passages = parquet.read_metadata(content).num_rows
            elif suffix in (*LINES, ".csv"):
                blocks = iter(lambda: content.read(1 << 20), b"")
                passages = sum(block.count(b"\n") for block in blocks)
            else:
                passages = 1 + size // _BYTES_PER_PASSAGE
            return _File(name, path, max(1, passages), size)
    except (OSError, SourceError, pa.ArrowException):  # reported when the file is read
        return _File(name, path, 1)


def _unreadable(error: OSError) -> NoReturn:
    raise SourceError(f"A folder cannot be read: {error}. Check the permissions.") from error
