"""`/v1/documents` and `/v1/jobs`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from backends.types import Metadata
from service.ingest.job import State
from service.schemas.common import CollectionName, Exact, Filter, Strict

MOST_DOCUMENTS = 10_000
MOST_NAMED = 1_000

DocumentId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        description="Unique in its collection. A document that is sent again replaces itself.",
    ),
]
MetadataField = Annotated[
    dict[str, Any],
    Field(
        default_factory=dict,
        max_length=64,
        description=(
            "Flat: strings, numbers, booleans, null or lists of at most 256 of them, to filter by; "
            "16 kB as JSON. Every passage of the document has it."
        ),
    ),
]
Text = Annotated[
    str,
    Field(
        min_length=1,
        description="Cut at ends of sentences into passages where it is longer than `chunk_words`.",
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
    """What a document consists of beside its id."""

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
    """One document, or many as `documents`."""

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
        """The documents."""
        one = {"id": self.id, "title": self.title, "text": self.text, "metadata": self.metadata}
        return self.documents or [DocumentValue.model_validate(one)]


class WrittenReply(BaseModel):
    """Documents that are committed."""

    collection: str
    index_version: int = Field(
        description="Of the commit. Replies of this version or a greater one search the documents."
    )
    documents: list[str] = Field(description="Their ids.")
    added: int = Field(description="Passages with a new id.")
    updated: int = Field(description="Passages whose content has changed.")
    unchanged: int = Field(description="Passages that were stored like this already.")
    removed: int = Field(description="Former chunks that their documents no longer have.")


class JobValue(BaseModel):
    """Where a job stands. Times are seconds since 1970."""

    id: str
    collection: str
    state: State
    documents: int = Field(description="Of the upload.")
    total: int = Field(description="Passages that they were cut into.")
    done: int = Field(description="Passages that are committed.")
    added: int
    updated: int
    unchanged: int
    removed: int
    rate: float | None = Field(description="Passages a second since it began.")
    created: float
    started: float | None
    finished: float | None
    index_version: int | None = Field(description="Of its newest commit.")
    waits_for: str = Field(description="Who else is writing to the index, while it waits for them.")
    error: str = Field(description="Why it failed.")


class JobList(BaseModel):
    """Jobs, newest first."""

    data: list[JobValue]


class StoredPassage(BaseModel):
    """One passage of a stored document."""

    id: str
    text: str


class DocumentReply(BaseModel):
    """A document as it is stored."""

    id: str
    title: str
    metadata: Metadata
    passages: list[StoredPassage]


class DocumentSummary(BaseModel):
    """A document in a list."""

    id: str
    title: str
    metadata: Metadata
    passages: int = Field(description="That it was cut into.")
    characters: int


class DocumentPage(BaseModel):
    """Some documents, ascending by id."""

    collection: str
    index_version: int = Field(description="Newest version; the list is of that.")
    total: int = Field(description="Documents of the collection.")
    data: list[DocumentSummary]
    next: str | None = Field(description="Send as `after` for the next page; null on the last.")


class DeleteRequest(Strict):
    """What to delete: everything that any of the three names."""

    filter: Filter = None
    documents: Annotated[
        list[DocumentId],
        Field(default_factory=list, max_length=MOST_NAMED, description="With all their passages."),
    ]
    ids: Annotated[
        list[DocumentId],
        Field(default_factory=list, max_length=MOST_NAMED, description="Of single passages."),
    ]
    dry_run: Annotated[
        bool, Field(strict=True, description="Say what would be deleted, and change nothing.")
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
    """What was deleted, or would be."""

    collection: str
    index_version: int = Field(description="A version that has none of them; of a dry run, newest.")
    dry_run: bool = False
    deleted: int = Field(description="Passages.")
    ids: list[str] = Field(description="Of these passages, ascending; the first thousand.")
    everywhere: bool = Field(
        description=(
            "Whether no process that serves the index searches them any more. This one does not "
            "in any case; others that are behind follow as soon as they can."
        )
    )
