"""Stores what a language model extracted from passages, as given in a file of JSON lines.

Each line is a passage as it was read, with its knowledge units, or with its facts as triples:

    {"id": "mostar", "title": "Stari Most", "text": "The Old Bridge …", "units": ["…", "…"]}
    {"id": "mostar", "title": "Stari Most", "text": "…", "facts": [["head", "relation", "tail"]]}

Source: knowledge units are Clue-RAG's; facts are those that EA-GraphRAG takes from HippoRAG 2.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from wye.backends.documents import clean
from wye.backends.errors import SourceError
from wye.backends.files import open_regular
from wye.backends.papers.extracted import (
    ExtractedStore,
    Extraction,
    Kind,
    content_key,
    content_keys,
)
from wye.backends.progress import Progress
from wye.backends.readers.records import numbered_lines, parse_json
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import StoredSentence
from wye.backends.text import is_blank
from wye.backends.types import Passage, PassageAnalyser

_WINDOW = 32
"""Number of passages whose items are analysed together."""
_FORMS: Mapping[Kind, str] = {
    "units": "a text that is not empty",
    "facts": "a list of head, relation and tail, none of them empty",
}


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What was stored of a file.

    Attributes:
        passages: Number of passages in the file.
        items: Number of their units or facts.
        unchanged: Number of the passages that had the same items before.
    """

    kind: Kind
    passages: int
    items: int
    unchanged: int

    def __str__(self) -> str:
        return (
            f"Stored {self.items:,} {self.kind} of {self.passages:,} passages, {self.unchanged:,} "
            "of which had the same before."
        )


def store_file(
    file: Path,
    kind: Kind,
    index: PassageStore,
    analyser: Callable[[], PassageAnalyser],
    progress: Progress,
) -> StoreReport:
    """Store the extractions in a file, all or none; they replace those of the same passages.

    Args:
        analyser: Gives the analyser that the index is pinned to, once the file has been read.

    Raises:
        SourceError: A line has another form, or its passage is not in the index; nothing is stored.
        IndexLockedError: Somebody else is writing to the index.
        IndexDamagedError: The index is not as last committed.
    """
    store = ExtractedStore(index.path, index.fingerprint)
    with index.writer() as writer:
        contents = content_keys(index.path, writer.dataset)
        extractions = read_extractions(file, kind, contents)
        store.forget_others(contents)
        before = {record.id: record for record in store.read(kind)}
        changed = {id_: record for id_, record in extractions.items() if before.get(id_) != record}
        # Those that come from an index with other models were not analysed with these.
        stale = {id_: record for id_, record in before.items() if not record.analysed}
        store.keep(kind, _analysed(kind, [*(stale | changed).values()], analyser, progress))
    items = sum(len(record.items) for record in extractions.values())
    unchanged = len(extractions) - len(changed)
    return StoreReport(kind, len(extractions), items, unchanged)


def read_extractions(file: Path, kind: Kind, contents: Mapping[str, str]) -> dict[str, Extraction]:
    """The extractions in a file, by id of the passage; of several lines the last counts.

    Args:
        contents: Id -> `content_key` of every passage of the index.

    Raises:
        SourceError: A line has another form, or its passage is not in the index.
        OSError: The file cannot be read.
    """
    extractions: dict[str, Extraction] = {}
    where = str(file)
    try:
        with open_regular(file) as content:
            for number, line in numbered_lines(content):
                where = f"{file}:{number}"
                extraction = _extraction(parse_json(line), kind, contents, file.name)
                extractions[extraction.id] = extraction
    except SourceError as error:
        raise SourceError(f"{where}: {error}. Nothing was stored.") from error
    return extractions


def _extraction(record: object, kind: Kind, contents: Mapping[str, str], source: str) -> Extraction:
    """The extraction that a line describes.

    Raises:
        SourceError: It describes none; says why.
    """
    if not isinstance(record, dict):
        raise SourceError("is not an object")
    id_, title, text = record.get("id"), record.get("title") or "", record.get("text")
    if not (isinstance(id_, str) and isinstance(title, str) and isinstance(text, str)):
        raise SourceError("id, text and, if there is one, title must be strings")
    if id_ not in contents:
        raise SourceError(f"no passage of the index has the id {id_!r:.80}")
    # A lone surrogate, which no stored text has, cannot be encoded.
    title, text = (value.encode("utf-8", "replace").decode() for value in (title, text))
    if content_key(title, text) != contents[id_]:
        raise SourceError(
            f"passage {id_!r:.80} has another title or text in the index; extract from it again"
        )
    values = record.get(kind)
    if not isinstance(values, list):
        raise SourceError(f"{kind} is missing, or is not a list")
    items: dict[str, Any] = {}
    for value in values:
        fields = value if kind == "facts" else [value]
        texts = [*map(_line, fields)] if isinstance(fields, list) else []
        if len(texts) != (3 if kind == "facts" else 1) or any(map(is_blank, texts)):
            raise SourceError(f"{value!r:.80} in {kind} is not {_FORMS[kind]}")
        items.setdefault(" ".join(texts), texts if kind == "facts" else texts[0])
    return Extraction(id_, contents[id_], source, [*items.values()])


def _line(text: object) -> str:
    """A text on one line, without control characters; "" for anything else."""
    return " ".join(clean(text).split()) if isinstance(text, str) else ""


def _analysed(
    kind: Kind,
    extractions: Sequence[Extraction],
    analyser: Callable[[], PassageAnalyser],
    progress: Progress,
) -> Iterator[tuple[Extraction, list[StoredSentence]]]:
    """Have items parsed and encoded, some passages at a time."""
    if not extractions:
        return
    analyse, models = _facts if kind == "facts" else _units, analyser()
    progress.start(len(extractions), f"analysing {kind}")
    try:
        for start in range(0, len(extractions), _WINDOW):
            window = extractions[start : start + _WINDOW]
            yield from zip(window, analyse(window, models), strict=True)
            progress.advance(len(window))
    finally:
        progress.close()


def _units(
    window: Sequence[Extraction], analyser: PassageAnalyser
) -> Iterator[list[StoredSentence]]:
    """The analysed units of each passage; those without a mention are left out."""
    passages = [
        Passage(f"{record.id} {number}", "", text)
        for record in window
        for number, text in enumerate(record.items)
    ]
    analyses = iter(list(analyser.analyse(passages)))
    for record in window:
        units = []
        for text, analysis in zip(record.items, islice(analyses, len(record.items)), strict=True):
            entities = tuple(chain.from_iterable(each.entities for each in analysis.sentences))
            phrases = tuple(chain.from_iterable(each.phrases for each in analysis.sentences))
            if entities or phrases:
                units.append(StoredSentence(text, entities, phrases, analysis.vector))
        yield units


def _facts(
    window: Sequence[Extraction], analyser: PassageAnalyser
) -> Iterator[list[StoredSentence]]:
    """The facts of each passage, as sentences that mention their head and their tail."""
    texts = [" ".join(triple) for record in window for triple in record.items]
    vectors = iter(analyser.encode_surfaces(texts) if texts else np.empty((0, 0), np.float32))
    for record in window:
        yield [
            StoredSentence(" ".join(triple), (triple[0], triple[2]), (), vector)
            for triple, vector in zip(record.items, islice(vectors, len(record.items)), strict=True)
        ]
