"""Reading documents from files and folders, here or in an object store, one after another."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, NoReturn
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs, parquet

from wye.backends.documents import CHUNK_WORDS, LONGEST_WORDS, chunk_passage, document_of
from wye.backends.errors import SourceError
from wye.backends.files import open_regular, require_regular, write_atomically
from wye.backends.index_source import IndexSource, is_index
from wye.backends.readers.drafts import DEFAULT, BadFileError, Draft, Limits, Options
from wye.backends.readers.extract import MOST_FILES, READERS
from wye.backends.readers.records import (
    PROSE,
    BadLine,
    Ids,
    OnBad,
    RefusedError,
    read_json,
    read_lines,
    read_parquet,
    refuse,
    text_document,
)
from wye.backends.readers.sandbox import Sandbox
from wye.backends.store.documents import open_last
from wye.backends.types import Metadata, Passage


def local_path(source: str | Path) -> Path | None:
    """The local path of a source; None for an address elsewhere."""
    text = str(source)
    if isinstance(source, Path) or "://" not in text:
        return Path(source)
    address = urlsplit(text)
    return Path(unquote(address.path)) if address.scheme == "file" else None


BEIR_CORPUS = "corpus.jsonl"
LINES = (".jsonl", ".ndjson")  # extensions of files in which each line is a document
# Extensions of files with several documents.
ROWS = (*LINES, ".csv", ".tsv", ".xlsx", ".ods", ".mbox", ".ics", ".vcf")
_CODE = """.bat .c .cpp .cs .css .go .h .hpp .java .js .jsx .kt .lua .php .ps1 .py .r .rb .rs .scala
    .sh .sql .swift .ts .tsx"""
JSON = ".json"
_DATA = ".log .yaml .yml .toml .ini .xml"
TEXTS = (*PROSE, *_DATA.split(), *_CODE.split())  # extensions of files that are read as text
SUFFIXES = tuple(dict.fromkeys((".txt", ".md", *PROSE, *READERS, *LINES, JSON, *TEXTS)))
"""Extensions of supported files, also for uploads."""
PARQUET = ".parquet"  # also supported, except for uploads
_READ = (*SUFFIXES, PARQUET)
KINDS = f"{', '.join(each for each in _READ if each not in _CODE.split())}, or source code"
"""What is read, in words."""
# Files that are read in one go: each has at most so many bytes, and they are so close together.
_SMALL = 1 << 16
_LOOK_AHEAD = 256
_HIDDEN = (".", "~$")  # names of hidden files, and of those by which Office locks others
_ONE_FOLDER = "index the folder that holds both files, or rename one"
_BYTES_PER_PASSAGE = 1_000  # for estimating the number of passages of a file that is one document


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read."""

    name: str  # name of the file, or its path relative to the folder; the id of its document
    path: str  # its path, here or in its store
    passages: int = 1  # estimated number of its passages
    size: int = -1  # size in bytes; -1 if it is not known
    modified: datetime | None = None  # when it was last modified; None if that is not known
    store: str = ""  # any address in its object store, to connect by; "" for a file here

    @property
    def suffix(self) -> str:
        """Extension in lower case, with the dot."""
        return PurePosixPath(self.name).suffix.lower()

    @contextmanager
    def here(self) -> Iterator[Path]:
        """The local path of the file, or of a copy, deleted afterwards; may raise an `OSError`."""
        if not self.store:
            yield Path(self.path)
            return
        with tempfile.TemporaryDirectory(prefix="wye-source-") as folder:
            copy = Path(folder, "file").with_suffix(PurePosixPath(self.name).suffix)
            store, _ = fs.FileSystem.from_uri(self.store)
            source = store.open_input_stream(self.path, compression=None)
            with source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            yield copy


