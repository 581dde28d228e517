"""The service's slices of the settings, and all settings together.

`python -m service.settings` prints docs/reference/settings.md; `make docs` writes it.
"""

import ipaddress
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SecretStr

from backends.readers.found import Limits
from router.errors import SettingsError
from router.settings import FIXED, RETIRED, Settings, load, markdown, retire

LONGEST_DEADLINE_MS = 60_000
"""The most time that a request may ask for."""
Positive = Annotated[int, Field(ge=1)]


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
        keep_seconds: How long a job that has ended can still be asked about, and how long a file
            that was uploaded is kept.
        group_passages: Of a job that are written together, after which others have their turn.
        read_seconds: Of processor time to read a file that is neither text nor JSON lines.
        read_memory_mb: To read it in.
        unpacked_mb: Of a DOCX file when it is decompressed, and of all that is found in a file.
        pages: Of a PDF file.
        characters: Of one document.
    """

    upload_bytes: Annotated[int, Field(ge=1_024)] = 67_108_864
    files: Positive = 64
    direct_passages: Annotated[int, Field(ge=0)] = 32
    jobs: Positive = 64
    changes: Positive = 64
    wait_seconds: Annotated[float, Field(ge=0)] = 10.0
    keep_seconds: Annotated[float, Field(ge=0)] = 86_400.0
    group_passages: Positive = 64
    read_seconds: Positive = 30
    read_memory_mb: Annotated[int, Field(ge=256)] = 1_024
    unpacked_mb: Positive = 256
    pages: Positive = 2_000
    characters: Positive = 5_000_000

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


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How `wye serve` listens, and what it accepts.

    Attributes:
        host: Address to listen on. Any but a loopback address needs an API key.
        port: To listen on; 0 takes a free one.
        workers: Processes that answer, each with its own models in memory.
        indexes: Collections to serve, as NAME=DIR with commas between them; the first is the
            default. Without any, WYE_INDEX is served as "default".
        shards: Addresses of servers that an index is dealt to, as NAME=URL with commas between
            them, a collection's several times; this server asks them all and has no index of its
            own for it. WYE_KEY has their API key, of the scope admin, where they want one.
        shard_ms: Longest that a shard may take for a part of an answer.
        routers: Routers of collections, as NAME=MODEL with commas between them; MODEL as in
            WYE_ROUTER__MODEL, which counts for all others. MODEL alone is for "default".
        thresholds: Thresholds files of collections, as NAME=FILE with commas between them.
            WYE_ROUTER__THRESHOLDS counts for those of no router of their own. All are followed
            like an index: a file that is replaced counts for the questions that come after.
        keys: Hashed API keys, as lines of `wye keys new`, with commas between them.
        keys_file: File with such lines; followed like an index, so that keys can be withdrawn.
        requests_per_second: That each API key may send to each worker, on average; 0 sets no limit.
        burst: Requests that a key may send at once before that rate counts.
        max_cost_per_day: Most that the questions of an API key may cost in remote arms, from
            midnight to midnight UTC, where its line does not say; without it there is no bound.
        spent_file: File that keeps what each key spent today; by default beside the arms file,
            its name ending in .spent. Made where any key is bound.
        batch: Questions that are worked on together, at most.
        queue: Questions that may wait; one more is refused at once.
        deadline_ms: Time for finding passages when a request names none; at most a minute.
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
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    workers: Positive = 1
    indexes: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    shard_ms: Positive = 2_000
    routers: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    keys: tuple[str, ...] = field(default=(), repr=False)
    keys_file: Path | None = None
    requests_per_second: Annotated[float, Field(ge=0)] = 0.0
    burst: Positive = 20
    max_cost_per_day: Annotated[float, Field(ge=0)] | None = None
    spent_file: Path | None = None
    batch: Positive = 32
    queue: Positive = 256
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS)] = 5_000
    refresh_seconds: Annotated[float, Field(gt=0)] = 1.0
    shutdown_seconds: Annotated[int, Field(ge=0)] = 30
    request_log: Path | None = None
    cors_origins: tuple[str, ...] = ()
    logs: Literal["json", "text"] = "json"
    traces: Literal["off", "otlp", "console"] = "off"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

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
        context_tokens: About as many of all passages together, four characters each, that the model
            is shown; the sentences that bear least on the question are left out. 0 shows all.
        history: Earlier messages of a conversation that the model is shown.
        max_tokens: Of an answer when a request does not say; 0 leaves it to the endpoint.
    """

    url: str = ""
    model: str = ""
    key: SecretStr = field(default=SecretStr(""), repr=False)
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    retries: Annotated[int, Field(ge=0)] = 2
    longest_wait_seconds: float = 20.0
    passages: Positive = 5
    passage_characters: Positive = 4_000
    context_tokens: Annotated[int, Field(ge=0)] = 3_000
    history: Annotated[int, Field(ge=0)] = 12
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


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServiceSettings(Settings):
    """Every setting of Wye; each part is given its own slice and sees no other.

    Attributes:
        serve: How `wye serve` listens.
        generator: What writes answers.
        documents: What may be sent to be indexed.
        arms: File that declares remote arms, docs/guides/remote-arms.md; `wye serve` takes
            wye.toml of the working folder where there is one.
    """

    retired: ClassVar[Mapping[str, str]] = {
        **RETIRED,
        **retire("SERVE", "BATCH BODY_BYTES", FIXED),
        **retire("SERVE", "LONGEST_DEADLINE_MS", "A request may ask for a minute at most."),
        **retire("GENERATOR", "RETRIES LONGEST_WAIT_SECONDS PASSAGE_CHARACTERS HISTORY", FIXED),
        **retire(
            "DOCUMENTS",
            "FILES JOBS CHANGES WAIT_SECONDS KEEP_SECONDS GROUP_PASSAGES SLICE_WORDS UNPACKED_MB "
            "PAGES",
            FIXED,
        ),
    }

    serve: ServeSettings = Field(default_factory=ServeSettings)
    generator: GeneratorSettings = Field(default_factory=GeneratorSettings)
    documents: DocumentSettings = Field(default_factory=DocumentSettings)
    arms: Path | None = None


def load_settings(**overrides: Any) -> ServiceSettings:  # noqa: ANN401 - as many types as settings
    """All settings from the environment, with some said otherwise; see `router.settings.load`."""
    return load(ServiceSettings, **overrides)


if __name__ == "__main__":
    sys.stdout.write(markdown(ServiceSettings))
