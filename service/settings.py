"""The slice of the settings that documents over HTTP have."""

import ipaddress
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr

from router.settings import Settings, load, markdown
from service.errors import ServiceError
from service.ingest.extract import Limits


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


# The service's slices of the settings, and all settings together.
#
# `python -m service.settings` prints docs/reference/settings.md; `make docs` writes it.


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How `wye serve` listens, and what it accepts.

    Attributes:
        host: Address to listen on. Any but a loopback address needs an API key.
        port: To listen on; 0 takes a free one.
        workers: Processes that answer, each with its own models in memory.
        indexes: Collections to serve, as NAME=DIR with commas between them; the first is the
            default. Without any, WYE_INDEX is served as "default".
        routers: Routers of collections, as NAME=MODEL with commas between them; MODEL as in
            WYE_ROUTER__MODEL, which counts for all others. MODEL alone is for "default".
        thresholds: Thresholds files of collections, as NAME=FILE with commas between them.
            WYE_ROUTER__THRESHOLDS counts for those of no router of their own. All are followed
            like an index: a file that is replaced counts for the questions that come after.
        keys: Hashed API keys, as lines of `wye keys new`, with commas between them.
        keys_file: File with such lines; followed like an index, so that keys can be withdrawn.
        requests_per_second: That each API key may send to each worker, on average; 0 sets no limit.
        burst: Requests that a key may send at once before that rate counts.
        body_bytes: Longest body of a request.
        batch: Questions that are worked on together, at most.
        queue: Questions that may wait; one more is refused at once.
        deadline_ms: Time for finding passages when a request names none.
        longest_deadline_ms: The most time that a request may ask for.
        refresh_seconds: How often to look for a newer version of an index, and for newer
            thresholds and keys.
        shutdown_seconds: Time to finish what was accepted when told to stop.
        request_log: File that every answered question is written to as a line of JSON, for
            `wye tune --from-log`; off without.
        cors_origins: Web pages of these origins may send requests; "*" for any.
        logs: "json" writes a line of JSON for each event, "text" one for people.
        traces: "otlp" sends OpenTelemetry spans to where OTEL_EXPORTER_OTLP_ENDPOINT says (extra
            "otlp"), "console" writes them to standard error.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    indexes: tuple[str, ...] = ()
    routers: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    keys: tuple[str, ...] = field(default=(), repr=False)
    keys_file: Path | None = None
    requests_per_second: float = 0.0
    burst: int = 20
    body_bytes: int = 1_048_576
    batch: int = 32
    queue: int = 256
    deadline_ms: int = 5_000
    longest_deadline_ms: int = 60_000
    refresh_seconds: float = 1.0
    shutdown_seconds: int = 30
    request_log: Path | None = None
    cors_origins: tuple[str, ...] = ()
    logs: Literal["json", "text"] = "json"
    traces: Literal["off", "otlp", "console"] = "off"

    def __post_init__(self) -> None:
        least = {
            "port": 0,
            "workers": 1,
            "requests_per_second": 0,
            "burst": 1,
            "body_bytes": 1024,
            "batch": 1,
            "queue": 1,
            "deadline_ms": 1,
            "longest_deadline_ms": self.deadline_ms,
            "shutdown_seconds": 0,
        }
        for name, smallest in least.items():
            if (value := getattr(self, name)) < smallest:
                raise ServiceError(f"WYE_SERVE__{name.upper()} is {value}; use {smallest} or more.")
        if self.refresh_seconds <= 0:
            raise ServiceError(
                f"WYE_SERVE__REFRESH_SECONDS is {self.refresh_seconds}; use a number above 0."
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_keys(self) -> bool:
        """Whether requests need an API key."""
        return bool(self.keys) or self.keys_file is not None


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """Which language model writes answers, if any; without one they are quoted from passages.

    Attributes:
        url: Of an endpoint that speaks OpenAI's protocol, up to and with /v1.
        model: To ask there for.
        key: API key for it.
        timeout_seconds: Longest silence: for a connection, until the first and between two pieces.
        retries: Further tries when it is busy or fails before the first piece.
        longest_wait_seconds: Longest Retry-After to sit out; what asks for more is not tried again.
        passages: That the model is shown, at most.
        passage_characters: Of each that the model is shown.
        history: Earlier messages of a conversation that the model is shown.
        max_tokens: Of an answer when a request does not say; 0 leaves it to the endpoint.
    """

    url: str = ""
    model: str = ""
    key: SecretStr = field(default=SecretStr(""), repr=False)
    timeout_seconds: float = 60.0
    retries: int = 2
    longest_wait_seconds: float = 20.0
    passages: int = 5
    passage_characters: int = 4_000
    history: int = 12
    max_tokens: int = 1_024

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ServiceError(
                f"WYE_GENERATOR__URL is '{self.url}'; begin it with http:// or https://."
            )
        if self.url and not self.model:
            raise ServiceError(
                "WYE_GENERATOR__URL is set without a model; name one in WYE_GENERATOR__MODEL."
            )
        for name, smallest in {"retries": 0, "passages": 1, "history": 0, "max_tokens": 0}.items():
            if (value := getattr(self, name)) < smallest:
                raise ServiceError(
                    f"WYE_GENERATOR__{name.upper()} is {value}; use {smallest} or more."
                )
        if self.timeout_seconds <= 0:
            raise ServiceError(
                f"WYE_GENERATOR__TIMEOUT_SECONDS is {self.timeout_seconds}; use a number above 0."
            )


class ServiceSettings(Settings):
    """Every setting of Wye; each part is given its own slice and sees no other.

    Attributes:
        serve: How `wye serve` listens.
        generator: What writes answers.
        documents: What may be sent to be indexed.
    """

    serve: ServeSettings = Field(default_factory=ServeSettings)
    generator: GeneratorSettings = Field(default_factory=GeneratorSettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)


def load_settings(**overrides: Any) -> ServiceSettings:  # noqa: ANN401 - as many types as settings
    """All settings from the environment, with some said otherwise.

    Args:
        overrides: Top-level settings by name; None leaves one to the environment.

    Raises:
        SettingsError: A variable that names no setting, or a value that a setting cannot have.
        ServiceError: The same in the service's own slices.
    """
    return load(ServiceSettings, **overrides)


if __name__ == "__main__":
    sys.stdout.write(markdown(ServiceSettings))