class DocumentSource:
    """A file or a folder, and the passages of its documents.

    Attributes:
        files: Number of files that are read.
        left_out: Extension -> number of files in the folder that are skipped as unsupported.
    """

    def __init__(self, path: str | Path, as_text: Collection[str] = ()) -> None:
        """List the files; reading begins with `passages`.

        The path is that of a BEIR folder, of a file with one of `SUFFIXES`, .parquet or a suffix in
        `as_text`, or of a folder of such files at any depth (names that begin with a dot are
        skipped); or the address of these in an object store. A `SourceError` for anything else.
        """
        self.left_out = Counter[str]()
        self._texts = frozenset([*TEXTS, *map(str.lower, as_text)])
        source = local_path(path)
        self._root = str(source.resolve() if source else path)
        self._is_folder, listed = _listed_here(source) if source else _listed_there(str(path))
        names = [*listed]
        if self._is_folder:
            shown = (n for n in names if not any(p.startswith(_HIDDEN) for p in n.split("/")))
            names = [name for name in shown if self._is_read(name)]
        elif not self._is_read(names[0]):
            raise SourceError(
                f"{names[0]} has an unsupported type. Give a file that ends in {KINDS}, a folder "
                f"of such files, or a BEIR folder with {BEIR_CORPUS}; --as-text reads others as "
                "text."
            )
        if not names:
            others = f" It contains {in_words(self.left_out)}." if self.left_out else ""
            raise SourceError(
                f"{path} contains neither {BEIR_CORPUS} nor a file that ends in {KINDS}.{others} "
                "Check the path."
            )
        self._files = [_file(name, listed[name], "" if source else str(path)) for name in names]
        if source and not self._is_folder:
            try:
                require_regular(Path(self._files[0].path))
            except SourceError as error:
                raise SourceError(f"{self._files[0].path} {error}.") from None
        self.files = len(self._files)
        self._estimated = sum(file.passages for file in self._files)
        self._done = self._count = 0

    def _is_read(self, name: str) -> bool:
        """Whether a file of a folder is supported; others are counted in `left_out`."""
        suffix = PurePosixPath(name).suffix.lower()
        is_read = suffix in _READ or suffix in self._texts
        if not is_read:
            self.left_out[suffix] += 1
        return is_read

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
        return self._files[0].path

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
                if ids.is_read(file.name, file.path):
                    continue  # by a source before this one
                words = LONGEST_WORDS if file.suffix in (*LINES, PARQUET) else CHUNK_WORDS
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
            on_bad(replace(bad, file=file.path))

        once = partial(ids.once, source=file.path)
        of_record = partial(ids.of_record, source=file.path, file=self._address(file))
        try:
            with file.here() as path, open_regular(path) as content:
                if file.suffix in LINES:
                    yield from read_lines(content, note, of_record, ahead.options, file.name)
                elif file.suffix == PARQUET:
                    yield from read_parquet(content, note, of_record)
                elif file.suffix in self._texts:
                    document, remark = text_document(file.name, content.read(), encoding)
                    if remark:
                        on_note(f"{file.path}: {remark}.")
                    yield once(document, advice=_ONE_FOLDER)
                else:
                    drafts = ahead.drafts(position, content)
                    if file.suffix in (*ROWS, JSON):
                        # The ids of its rows begin like this.
                        ids.claim(f"{file.name}:…", file.path, _ONE_FOLDER)
                    for draft in drafts:
                        if draft.note:
                            on_note(f"{file.path}: {draft.note}.")
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
        metadata: dict[str, Any] = {"path": file.name, "folder": "" if folder == "." else folder}
        if file.modified and file.suffix not in ROWS:  # one row of those may change
            metadata["modified"] = file.modified.date().isoformat()
        return metadata


class _Ahead:
    """Reads small files that follow one another by one process."""

    def __init__(self, files: Sequence[_File], sandbox: Sandbox, options: Options) -> None:
        self.options = options
        self._files = files
        self._sandbox = sandbox
        self._drafts: dict[int, list[Draft]] = {}

    def drafts(self, position: int, content: BinaryIO) -> Iterator[Draft]:
        """The documents of the file at a position, which is open; see `Sandbox.read`."""
        if self._files[position].suffix == JSON:
            return read_json(content.read(), self._files[position].name, self.options)
        if position not in self._drafts and self._is_small(position):
            self._read_on(position)
        if position in self._drafts:
            return iter(self._drafts.pop(position))
        return self._sandbox.read(content, self._files[position].suffix, self.options)

    def _is_small(self, position: int) -> bool:
        file = self._files[position]
        return not file.store and file.suffix in READERS and 0 <= file.size <= _SMALL

    def _read_on(self, position: int) -> None:
        end = min(position + _LOOK_AHEAD, len(self._files))
        batch: list[int] = []
        with ExitStack() as stack:
            opened: list[tuple[BinaryIO, str]] = []
            for number in filter(self._is_small, range(position, end)):
                file = self._files[number]
                with suppress(OSError, SourceError):  # reported when its turn comes
                    opened.append((stack.enter_context(open_regular(Path(file.path))), file.suffix))
                    batch.append(number)
                if len(batch) == MOST_FILES:
                    break
            results = self._sandbox.read_small(opened, self.options)
        # The next one failed; `read` says why.
        self._drafts.update(zip(batch, results, strict=False))


