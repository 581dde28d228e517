"""`/v1/documents`: stores, lists, reads and deletes documents."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field, JsonValue, StrictBool, model_validator
from starlette.responses import JSONResponse

from wye.backends.documents import parse_record
from wye.backends.errors import SourceError
from wye.backends.sources import SUFFIXES
from wye.backends.store import documents as store
from wye.backends.store.documents import Page, Removal, StoredDocument
from wye.backends.types import Metadata, Passage
from wye.service.api.jobs import JobValue, job_value
from wye.service.api.retrieve import CollectionName, Exact, Filter, examples
from wye.service.collections import Collection
from wye.service.http.edge import ASKING, READ, WRITE, Strict
from wye.service.http.openapi import Described, body_of
from wye.service.http.problems import Problem, validated
from wye.service.ingest.bodies import FileResult, SentDocuments, documents_of
from wye.service.ingest.forms import UploadForm
from wye.service.ingest.jobs import Job
from wye.service.ingest.writer import cut
from wye.service.service import Served, Service, departure

MOST_NAMED = SHOWN_IDS = 1_000
MOST_DOCUMENTS = 10_000
StoredId = Annotated[
    str,
    AfterValidator(partial(unicodedata.normalize, "NFC")),  # as ids are stored
    Field(min_length=1, description="As listed; `wye index` and Python store longer ids, too."),
]
DocumentId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        description="Unique in its collection. Storing a document under a known id replaces it.",
    ),
]
ChunkWords = Annotated[
    int | None, Field(ge=20, le=2_000, description="Longest passage, in words. Default: 200.")
]
_STARI_MOST: dict[str, JsonValue] = {
    "title": "Stari Most",
    "text": "The Old Bridge spans the Neretva in Mostar.",
}
_TOWER_BRIDGE: dict[str, JsonValue] = {
    "title": "Tower Bridge",
    "text": "Tower Bridge crosses the Thames in London.",
    "metadata": {"year": 1894, "kinds": ["bascule", "suspension"]},
}


class DocumentBody(Strict):
    """A document without its id."""

    title: Annotated[str, Field(max_length=1_024)] = ""
    text: Annotated[str, Field(min_length=1)]
    """The text; cut between sentences into passages of up to `chunk_words` words."""
    metadata: Annotated[dict[str, Any], Field(default_factory=dict, max_length=64)]
    """Values to filter by, copied to every passage of the document: strings, numbers, booleans,
    null, or lists of at most 256 of them. At most 16 kB as JSON."""

    model_config = examples(_STARI_MOST, _TOWER_BRIDGE)


class DocumentValue(DocumentBody):
    """A document to store."""

    id: DocumentId

    model_config = examples({"id": "mostar", **_STARI_MOST})


class DocumentsRequest(Strict):
    """Documents to store."""

    documents: Annotated[
        list[DocumentValue], Field(min_length=1, max_length=MOST_DOCUMENTS, fail_fast=True)
    ]
    collection: CollectionName = None
    chunk_words: Annotated[ChunkWords, Exact] = None

    model_config = examples(
        {"documents": [{"id": "mostar", **_STARI_MOST, "metadata": {"year": 1566}}]},
        {"documents": [{"id": "tower", "text": _TOWER_BRIDGE["text"]}], "chunk_words": 120},
    )


class WrittenReply(Described):
    """Documents that were committed."""

    collection: str
    index_version: int
    """Version of the commit; replies with it or a later one searched the documents."""
    documents: list[str]
    """Ids of the documents."""
    added: int
    """Number of passages with a new id."""
    updated: int
    """Number of passages whose content changed."""
    unchanged: int
    """Number of passages that were already stored like this."""
    removed: int
    """Number of former chunks that their documents no longer have."""
    files: list[FileResult] = Field(default_factory=list)
    """Of an upload: what became of each file."""


class StoredPassage(BaseModel):
    """One passage of a stored document."""

    id: str
    text: str


class DocumentReply(BaseModel):
    """A stored document."""

    id: str
    title: str
    metadata: Metadata
    passages: list[StoredPassage]


class DocumentSummary(Described):
    """A document in a list."""

    id: str
    title: str
    metadata: Metadata
    passages: int
    """Number of passages that it was cut into."""
    characters: int


class DocumentPage(Described):
    """A page of documents, ascending by id."""

    collection: str
    index_version: int
    """Version that was listed, the newest."""
    total: int
    """Number of documents in the collection, or of those with the `prefix`."""
    data: list[DocumentSummary]
    next: str | None
    """Value of `after` for the next page; null on the last."""


StoredIds = Annotated[list[StoredId], Field(default_factory=list, max_length=MOST_NAMED)]


class DeleteRequest(Strict):
    """What to delete: every passage that `filter`, `documents` or `ids` selects."""

    filter: Filter = None
    documents: StoredIds
    """Ids of documents to delete with all their passages."""
    ids: StoredIds
    """Ids of single passages to delete."""
    dry_run: StrictBool = False
    """Say what would be deleted, but change nothing."""
    collection: CollectionName = None

    model_config = examples(
        {"filter": {"type": "lt", "key": "year", "value": 1600}, "dry_run": True},
        {"documents": ["tower"], "collection": "default"},
    )

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if self.filter is None and not self.documents and not self.ids:
            raise ValueError("name a filter, documents or ids to delete")
        return self


class DeletedReply(Described):
    """What was deleted or would be."""

    collection: str
    index_version: int
    """A version without the deleted passages; in a dry run, the newest."""
    dry_run: bool = False
    deleted: int
    """Number of passages."""
    ids: list[str]
    """Ids of the first thousand of these passages, ascending."""


router = APIRouter(prefix="/v1/documents", tags=["documents"])

Named = Annotated[CollectionName, Query()]
DocumentPath = Annotated[DocumentId, Path()]
KnownId = Annotated[StoredId, Path()]
_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": JobValue, "description": "Accepted as a job; its address is in `location`."},
    409: {"description": "A job or another process is writing the document."},
}
_FORM = {
    "file": {
        "type": "array",
        "x-endings": list(SUFFIXES),
        "items": {"type": "string", "format": "binary"},
        "description": (
            f"Files that end in {', '.join(SUFFIXES)}. A file's name becomes the id of its "
            "document, with the folders sent before it, as in `notes/a.md`; ids of CSV rows begin "
            "with it, as in `rooms.csv:1`."
        ),
    },
    **UploadForm.schema_of_fields(),
}
_LINES = (
    "One document per line, with `_id` or `id`, `title`, `text` and `metadata`, as in BEIR's "
    "`corpus.jsonl`."
)
_BODIES: dict[str, dict[str, Any]] = {
    "application/json": {"$ref": "#/components/schemas/DocumentsRequest"},
    "application/x-ndjson": {"type": "string", "description": _LINES},
    "multipart/form-data": {"type": "object", "required": ["file"], "properties": _FORM},
}


@router.post(
    "",
    status_code=201,
    dependencies=WRITE,
    summary="Store documents",
    responses=_ACCEPTED,
    openapi_extra=body_of(_BODIES),
)
async def add_documents(
    request: Request,
    service: Served,
    collection: Named = None,
    chunk_words: Annotated[ChunkWords, Query()] = None,
) -> Response:
    """Stores new documents and replaces known ones: all documents of a request, or none.

    Of an upload, all that can be read is stored, and `files` says what became of each file.

    Documents with few passages are committed before the reply, 201. More become a job, with the
    reply 202: the documents are then on the disk, and after a crash the job resumes. Unchanged
    documents are not written again, so you can repeat a request whose reply was lost.

    ```bash
    curl http://127.0.0.1:8000/v1/documents -F file=@mostar.md -F 'metadata={"year": 1566}'
    ```
    """
    settings = service.settings.documents
    async with documents_of(request, service.reader, _sent) as body:
        target = service.collection(body.collection or collection)
        passages = cut(body.documents, body.chunk_words or chunk_words, settings)
        return await _store(request, service, target, passages, 201, files=body.files)


@router.get("", dependencies=READ, summary="List documents")
async def list_documents(
    service: Served,
    collection: Named = None,
    after: Annotated[
        str, Query(description="`next` of the page before; empty for the first page.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1_000, description="Most documents on a page.")] = 100,
    prefix: Annotated[
        str, Query(description="Lists and counts only ids that begin with this.")
    ] = "",
) -> DocumentPage:
    """Lists the documents of the newest version, ascending by id."""
    target = service.collection(collection)
    page = await page_of(service, target, after, limit, prefix)
    return DocumentPage(
        collection=target.name,
        index_version=page.version,
        total=page.total,
        data=[
            DocumentSummary(
                id=document.id,
                title=document.title,
                metadata=document.passages[0].metadata,
                passages=len(document.passages),
                characters=sum(len(passage.text) for passage in document.passages),
            )
            for document in page.documents
        ],
        next=page.documents[-1].id if page.more else None,
    )


@router.post("/delete", dependencies=WRITE, summary="Delete by filter or by many ids")
async def delete_documents(body: DeleteRequest, service: Served) -> DeletedReply:
    """Deletes all passages that a metadata filter lets through or that are named, in one commit.

    After the reply, no new question to this process finds them; other processes follow within a
    second. The request is refused (409) while a job is to write one of them.
    """
    removal = Removal(tuple(body.ids), tuple(body.documents), body.filter)
    return await delete_from(service, body.collection, removal, dry_run=body.dry_run)


@router.put(
    "/{document:path}",
    dependencies=WRITE,
    summary="Store one document",
    response_model=WrittenReply,
    responses={201: {"model": WrittenReply, "description": "The document is new."}, **_ACCEPTED},
)
async def put_document(
    document: DocumentPath,
    body: DocumentBody,
    request: Request,
    service: Served,
    *,
    collection: Named = None,
    chunk_words: Annotated[ChunkWords, Query()] = None,
) -> Response:
    """Stores a document under an id: 200 if it replaces one, 201 if it is new."""
    target = service.collection(collection)
    sent = _document(document, **body.model_dump())
    passages = cut([sent], chunk_words, service.settings.documents)
    return await _store(request, service, target, passages, 200)


@router.get("/{document:path}", dependencies=READ, summary="Read a document")
async def get_document(
    document: KnownId, service: Served, collection: Named = None
) -> DocumentReply:
    """Returns a document of the newest version with its passages."""
    stored = await read_from(service, collection, document)
    return DocumentReply(
        id=stored.id,
        title=stored.title,
        metadata=stored.passages[0].metadata,
        passages=[StoredPassage(id=passage.id, text=passage.text) for passage in stored.passages],
    )


@router.delete("/{document:path}", dependencies=WRITE, summary="Delete a document")
async def delete_document(
    document: KnownId, service: Served, collection: Named = None
) -> DeletedReply:
    """Deletes a document with all its passages; an unknown id is no error.

    After the reply, no new question to this process finds it; other processes follow within a
    second.
    """
    return await delete_from(service, collection, Removal(documents=(document,)), dry_run=False)


def _document(id: str, **record: object) -> Passage:  # noqa: A002 - the word of the API
    """A document sent as JSON, cleaned; a `Problem` 422 for what its schema does not rule out."""
    try:
        return parse_record({"id": id, **record})
    except SourceError as error:
        raise Problem(422, "bad-document", f"Document '{id:.80}': {error}.") from error


def _sent(body: bytes) -> SentDocuments:
    request = validated(DocumentsRequest.model_validate_json, body)
    passages = (_document(**value.model_dump()) for value in request.documents)
    return SentDocuments(passages, request.collection, request.chunk_words)


async def page_of(
    service: Service, target: Collection, after: str, limit: int, prefix: str = ""
) -> Page:
    """A page of the documents that the asking key may see."""
    folder, fixed = target.session.folder, ASKING.get().within(None)
    page = partial(store.list_documents, folder, after, limit, prefix, fixed)
    return await service.writers[target.name].off_loop(page)


async def read_from(service: Service, collection: str | None, document: str) -> StoredDocument:
    """A document of a collection that the asking key may see, or a `Problem` 404."""
    target = service.collection(collection)
    read = partial(store.read_document, target.session.folder, document, ASKING.get().within(None))
    stored = await service.writers[target.name].off_loop(read)
    if stored is None:
        missing = f"There is no document '{document:.80}' in '{target.name}'"
        raise Problem(404, "no-such-document", f"{missing}; /v1/documents lists them.")
    return stored


async def delete_from(
    service: Service, collection: str | None, removal: Removal, *, dry_run: bool
) -> DeletedReply:
    """Delete what `removal` selects from a collection, or say what would be deleted."""
    target = service.collection(collection)
    writer = service.writers[target.name]
    ids, version = await (writer.matching(removal) if dry_run else writer.delete(removal))
    if not dry_run:
        await service.refresher.catch_up(target, version)
    name, count, first = target.name, len(ids), ids[:SHOWN_IDS]
    return DeletedReply(
        collection=name, index_version=version, dry_run=dry_run, deleted=count, ids=first
    )


async def _store(
    request: Request,
    service: Service,
    target: Collection,
    passages: Iterator[Passage],
    replaced: int,
    *,
    files: Sequence[FileResult] = (),
) -> Response:
    """Store documents: 202 for a job, 201 if all are new, else `replaced`."""
    outcome = await service.writers[target.name].store(passages, partial(departure, request))
    if isinstance(outcome, Job):
        service.jobs.wake()
        value = job_value(outcome).model_dump(mode="json")
        if files:
            value["files"] = [file.model_dump() for file in files]
        return JSONResponse(value, 202, {"location": f"/v1/jobs/{outcome.id}"})
    report, name, ids = outcome.report, target.name, list(outcome.documents)
    facts = {**asdict(report), "index_version": report.version}
    reply = WrittenReply(**facts, collection=name, documents=ids, files=list(files))
    was_there = report.updated or report.unchanged or report.removed
    return JSONResponse(reply.model_dump(mode="json"), replaced if was_there else 201)
