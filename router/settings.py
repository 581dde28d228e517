"""The one settings object: read from the environment in one place, handed out in slices."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from backends.dense import DenseSettings
from backends.lexical import LexicalSettings
from backends.trigraph import PRESETS, TriGraphSettings
from featurizer.analyse import AnalyserSettings
from router.errors import SettingsError
from router.fusion_settings import FusionSettings
from router.routing_settings import RoutingSettings
from router.variables import PREFIX, SEPARATOR, refuse_unknown

S = TypeVar("S", bound="Settings")

# What a preset does beside the graph's own; what it leaves out stays at its default.
_INGEST_PRESETS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "default": {},
    "published": {
        "analyser": {"sentence_vectors": "plain", "title_in_text": True},
        "ingest": {"entity_vectors": True},
    },
}


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How passages get into an index.

    Attributes:
        batch_passages: Passages to a commit; an ingest that is killed loses at most so many.
        entity_vectors: Keep a vector of every entity's name, which WYE_GRAPH__SEEDS__NEAREST needs.
    """

    batch_passages: int = 512
    entity_vectors: bool = False

    def __post_init__(self) -> None:
        if self.batch_passages < 1:
            raise SettingsError(
                f"WYE_INGEST__BATCH_PASSAGES is {self.batch_passages}; use 1 or more."
            )


class Settings(BaseSettings):
    """Every setting of Wye; each part is given its own slice and sees no other.

    Attributes:
        index: Folder of the index that commands use when they are not given one.
        preset: Where the analyser's and the graph's settings start from: "default" is the measured
            best, "published" is LinearRAG as published.
        analyser: Models, and how texts become vectors.
        ingest: How passages get into an index.
        dense: The dense arm.
        lexical: The lexical arm.
        graph: The graph arm.
        fusion: How rankings become one.
        router: Which router decides, and by which thresholds.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=SEPARATOR, frozen=True, extra="forbid"
    )

    index: Path | None = None
    preset: str = "default"
    analyser: AnalyserSettings = Field(default_factory=AnalyserSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    dense: DenseSettings = Field(default_factory=DenseSettings)
    lexical: LexicalSettings = Field(default_factory=LexicalSettings)
    graph: TriGraphSettings = Field(default_factory=TriGraphSettings)
    fusion: FusionSettings = Field(default_factory=FusionSettings)
    router: RoutingSettings = Field(default_factory=RoutingSettings)

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        """What is said in particular goes on top of the preset, and so does not undo it."""
        preset = values.get("preset", "default")
        if preset not in PRESETS:
            raise SettingsError(f"There is no preset '{preset}'; take {' or '.join(PRESETS)}.")
        bases = {"graph": asdict(PRESETS[preset]), **_INGEST_PRESETS[preset]}
        for name, base in bases.items():
            given = values.get(name, {})
            if isinstance(given, Mapping):
                values[name] = _merged(base, given)
        return {name: _with_lists(value, cls._default(name)) for name, value in values.items()}

    @classmethod
    def _default(cls, name: str) -> object:
        info = cls.model_fields.get(name)
        return info.get_default(call_default_factory=True) if info else None


def load_settings(**overrides: Any) -> Settings:  # noqa: ANN401 - as many types as settings
    """Settings from the environment, with some said otherwise.

    Args:
        overrides: Top-level settings by name; None leaves one to the environment.

    Raises:
        SettingsError: A variable that names no setting, or a value that a setting cannot have.
    """
    return load(Settings, **overrides)


def load(model: type[S], **overrides: Any) -> S:  # noqa: ANN401 - as many types as settings
    """The same for settings with slices that a layer above adds.

    Args:
        model: Which settings.
        overrides: Top-level settings by name; None leaves one to the environment.

    Raises:
        SettingsError: A variable that names no setting, or a value that a setting cannot have.
    """
    refuse_unknown(model)
    try:
        return model(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(" ".join(_sentence(fault) for fault in error.errors())) from None


def _sentence(fault: Mapping[str, Any]) -> str:
    """One fault in words, by the name of the variable that would set it."""
    reason = fault.get("ctx", {}).get("error")
    if isinstance(reason, Exception):
        return str(reason)
    variable = PREFIX + SEPARATOR.join(str(part) for part in fault["loc"]).upper()
    message = str(fault["msg"])
    return f"{variable} is {fault['input']!r}: {message[:1].lower()}{message[1:]}."


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` on top of `base`, level by level."""
    merged = dict(base)
    for name, value in given.items():
        below = merged.get(name)
        nested = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(below, value) if nested and below is not None else value
    return merged


def _with_lists(given: object, default: object) -> object:
    """The same, with lists where the environment has words with commas between them."""
    if isinstance(given, str) and isinstance(default, tuple):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    if isinstance(given, Mapping):
        return {
            name: _with_lists(value, getattr(default, name, None)) for name, value in given.items()
        }
    return given
