"""Collections as OpenAI's vector stores, documents as their files, and uploads that become some."""

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import ConfigDict, Field, StrictBool

from wye.backends.documents import clean_metadata
from wye.backends.sources import JSON, TEXTS
from wye.backends.store.documents import Removal, StoredDocument
from wye.backends.types import Metadata, Passage, Ranking
from wye.router.fusion import fuse
from wye.router.types import Route
from wye.service.api.documents import StoredId, delete_from, page_of, read_from
from wye.service.api.files import list_of, staged_files
from wye.service.api.replies import PassageValue, RetrieveReply, shares_of_one
from wye.service.api.retrieve import ROUTES, Exact, Filter, QuestionText, examples, retrieve_reply
from wye.service.collections import Collection, SearchParams
from wye.service.http.edge import ASKING, READ, WRITE, Strict
from wye.service.http.openapi import Described
from wye.service.ingest.bodies import with_metadata
from wye.service.ingest.jobs import Job
from wye.service.ingest.writer import cut
from wye.service.service import Served, Service, departure

_QUERY = "Which bridge was built first?"


class RankingOptions(Described):
    """How to rank passages."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    ranker: Annotated[str | None, Field(max_length=64)] = None
    """`wye-ROUTE`; anything else means the default route."""
    score_threshold: Annotated[float | None, Field(ge=0, le=1), Exact] = None
    """Least relevance, from 0 to 1. A bound above 0 is refused where relevance is unknown."""


class StoreSearchRequest(Strict):
    """A search, as OpenAI's clients send it."""

    query: QuestionText | Annotated[list[QuestionText], Field(min_length=1, max_length=8)]
    """One query, or several, whose rankings are fused with equal weights."""
    max_num_results: Annotated[int, Field(ge=1, le=50), Exact] = 10
    filters: Filter = None
    ranking_options: RankingOptions = Field(default_factory=RankingOptions)
    rewrite_query: StrictBool | None = None
    """Accepted, but no query is rewritten; `search_query` has what was searched."""

    model_config = examples(
        {"query": _QUERY},
        {
            "query": [_QUERY, "Which is the oldest bridge?"],
            "max_num_results": 3,
            "ranking_options": {"ranker": "wye-dense"},
        },
    )


_FILE = "file-0006447aa0c0de5eed5eed5e"


class Chunking(Strict):
    """How a file is cut into passages."""

    type: Literal["auto"]
    """Use `/v1/documents` to choose the length of passages (`chunk_words`)."""


class Attach(Strict):
    """An uploaded file to make a document of."""

    file_id: Annotated[str, Field(max_length=64)]
    attributes: dict[str, str | bool | int | float] | None = None
    """Metadata of the document; the file's own metadata takes precedence."""
    chunking_strategy: Chunking | None = None

    model_config = examples(
        {"file_id": _FILE}, {"file_id": _FILE, "attributes": {"year": 1566, "cast": True}}
    )


router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], dependencies=READ)

StoreId = Annotated[str, Path(max_length=64, description="Name of a collection.")]


@router.get("", summary="List collections")
async def list_vector_stores(service: Served) -> dict[str, Any]:
    """Lists every collection that is served, with its version in `metadata`."""
    data = [await _store(service, collection) for collection in service.collections.values()]
    return list_of(data, nothing="")


@router.get("/{store}", summary="Describe a collection")
async def retrieve_vector_store(store: StoreId, service: Served) -> dict[str, Any]:
    """Describes one collection."""
    return await _store(service, service.collection(store))


@router.post("/{store}/search", summary="Search a collection")
async def search_vector_store(
    store: StoreId, body: StoreSearchRequest, request: Request, service: Served
) -> dict[str, Any]:
    """Returns passages in the form of OpenAI's vector stores; `/v1/retrieve` says more of each."""
    ranker = (body.ranking_options.ranker or "").removeprefix("wye-")
    route = Route(ranker) if ranker in ROUTES else Route.AUTO
    name, least = service.collection(store).name, body.ranking_options.score_threshold or 0.0
    params = SearchParams(
        route, body.max_num_results, body.filters, min_relevance=least, collection=name
    )
    queries = [body.query] if isinstance(body.query, str) else body.query
    results = [await service.search(request, params, query, None) for query in queries]
    replies = [retrieve_reply(result) for result in results]
    passages = _fused(replies, [result.reply.ranking for result in results], body.max_num_results)
    data = list(map(_result, passages, shares_of_one(passages)))
    return {**_page("vector_store.search_results.page", data), "search_query": queries}


FileId = Annotated[StoredId, Path()]


@router.get("/{store}/files", summary="List documents as files")
async def list_store_files(
    store: StoreId,
    service: Served,
    after: str = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    filter_: Annotated[Literal["completed"] | None, Query(alias="filter")] = None,  # noqa: ARG001
) -> dict[str, Any]:
    """Lists the documents of a collection, ascending by id, without any that jobs have to write."""
    target = service.collection(store)
    page = await page_of(service, target, after, limit)
    return list_of([_stored(target.name, each) for each in page.documents], has_more=page.more)


@router.get("/{store}/files/{document:path}/content", summary="Text of a file")
async def get_file_content(store: StoreId, document: FileId, service: Served) -> dict[str, Any]:
    """Returns the passages of a document, in order."""
    stored = await read_from(service, store, document)
    data = [_text(passage.text) for passage in stored.passages]
    return _page("vector_store.file_content.page", data)


