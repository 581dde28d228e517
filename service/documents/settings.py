"""The slice of the settings that documents over HTTP have."""

from dataclasses import dataclass

from service.documents.extract import Limits
from service.errors import ServiceError


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """What may be sent to /v1/documents, and how it is written.

    Attributes:
        upload_bytes: Longest body of an upload.
        files: In one upload, at most.
        direct_passages: A change of so many passages is made while its sender waits; a larger one
            becomes a job.
        jobs: That may wait or run for one collection; one more is refused.
        changes: That may wait for their turn to be written; one more is refused.
        wait_seconds: For another process that is writing, before a change is refused.
        keep_seconds: How long a job that has ended can still be asked about.
        group_passages: Of a job that are written together, after which others have their turn.
        slice_words: Analysed between two batches of questions, as long as no passage is longer.
        read_seconds: Of processor time to read a PDF or DOCX file.
        read_memory_mb: To read it in.
        unpacked_mb: Of a DOCX file when it is decompressed.
        pages: Of a PDF file.
        characters: Of one document.
    """

    upload_bytes: int = 67_108_864
    files: int = 64
    direct_passages: int = 32
    jobs: int = 64
    changes: int = 64
    wait_seconds: float = 10.0
    keep_seconds: float = 86_400.0
    group_passages: int = 64
    slice_words: int = 400
    read_seconds: int = 30
    read_memory_mb: int = 1_024
    unpacked_mb: int = 256
    pages: int = 2_000
    characters: int = 5_000_000

    def __post_init__(self) -> None:
        least = {"upload_bytes": 1_024, "direct_passages": 0, "read_memory_mb": 256}
        positive = ("files", "jobs", "changes", "group_passages", "slice_words", "read_seconds")
        least |= dict.fromkeys((*positive, "unpacked_mb", "pages", "characters"), 1)
        least |= {"wait_seconds": 0, "keep_seconds": 0}
        for name, smallest in least.items():
            if (value := getattr(self, name)) < smallest:
                raise ServiceError(
                    f"WYE_DOCUMENTS__{name.upper()} is {value}; use {smallest} or more."
                )

    @property
    def limits(self) -> Limits:
        """Of reading one file."""
        return Limits(
            pages=self.pages,
            characters=self.characters,
            unpacked_bytes=self.unpacked_mb << 20,
            seconds=self.read_seconds,
            memory_bytes=self.read_memory_mb << 20,
        )
