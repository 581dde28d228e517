"""The service's slices of the settings, all settings together, and what they say of collections.

`python -m wye.service.settings` prints docs/reference/settings.md; `make docs` writes it.
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr

from wye.backends.readers.drafts import Limits
from wye.router.errors import SettingsError
from wye.router.settings import Settings, load, markdown
from wye.service.errors import ServiceError

LONGEST_QUESTION = 4_096  # most characters of a question
LONGEST_DEADLINE_MS = 60_000  # the most time that a request may ask for
Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """What may be sent to /v1/documents, and how it is written.

    Attributes:
        upload_bytes: Longest body of an upload.
        direct_passages: Most passages of a change that is made while its sender waits; a larger
            change becomes a job.
        read_seconds: Most processor time to read a file that is neither text nor JSON lines.
        read_memory_mb: Most memory to read such a file.
        characters: Most characters of a document.
    """

    upload_bytes: Annotated[int, Field(ge=1_024)] = 67_108_864
    files: Positive = 64  # most in one upload
    direct_passages: Annotated[int, Field(ge=0)] = 32
    jobs: Positive = 64  # most that may wait or run for a collection
    changes: Positive = 64  # most that may wait to be written
    wait_seconds: Annotated[float, Field(ge=0)] = 10.0  # for another process that writes
    keep_seconds: Annotated[float, Field(ge=0)] = 86_400.0  # a finished job, an uploaded file
    group_passages: Positive = 64  # of a job, written before others have their turn
    read_seconds: Positive = 30
    read_memory_mb: Annotated[int, Field(ge=256)] = 1_024
    unpacked_mb: Positive = 256  # of a DOCX file, and of all that a file contains
    pages: Positive = 2_000  # most pages of a PDF file
    characters: Positive = 5_000_000

    @property
    def limits(self) -> Limits:
        """Limits of reading one file."""
        return Limits(
            pages=self.pages,
            characters=self.characters,
            unpacked_bytes=self.unpacked_mb << 20,
            seconds=self.read_seconds,
            memory_bytes=self.read_memory_mb << 20,
        )


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How `wye serve` listens, and what it accepts.

    Attributes:
        host: Address to listen on. Any but a loopback address needs an API key.
        port: Port to listen on; 0 takes a free one.
        indexes: Collections to serve, as NAME=DIR separated by commas; the first is the default.
            Without any, WYE_INDEX is served as "default".
        keys: Hashed API keys, as printed by `wye keys new`, separated by commas.
        keys_file: File with such keys, one per line. It is watched, so keys can be withdrawn.
        max_cost_per_day: Most that an API key's questions may cost in remote arms per day (UTC), if
            the key's line does not say; without it there is no limit.
        spent_file: File with what each key spent today; by default next to the arms file, with a
            name that ends in .spent. Written only if a key has a limit.
        queue: Most questions that may wait; further ones are refused at once.
        deadline_ms: Time for finding passages if a request gives none; at most a minute.
        refresh_seconds: Within how long to follow a newer version of an index, and newer thresholds
            and keys.
        shutdown_seconds: Time to finish accepted requests after being told to stop.
        request_log: File to which every answered question is written as a line of JSON; none by
            default.
        logs: "json" writes a line of JSON for each event, "text" a line for people.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    indexes: tuple[str, ...] = ()
    keys: tuple[str, ...] = field(default=(), repr=False)
    keys_file: Path | None = None
    max_cost_per_day: Annotated[float, Field(ge=0)] | None = None
    spent_file: Path | None = None
    batch: Positive = 32  # most questions that are processed together
    queue: Positive = 256
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS)] = 5_000
    refresh_seconds: Annotated[float, Field(gt=0)] = 1.0
    shutdown_seconds: Annotated[int, Field(ge=0)] = 30
    request_log: Path | None = None
    logs: Literal["json", "text"] = "json"


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """Which language model writes answers, if any; without one they are quoted from passages.

    Attributes:
        url: Address of an endpoint with OpenAI's protocol, up to and including /v1.
        model: Name of the model there.
        key: API key for the endpoint.
        timeout_seconds: Longest wait for a connection, for the first piece, and between two pieces.
        passages: Most passages that the model is shown.
        pack: "whole" shows passages as they are; "zoom" first leaves out the sentences that
            ZoomRAG's Chunk-Zoom ranks last. Quotes are of whole passages.
        keep: Share of the sentences that "zoom" leaves.
        max_tokens: Most tokens of an answer if a request does not say; 0 leaves it to the endpoint.
    """

    url: str = ""
    model: str = ""
    key: SecretStr = field(default=SecretStr(""), repr=False)
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    retries: Annotated[int, Field(ge=0)] = 2  # if the endpoint is busy, fails or is not reached
    passages: Positive = 5
    passage_characters: Positive = 4_000  # of each, that the model is shown
    pack: Literal["whole", "zoom"] = "whole"
    keep: Annotated[float, Field(gt=0, le=1)] = 0.7
    history: Annotated[int, Field(ge=0)] = 12  # earlier messages that the model is shown
    max_tokens: Annotated[int, Field(ge=0)] = 1_024

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise SettingsError(
                f"WYE_GENERATOR__URL is '{self.url}'; begin it with http:// or https://."
            )
        if self.url and not self.model:
            raise SettingsError(
                "WYE_GENERATOR__URL is set without a model; name one in WYE_GENERATOR__MODEL."
            )


class ServiceSettings(Settings):
    """Every setting of Wye; each part is given its own slice and sees no other.

    Attributes:
        arms: File that declares remote arms, see docs/guides/remote-arms.md; `wye serve` takes
            wye.toml in the working folder if there is one.
    """

    serve: ServeSettings = Field(default_factory=ServeSettings)
    generator: GeneratorSettings = Field(default_factory=GeneratorSettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)
    arms: Path | None = None


def load_settings(**overrides: Any) -> ServiceSettings:  # noqa: ANN401 - as many types as settings
    """Load all settings from the environment, with overrides; see `wye.router.settings.load`."""
    return load(ServiceSettings, **overrides)


DEFAULT = "default"

COLLECTION = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")  # pattern of a collection's name


def index_folders(named: Iterable[str], fallback: Path | None) -> dict[str, Path]:
    """The folder of each collection by name, of entries NAME=DIR, or DIR for "default".

    A `ServiceError` if a name is invalid or given twice, a folder is missing, or there is nothing.
    """
    folders: dict[str, Path] = {}
    for entry in named:
        name, is_named, folder = entry.partition("=")
        if not is_named:
            name, folder = DEFAULT, entry
        fault = ""
        if not COLLECTION.fullmatch(name):
            fault = f"A collection cannot be called '{name}'; use letters, digits, dots and dashes."
        elif name in folders:
            fault = f"Two collections are called '{name}'; give each a name, "
            fault += f"as in --index {name}2=DIR."
        elif not folder:
            fault = f"Collection '{name}' has no folder; write {name}=DIR."
        if fault:
            raise ServiceError(fault)
        folders[name] = Path(folder)
    if not folders and fallback is not None:
        return {DEFAULT: fallback}
    if not folders:
        raise ServiceError("Serve what? Give --index DIR, or set WYE_INDEX.")
    return folders


if __name__ == "__main__":
    sys.stdout.write(markdown(ServiceSettings))
