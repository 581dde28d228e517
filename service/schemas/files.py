"""OpenAI's files, and the request that attaches one to a vector store."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from wye.service.schemas.common import Strict

Purpose = Literal["assistants", "user_data"]
Attributes = Annotated[
    dict[str, str | bool | int | float] | None,
    Field(description="Metadata of the document; the file's own metadata takes precedence."),
]
FileId = Annotated[str, Field(max_length=64)]
_FILE = "file-0006447aa0c0de5eed5eed5e"


class FileObject(BaseModel):
    """An uploaded file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"


class FileList(BaseModel):
    """A page of the files that the asking key uploaded."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


class FileDeleted(BaseModel):
    """The result of a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class Chunking(Strict):
    """How a file is cut into passages."""

    type: Literal["auto"] = Field(
        description="Use `/v1/documents` to choose the length of passages (`chunk_words`)."
    )


class Attach(Strict):
    """An uploaded file to make a document of."""

    file_id: FileId
    attributes: Attributes = None
    chunking_strategy: Chunking | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"file_id": _FILE},
                {"file_id": _FILE, "attributes": {"year": 1566, "cast": True}},
            ]
        }
    )