@router.get("/{store}/files/{document:path}", summary="Describe a file")
async def get_store_file(store: StoreId, document: FileId, service: Served) -> dict[str, Any]:
    """Describes a document; it is `in_progress` while a job has to write it, or until it is found.

    If a job fails, the document is not there, and `/v1/jobs` says why.
    """
    target = service.collection(store)
    writer = service.writers[target.name]
    job = await writer.off_loop(lambda: writer.jobs.writing([document]))
    if job is not None and not ASKING.get().filter:
        return _file(target.name, document, {})
    stored = await read_from(service, store, document)
    is_searched = target.session.snapshot.passages([stored.passages[0].id])
    return _stored(target.name, stored, "completed" if is_searched else "in_progress")


@router.delete("/{store}/files/{document:path}", summary="Delete a file", dependencies=WRITE)
async def delete_store_file(store: StoreId, document: FileId, service: Served) -> dict[str, Any]:
    """Deletes a document with all its passages."""
    reply = await delete_from(service, store, Removal(documents=(document,)), dry_run=False)
    return {"id": document, "object": "vector_store.file.deleted", "deleted": reply.deleted > 0}


@router.post("/{store}/files", summary="Attach a file", dependencies=WRITE)
async def create_store_file(
    store: StoreId, body: Attach, request: Request, service: Served
) -> dict[str, Any]:
    """Makes a document of an uploaded file, under the file's id; it replaces an earlier one.

    A file that is `completed` is searched. One with many passages is `in_progress` until its job
    has written them. One that cannot be read is refused (422).
    """
    target = service.collection(store)
    staged = staged_files(service)
    file = await to_thread(staged.find, body.file_id)
    metadata = clean_metadata(body.attributes)
    with staged.content(file).open("rb") as content:
        uploads = await service.reader.read(content, file.filename, texts=(*TEXTS, JSON))
        documents = (
            with_metadata(replace(upload, id=file.id, document=file.id), metadata)
            for upload in uploads
        )
        passages = cut(documents, None, service.settings.documents)
        outcome = await service.writers[target.name].store(passages, partial(departure, request))
    if isinstance(outcome, Job):
        service.jobs.wake()
        return _file(target.name, file.id, body.attributes or {})
    await service.refresher.catch_up(target, outcome.report.version)
    return _stored(target.name, await read_from(service, target.name, file.id))


def _fused(
    replies: Sequence[RetrieveReply], rankings: Sequence[Ranking], k: int
) -> list[PassageValue]:
    """The passages of one query, or of several fused by rank, each with its best relevance."""
    if len(replies) == 1:
        return replies[0].passages
    every = (passage for reply in replies for passage in reply.passages)
    passages = {each.id: each for each in sorted(every, key=lambda each: each.relevance or 0.0)}
    hits = fuse(rankings, [1.0] * len(rankings), k=k).hits
    return [
        passages[hit.id].model_copy(update={"rank": hit.rank, "score": hit.score}) for hit in hits
    ]


def _result(passage: PassageValue, score: float) -> dict[str, Any]:
    """A passage as a part of a file; without a title, the file is called by the document's id."""
    return {
        "file_id": passage.document,
        "filename": passage.title or passage.document,
        "score": score,
        "attributes": attributes_of(passage.metadata),
        "content": [_text(passage.text)],
        "passage_id": passage.id,
        "sources": [source.model_dump() for source in passage.sources],
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _page(kind: str, data: list[dict[str, Any]]) -> dict[str, Any]:
    """A list that is always one page."""
    return {"object": kind, "data": data, "has_more": False, "next_page": None}


async def _store(service: Service, collection: Collection) -> dict[str, Any]:
    """A collection as a vector store, whose files are its passages; no times are recorded."""
    count, metadata = 0, {}
    if collection.is_ready:
        count = collection.session.count
        metadata["index_version"] = str(collection.session.version)
        if (fixed := ASKING.get().within(None)) is not None:
            ids, _ = await service.writers[collection.name].matching(Removal(filter=fixed))
            count = len(ids)
    counts = {"in_progress": 0, "completed": count, "failed": 0, "cancelled": 0, "total": count}
    return {
        "id": collection.name,
        "object": "vector_store",
        "name": collection.name,
        "status": "completed" if collection.is_ready else "in_progress",
        "created_at": 0,
        "file_counts": counts,
        "metadata": metadata,
    }


def attributes_of(metadata: Metadata) -> dict[str, str | float | bool]:
    """Metadata as OpenAI's attributes: a list becomes one text, separated by commas."""
    attributes: dict[str, str | float | bool] = {}
    for key, value in metadata.items():
        if isinstance(value, str | int | float | bool):
            attributes[key] = value
        elif value is not None:
            attributes[key] = ", ".join(str(part) for part in value)
    return attributes


def _file(
    store: str,
    id_: str,
    attributes: Mapping[str, str | float | bool],
    passages: Sequence[Passage] = (),
    status: str = "in_progress",
) -> dict[str, Any]:
    """A document as a file of a vector store, with the size of its text in bytes, as UTF-8."""
    return {
        "id": id_,
        "object": "vector_store.file",
        "status": status,
        "created_at": 0,
        "usage_bytes": sum(len(passage.text.encode()) for passage in passages),
        "vector_store_id": store,
        "attributes": attributes,
        "last_error": None,
    }


def _stored(store: str, document: StoredDocument, status: str = "completed") -> dict[str, Any]:
    attributes = attributes_of(document.passages[0].metadata)
    return _file(store, document.id, attributes, document.passages, status)
