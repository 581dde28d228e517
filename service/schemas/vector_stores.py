"""The supported part of OpenAI's vector stores."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from wye.service.schemas.common import Exact, Filter, QuestionText, Strict

_QUERY = "Which bridge was built first?"
_NO_TIME = "Always 0: the time is not recorded."


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
    created_at: int = Field(default=0, description=_NO_TIME)
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


StoreFileStatus = Literal["completed", "in_progress", "failed", "cancelled"]


class LastError(BaseModel):
    """Why a file did not become a document."""

    code: Literal["server_error", "invalid_file"]
    message: str


class StoreFile(BaseModel):
    """A document, or an upload that is to become one."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    status: StoreFileStatus = "completed"
    created_at: int = Field(default=0, description=_NO_TIME)
    usage_bytes: int = Field(description="Size of its text in bytes, as UTF-8.")
    vector_store_id: str
    attributes: dict[str, str | float | bool]
    last_error: LastError | None = None


class StoreFileList(BaseModel):
    """A page of documents."""

    object: Literal["list"] = "list"
    data: list[StoreFile]
    has_more: bool
    first_id: str | None
    last_id: str | None


class StoreFileContent(BaseModel):
    """The passages of a document, always in one page."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[StoreText]
    has_more: bool = False
    next_page: str | None = None


class StoreFileDeleted(BaseModel):
    """The result of a deletion."""

    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: bool = Field(description="Whether there was such a document.")
