"""OpenAI's vector stores: each collection is one."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from backends.store.documents import Removal, StoredDocument, list_documents
from backends.types import Ranking
from router.fusion import fuse
from router.session import Session
from router.types import Route
from service.collections import Collection
from service.http.auth import READ, WRITE
from service.http.keys import ASKING
from service.http.replies import flat, headers, retrieve_reply
from service.routes.documents import delete_from, read_from
from service.schemas.common import DEFAULT_ROUTE, ROUTES
from service.schemas.documents import DocumentId
from service.schemas.retrieve import PassageValue, RetrieveReply
from service.schemas.vector_stores import (
    FileCounts,
    Store,
    StoreFile,
    StoreFileContent,
    StoreFileDeleted,
    StoreFileList,
    StoreList,
    StorePage,
    StoreResult,
    StoreSearchRequest,
    StoreText,
)
from service.search import SearchParams
from service.service import Served, Service

router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], dependencies=READ)

StoreId = Annotated[str, Path(max_length=64, description="Name of a collection.")]
FileId = Annotated[DocumentId, Path()]


@router.get("", summary="List collections", operation_id="list_vector_stores")
async def stores(service: Served) -> StoreList:
    """Every collection that is served, with the router that decides there in `metadata`."""
    found = [await _store(service, collection) for collection in service.collections.values()]
    names = [store.id for store in found] or [""]
    return StoreList(data=found, first_id=names[0], last_id=names[-1])


@router.get("/{store}", summary="Describe a collection", operation_id="retrieve_vector_store")
async def store_by_name(store: StoreId, service: Served) -> Store:
    """One collection."""
    return await _store(service, service.collection(store))


@router.post("/{store}/search", summary="Search a collection", operation_id="search_vector_store")
async def search(
    store: StoreId,
    wanted: StoreSearchRequest,
    request: Request,
    response: Response,
    service: Served,
) -> StorePage:
    """Passages in the form of OpenAI's vector stores; `/v1/retrieve` says more about each."""
    queries = [wanted.query] if isinstance(wanted.query, str) else list(wanted.query)
    options = wanted.ranking_options
    ranker = (options.ranker or "" if options else "").removeprefix("wye-")
    route = Route(ranker) if ranker in ROUTES else DEFAULT_ROUTE
    params = SearchParams(
        service.collection(store).name, route, wanted.max_num_results, wanted.filters
    )
    results = await service.search(request, params, queries, None)
    replies = [retrieve_reply(result) for result in results]
    rankings = [result.reply.ranking for result in results]
    response.headers.update(headers(replies[0]))
    threshold = options.score_threshold if options else None
    return StorePage(
        search_query=queries,
        data=[
            _result(passage)
            for passage in _merged(replies, rankings, wanted.max_num_results)
            if threshold is None or passage.score >= threshold
        ],
    )


@router.get("/{store}/files", summary="List documents as files", operation_id="list_store_files")
async def files(
    store: StoreId,
    service: Served,
    after: Annotated[str, Query(max_length=512)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> StoreFileList:
    """Documents of a collection, ascending by id; `/v1/documents` takes new ones."""
    target = service.collection(store)
    folder = target.session.folder
    fixed = ASKING.get().within(None)
    page = await service.writers[target.name].off_loop(
        lambda: list_documents(folder, after, limit, "", fixed)
    )
    data = [_file(service, target.name, document) for document in page.documents]
    ids = [one.id for one in data]
    return StoreFileList(
        data=data,
        has_more=page.more,
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
    )


@router.get(
    "/{store}/files/{document:path}/content",
    summary="Text of a file",
    operation_id="get_file_content",
)
async def content(store: StoreId, document: FileId, service: Served) -> StoreFileContent:
    """The passages of a document, in order."""
    found = await read_from(service, store, document)
    return StoreFileContent(data=[StoreText(text=passage.text) for passage in found.passages])


@router.get(
    "/{store}/files/{document:path}", summary="Describe a file", operation_id="get_store_file"
)
async def file_by_id(store: StoreId, document: FileId, service: Served) -> StoreFile:
    """One document."""
    found = await read_from(service, store, document)
    return _file(service, service.collection(store).name, found)


@router.delete(
    "/{store}/files/{document:path}",
    summary="Delete a file",
    operation_id="delete_store_file",
    dependencies=WRITE,
)
async def delete_file(store: StoreId, document: FileId, service: Served) -> StoreFileDeleted:
    """Deletes a document with all its passages."""
    done = await delete_from(service, store, Removal(documents=(document,)), dry_run=False)
    return StoreFileDeleted(id=document, deleted=done.deleted > 0)


def _file(service: Service, store: str, document: StoredDocument) -> StoreFile:
    return StoreFile(
        id=document.id,
        created_at=service.started,
        usage_bytes=sum(len(passage.text.encode()) for passage in document.passages),
        vector_store_id=store,
        attributes=flat(document.passages[0].metadata),
    )


def _merged(
    replies: Sequence[RetrieveReply], rankings: Sequence[Ranking], most: int
) -> list[PassageValue]:
    """Passages of one query, or of several fused by rank."""
    if len(replies) == 1:
        return replies[0].passages
    known = {passage.id: passage for reply in replies for passage in reply.passages}
    fused = fuse(rankings, [1.0] * len(rankings), k=most)
    return [
        known[hit.id].model_copy(update={"rank": hit.rank, "score": hit.score})
        for hit in fused.hits
    ]


def _result(passage: PassageValue) -> StoreResult:
    return StoreResult(
        file_id=passage.document,
        filename=passage.title or passage.document,
        score=passage.score,
        attributes=flat(passage.metadata),
        content=[StoreText(text=passage.text)],
        passage_id=passage.id,
        sources=[source.model_dump() for source in passage.sources],
    )


async def _store(service: Service, collection: Collection) -> Store:
    session = collection.session if collection.is_ready else None
    fixed = ASKING.get().within(None)
    if session is None:
        count = 0
    elif fixed is None:
        count = session.count
    else:
        seen, _ = await service.writers[collection.name].matching(Removal(filter=fixed))
        count = len(seen)
    return Store(
        id=collection.name,
        name=collection.name,
        status="in_progress" if session is None else "completed",
        created_at=service.started,
        file_counts=FileCounts(completed=count, total=count),
        metadata=_metadata(session),
    )


def _metadata(session: Session | None) -> dict[str, str]:
    """OpenAI's clients take texts here, and nothing within them."""
    if session is None or session.policy is None:
        return {"index_version": "" if session is None else str(session.version)}
    return {
        "index_version": str(session.version),
        "router": session.router_name,
        "threshold_low": repr(session.policy.thresholds.low),
        "threshold_high": repr(session.policy.thresholds.high),
    }