def open_source(path: str | Path, as_text: Collection[str] = ()) -> DocumentSource | IndexSource:
    """Open an index, or files, to read documents from; a `BackendError` if it cannot be read."""
    folder = local_path(path)
    return IndexSource(folder) if folder and is_index(folder) else DocumentSource(path, as_text)


def in_words(left_out: Mapping[str, int]) -> str:
    """Skipped files by extension, most first, as in "25 .xyz, 1 .png"."""
    most = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {suffix or 'without an ending'}" for suffix, count in most)


def _listed_here(source: Path) -> tuple[bool, dict[str, str]]:
    """Whether a path is a folder of documents, and the path of each file in it, by name."""
    corpus = source / BEIR_CORPUS
    if corpus.exists() and not corpus.is_dir():
        source = corpus
    if not source.exists():
        raise SourceError(f"There is no file or folder {source}. Check the path.")
    if not source.is_dir():
        return False, {source.name: str(source)}
    paths = {}
    for directory, folders, files in os.walk(source, onerror=_unreadable):
        inside = (name for name in sorted(folders) if not name.startswith("."))
        folders[:] = [name for name in inside if not is_index(Path(directory, name))]
        for path in (Path(directory, name) for name in sorted(files)):
            paths[path.relative_to(source).as_posix()] = str(path)
    return True, paths


def _listed_there(address: str) -> tuple[bool, dict[str, fs.FileInfo]]:
    """Whether an address is a folder of documents, and its files by name, or a `SourceError`."""
    try:
        store, path = fs.FileSystem.from_uri(address)
        root = store.get_file_info(path)
        if root.is_file:
            return False, {root.base_name: root}
        inside = store.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{address} cannot be read: {str(error).splitlines()[0]}. Check the address and the "
            "permissions."
        ) from error
    infos = sorted((info for info in inside if info.is_file), key=lambda info: info.path)
    files = {PurePosixPath(info.path).relative_to(path).as_posix(): info for info in infos}
    if BEIR_CORPUS in files:
        return False, {BEIR_CORPUS: files[BEIR_CORPUS]}
    return True, files


def _file(name: str, listed: str | fs.FileInfo, store: str) -> _File:
    if not isinstance(listed, str):
        size = listed.size or 0
        passages = 1 + size // _BYTES_PER_PASSAGE
        return _File(name, listed.path, passages, size, listed.mtime, store)
    suffix = PurePosixPath(name).suffix.lower()
    try:
        with open_regular(Path(listed)) as content:
            status = os.fstat(content.fileno())
            if suffix == PARQUET:
                passages = parquet.read_metadata(content).num_rows
            elif suffix in (*LINES, ".csv"):
                blocks = iter(lambda: content.read(1 << 20), b"")
                passages = sum(block.count(b"\n") for block in blocks)
            else:
                passages = 1 + status.st_size // _BYTES_PER_PASSAGE
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            return _File(name, listed, max(1, passages), status.st_size, modified)
    except (OSError, SourceError, pa.ArrowException):  # reported when the file is read
        return _File(name, listed)


def _unreadable(error: OSError) -> NoReturn:
    raise SourceError(f"A folder cannot be read: {error}. Check the permissions.") from error


_FILES = "files.parquet"


def vanished(folder: Path, listed: Mapping[str, Collection[str]]) -> list[str]:
    """Ids of documents of files in folders that are no longer among their `listed` names.

    A document that a file elsewhere gave later is that file's.
    """
    lost = {
        id_
        for id_, file in read_files(folder).items()
        for source, names in listed.items()
        if file.startswith(f"{source}/") and file.removeprefix(f"{source}/") not in names
    }
    if not lost:
        return []
    index = open_last(folder)
    with index.reading():
        ids = index.snapshot().to_table(columns=["document"])["document"].to_pylist()
    return sorted(lost.intersection(ids))


def read_files(folder: Path) -> dict[str, str]:
    """Id of each document that `wye index` read of files -> the file; {} if that is not known."""
    with suppress(OSError, pa.ArrowException):
        return dict(zip(*parquet.read_table(folder / _FILES).to_pydict().values(), strict=True))
    return {}


def record_files(folder: Path, files: Mapping[str, str], removed: Collection[str] = ()) -> None:
    """Add to what `read_files` returns, without documents that were removed, or an `OSError`."""
    known = {id_: file for id_, file in read_files(folder).items() if id_ not in removed}
    known |= files
    with write_atomically(folder / _FILES) as file:
        parquet.write_table(pa.table({"id": [*known], "file": [*known.values()]}), file)
