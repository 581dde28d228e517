"""From documents to passages: checked, cut, and written at once or as a job."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from backends.documents import CHUNK_WORDS, chunk_passage
from backends.errors import SourceError
from backends.store.ingest import IngestReport
from backends.types import Passage
from service.http.problems import Problem
from service.ingest.desk import Desk
from service.ingest.jobs import Job
from service.ingest.writer import CollectionWriter

LONGEST_ID = 512


@dataclass(frozen=True, slots=True)
class WrittenDocuments:
    """Documents that were stored while their sender waited.

    Attributes:
        documents: Their ids.
        report: What storing them did.
    """

    documents: tuple[str, ...]
    report: IngestReport


async def take(
    desk: Desk, scribe: CollectionWriter, documents: Iterable[Passage], chunk_words: int | None
) -> WrittenDocuments | Job:
    """Store documents, or make a job of them where they are many; either is on the disk then.

    Args:
        desk: To be told of a new job, and to count what is done.
        scribe: Of the collection.
        documents: Whole ones; read in another thread.
        chunk_words: Longest passage, in words.

    Raises:
        Problem: Documents that cannot be stored, of which none is stored then; or as of
            `CollectionWriter`.
    """
    most = desk.settings.direct_passages
    passages = _cut(documents, chunk_words or CHUNK_WORDS, desk.settings.characters)

    def begin() -> list[Passage]:
        return list(islice(passages, most + 1))

    first = await scribe.off_loop(begin)
    if not first:
        raise Problem(
            422, "no-documents", "There is no document in the request; send at least one."
        )
    tally = desk.tally(scribe.collection)
    if len(first) <= most:
        with tally.change("write"):
            report = await scribe.upsert(first)
        written = WrittenDocuments(
            tuple(dict.fromkeys(passage.document for passage in first)), report
        )
        tally.stored(len(written.documents))
        tally.wrote(report)
        return written
    job = await scribe.submit(chain(first, passages))
    tally.accepted(job)
    desk.wake()
    return job


def _cut(documents: Iterable[Passage], words: int, characters: int) -> Iterator[Passage]:
    """Passages of documents, each of which may come once and not be too long."""
    met: set[str] = set()
    try:
        for document in documents:
            if len(document.id) > LONGEST_ID:
                raise _refused(document, f"has an id of more than {LONGEST_ID} characters")
            # Among them passages: a document may be called as a part of another is.
            if document.id in met:
                raise _refused(document, "comes twice in the request; send it once")
            met.add(document.id)
            if len(document.text) > characters:
                raise _refused(
                    document,
                    f"has {len(document.text):,} characters, and {characters:,} are stored; send "
                    "it in parts",
                )
            for passage in chunk_passage(document, words):
                if passage.id != document.id:
                    if passage.id in met:
                        raise _refused(document, f"has a part called as '{passage.id:.80}' is")
                    met.add(passage.id)
                yield passage
    except SourceError as error:
        raise Problem(422, "bad-document", f"A document cannot be stored: {error}.") from error


def _refused(document: Passage, reason: str) -> Problem:
    return Problem(422, "bad-document", f"Document '{document.id:.80}' {reason}.")
