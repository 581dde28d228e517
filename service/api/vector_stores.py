"""Collections as OpenAI's vector stores."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from wye.backends.store.documents import Removal
from wye.backends.types import Metadata, Ranking
from wye.router.fusion import fuse
from wye.router.types import Route
from wye.service.api.common import DEFAULT_ROUTE, ROUTES, Exact, Filter, QuestionText, Strict
from wye.service.api.retrieve import PassageValue, RetrieveReply, headers, retrieve_reply
from wye.service.http.auth import ASKING, READ
from wye.service.http.problems import Problem
from wye.service.search import Collection, SearchParams
from wye.service.service import Served, Service

_QUERY = "Which bridge was built first?"
NO_TIME = "Always 0: the time is not recorded."


class RankingOptions(BaseModel):
    """How to rank passages."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    ranker: Annotated[
        str | None,
        Field(
            max_length=64,
            description="`wye-ROUTE`; anything else means the default route.",
        ),
    ] = None
    score_threshold: Annotated[
        float | None,
        Field(description="Leaves out passages with a lower score. Scores are the route's own."),
        Exact,
    ] = None


class StoreSearchRequest(Strict):
    """A search, as OpenAI's clients send it."""

    query: QuestionText | Annotated[list[QuestionText], Field(min_length=1, max_length=8)] = Field(
        description="One query, or several, whose rankings are fused with equal weights."
    )
    max_num_results: Annotated[int, Field(ge=1, le=50), Exact] = 10
    filters: Filter = None
    ranking_options: RankingOptions | None = None
    rewrite_query: StrictBool | None = Field(
        default=None,
        description="Accepted, but no query is rewritten; `search_query` has what was searched.",
    )

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": _QUERY},
                {
                    "query": [_QUERY, "Which is the oldest bridge?"],
                    "max_num_results": 3,
                    "filters": {
                        "type": "and",
                        "filters": [
                            {"type": "gte", "key": "year", "value": 1500},
                            {"type": "lt", "key": "year", "value": 1900},
                        ],
                    },
                    "ranking_options": {"ranker": "wye-dense"},
                },
            ]
        }
    )


class StoreText(BaseModel):
    """The text of a passage."""

    type: Literal["text"] = "text"
    text: str


class StoreResult(BaseModel):
    """A passage as a part of a file."""

    file_id: str = Field(description="Id of the document.")
    filename: str = Field(description="Title of the passage; without one, the document's id.")
    score: float
    attributes: dict[str, str | float | bool] = Field(
        description="Metadata; a list becomes one text, separated by commas."
    )
    content: list[StoreText]
    passage_id: str
    sources: list[dict[str, Any]]


class StorePage(BaseModel):
    """Results of a search, always in one page."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[StoreResult]
    has_more: bool = False
    next_page: str | None = None


class FileCounts(BaseModel):
    """Number of files by state."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    total: int


class Store(BaseModel):
    """A collection as a vector store."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    name: str
    status: Literal["in_progress", "completed"]
    created_at: int = Field(default=0, description=NO_TIME)
    file_counts: FileCounts = Field(
        description=(
            "Number of passages, all of them `completed`. A key with a filter is told 0 if the "
            "index is spread over other servers."
        )
    )
    metadata: dict[str, str] = Field(
        description=(
            "`index_version`, and with a router also `router`, `threshold_low` and "
            "`threshold_high`."
        )
    )


class StoreList(BaseModel):
    """All collections."""

    object: Literal["list"] = "list"
    data: list[Store]
    has_more: bool = False
    first_id: str
    last_id: str


router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], dependencies=READ)

StoreId = Annotated[str, Path(max_length=64, description="Name of a collection.")]


@router.get("", summary="List collections", operation_id="list_vector_stores")
async def stores(service: Served) -> StoreList:
    """Lists every collection that is served, with its router in `metadata`."""
    data = [await _store(service, collection) for collection in service.collections.values()]
    names = [store.id for store in data] or [""]
    return StoreList(data=data, first_id=names[0], last_id=names[-1])


@router.get("/{store}", summary="Describe a collection", operation_id="retrieve_vector_store")
async def store_by_name(store: StoreId, service: Served) -> Store:
    """Describes one collection."""
    return await _store(service, service.collection(store))


async def _not_offered() -> None:
    """Refuse (404) an operation that collections do not have over HTTP."""
    raise Problem(
        404,
        "not-offered",
        "This is not offered. A vector store is a collection, which `wye index` makes and `wye "
        "serve` names.",
    )


for _address, _methods in (("", ["POST"]), ("/{store}", ["POST", "DELETE"])):
    router.add_api_route(_address, _not_offered, methods=_methods, include_in_schema=False)


@router.post("/{store}/search", summary="Search a collection", operation_id="search_vector_store")
async def search(
    store: StoreId,
    body: StoreSearchRequest,
    request: Request,
    response: Response,
    service: Served,
) -> StorePage:
    """Returns passages in the form of OpenAI's vector stores; `/v1/retrieve` says more of each."""
    queries = [body.query] if isinstance(body.query, str) else list(body.query)
    options = body.ranking_options
    ranker = (options.ranker or "" if options else "").removeprefix("wye-")
    route = Route(ranker) if ranker in ROUTES else DEFAULT_ROUTE
    params = SearchParams(
        route, body.max_num_results, body.filters, collection=service.collection(store).name
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
            for passage in _fuse(replies, rankings, body.max_num_results)
            if threshold is None or passage.score >= threshold
        ],
    )


def _fuse(
    replies: Sequence[RetrieveReply], rankings: Sequence[Ranking], k: int
) -> list[PassageValue]:
    """The passages of one query, or of several queries fused by rank."""
    if len(replies) == 1:
        return replies[0].passages
    passages = {passage.id: passage for reply in replies for passage in reply.passages}
    fused = fuse(rankings, [1.0] * len(rankings), k=k)
    return [
        passages[hit.id].model_copy(update={"rank": hit.rank, "score": hit.score})
        for hit in fused.hits
    ]


def _result(passage: PassageValue) -> StoreResult:
    return StoreResult(
        file_id=passage.document,
        filename=passage.title or passage.document,
        score=passage.score,
        attributes=attributes_of(passage.metadata),
        content=[StoreText(text=passage.text)],
        passage_id=passage.id,
        sources=[source.model_dump() for source in passage.sources],
    )


async def _store(service: Service, collection: Collection) -> Store:
    session = collection.session if collection.is_ready and collection.has_index else None
    fixed = ASKING.get().within(None)
    if session is None:
        count = 0
    elif fixed is None:
        count = session.count
    else:
        ids, _ = await service.writers[collection.name].matching(Removal(filter=fixed))
        count = len(ids)
    # OpenAI's clients accept only strings as values here.
    metadata = {"index_version": "" if session is None else str(session.version)}
    if collection.policy is not None:
        metadata |= {
            "router": collection.router_name,
            "threshold_low": repr(collection.policy.thresholds.low),
            "threshold_high": repr(collection.policy.thresholds.high),
        }
    return Store(
        id=collection.name,
        name=collection.name,
        status="completed" if collection.is_ready else "in_progress",
        file_counts=FileCounts(completed=count, total=count),
        metadata=metadata,
    )


def attributes_of(metadata: Metadata) -> dict[str, str | float | bool]:
    """Metadata as OpenAI's attributes: a list becomes one text, separated by commas."""
    attributes: dict[str, str | float | bool] = {}
    for key, value in metadata.items():
        if isinstance(value, str | int | float | bool):
            attributes[key] = value
        elif value is not None:
            attributes[key] = ", ".join(str(part) for part in value)
    return attributes
