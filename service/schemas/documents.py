"""`/v1/documents` and `/v1/jobs`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from wye.backends.types import Metadata
from wye.service.ingest.job import State
from wye.service.schemas.common import CollectionName, Exact, Filter, Strict

MOST_DOCUMENTS = 10_000
MOST_NAMED = 1_000

DocumentId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        description="Unique in its collection. Storing a document under a known id replaces it.",
    ),
]
StoredId = Annotated[
    str, Field(min_length=1, description="As listed; `wye index` and Python store longer ids, too.")
]
MetadataField = Annotated[
    dict[str, Any],
    Field(
        default_factory=dict,
        max_length=64,
        description=(
            "Values to filter by, copied to every passage of the document: strings, numbers, "
            "booleans, null, or lists of at most 256 of them. At most 16 kB as JSON."
        ),
    ),
]
Text = Annotated[
    str,
    Field(
        min_length=1,
        description="The text; cut between sentences into passages of up to `chunk_words` words.",
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
    text: Text
    metadata: MetadataField

    model_config = ConfigDict(json_schema_extra={"examples": [_STARI_MOST, _TOWER_BRIDGE]})


class DocumentValue(DocumentBody):
    """A document to store."""

    id: DocumentId

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "mostar", **_STARI_MOST}, {"id": "tower", **_TOWER_BRIDGE}]
        }
    )


class DocumentsRequest(Strict):
    """One document, or several as `documents`."""

    documents: Annotated[
        list[DocumentValue] | None,
        Field(min_length=1, max_length=MOST_DOCUMENTS, fail_fast=True),
    ] = None
    id: DocumentId | None = None
    title: Annotated[str, Field(max_length=1_024)] = ""
    text: Text | None = None
    metadata: MetadataField
    collection: CollectionName = None
    chunk_words: Annotated[ChunkWords, Exact] = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"id": "mostar", **_STARI_MOST, "metadata": {"year": 1566}},
                {
                    "documents": [
                        {"id": "tower", "text": "Tower Bridge crosses the Thames in London."},
                        {"id": "thames", "text": "The Thames flows through London."},
                    ],
                    "chunk_words": 120,
                },
            ]
        }
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        single = (self.id, self.text)
        if self.documents is None and None in single:
            raise ValueError("send `id` and `text` of a document, or `documents`")
        if self.documents is not None and single != (None, None):
            raise ValueError("send either `documents` or one document's `id` and `text`, not both")
        return self

    def values(self) -> list[DocumentValue]:
        """The documents of the request, one or several."""
        one = {"id": self.id, "title": self.title, "text": self.text, "metadata": self.metadata}
        return self.documents or [DocumentValue.model_validate(one)]


class WrittenReply(BaseModel):
    """Documents that were committed."""

    collection: str
    index_version: int = Field(
        description="Version of the commit; replies with it or a later one searched the documents."
    )
    documents: list[str] = Field(description="Ids of the documents.")
    added: int = Field(description="Number of passages with a new id.")
    updated: int = Field(description="Number of passages whose content changed.")
    unchanged: int = Field(description="Number of passages that were already stored like this.")
    removed: int = Field(description="Number of former chunks that their documents no longer have.")


class JobValue(BaseModel):
    """The progress of a job. Times are seconds since 1970."""

    id: str
    collection: str
    state: State
    documents: int = Field(description="Number of documents in the upload.")
    total: int = Field(description="Number of passages that they were cut into.")
    done: int = Field(description="Number of passages committed so far.")
    added: int
    updated: int
    unchanged: int
    removed: int
    rate: float | None = Field(description="Passages per second since it started; null before.")
    created: float
    started: float | None
    finished: float | None
    index_version: int | None = Field(
        description="Version of its newest commit; null before the first."
    )
    waits_for: str = Field(
        description="What it waits for: a writer, models, or another try, and then why the last "
        "one failed; empty for nothing."
    )
    error: str = Field(description="What in its documents made it fail; empty if it did not.")


class JobList(BaseModel):
    """Jobs, newest first."""

    data: list[JobValue]


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


class DocumentSummary(BaseModel):
    """A document in a list."""

    id: str
    title: str
    metadata: Metadata
    passages: int = Field(description="Number of passages that it was cut into.")
    characters: int


class DocumentPage(BaseModel):
    """A page of documents, ascending by id."""

    collection: str
    index_version: int = Field(description="Version that was listed, the newest.")
    total: int = Field(
        description="Number of documents in the collection, or of those with the `prefix`."
    )
    data: list[DocumentSummary]
    next: str | None = Field(description="Value of `after` for the next page; null on the last.")


class DeleteRequest(Strict):
    """What to delete: every passage that `filter`, `documents` or `ids` selects."""

    filter: Filter = None
    documents: Annotated[
        list[StoredId],
        Field(
            default_factory=list,
            max_length=MOST_NAMED,
            description="Ids of documents to delete with all their passages.",
        ),
    ]
    ids: Annotated[
        list[StoredId],
        Field(
            default_factory=list,
            max_length=MOST_NAMED,
            description="Ids of single passages to delete.",
        ),
    ]
    dry_run: Annotated[
        bool, Field(strict=True, description="Say what would be deleted, but change nothing.")
    ] = False
    collection: CollectionName = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"filter": {"type": "lt", "key": "year", "value": 1600}, "dry_run": True},
                {"documents": ["tower"], "collection": "default"},
            ]
        }
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.filter is None and not self.documents and not self.ids:
            raise ValueError("name a filter, documents or ids to delete")
        return self


class DeletedReply(BaseModel):
    """What was deleted or would be."""

    collection: str
    index_version: int = Field(
        description="A version without the deleted passages; in a dry run, the newest."
    )
    dry_run: bool = False
    deleted: int = Field(description="Number of passages.")
    ids: list[str] = Field(description="Ids of the first thousand of these passages, ascending.")
