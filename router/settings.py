"""Every setting of Wye: each is an environment variable, read and checked here.

`python -m wye.service.settings` prints docs/reference/settings.md; `make docs` writes it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from wye.backends.dense import DenseSettings
from wye.backends.errors import suggestion
from wye.backends.lexical import LexicalSettings
from wye.backends.papers.settings import ClueSettings, ZoomSettings
from wye.backends.trigraph.settings import TriGraphSettings
from wye.featurizer.analyser import AnalyserSettings
from wye.router.errors import ModelFileError, QuestionError, SettingsError
from wye.router.fusion import FusionSettings
from wye.router.presets import PRESETS
from wye.router.routes import Route, route_named

# The repository's folder of models: Wye runs from a checkout.
MODELS = Path(__file__).resolve().parents[1] / "models"
DEFAULT_ROUTER = "router-en/v1"
RELEVANCE_MODEL = "relevance-en"
SYNTAX_ROUTER = "router-syntax-en/v1"  # decides by syntax alone, and needs no index

PREFIX = "WYE_"
LIST = "docs/reference/settings.md"
SEPARATOR = "__"
# Parts of the settings that the service adds, and whose names it checks itself.
ELSEWHERE = ("serve", "generator", "documents", "arms")

_ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)
S = TypeVar("S", bound="Settings")


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Which router decides, and by which thresholds.

    Attributes:
        model: "name/version" of a router in the folder `models` of Wye or of the working folder, or
            the path of a folder that `wye train` wrote.
        thresholds: A thresholds file that a person reviewed, such as the notebook of thresholds
            writes; empty for those in the router's folder.
        route: Route of a question for which none is named; with "auto" the router chooses.
    """

    model: str = DEFAULT_ROUTER
    thresholds: str = ""
    route: str = Route.AUTO

    def __post_init__(self) -> None:
        try:
            route_named(self.route)
        except QuestionError as error:
            raise SettingsError(f"WYE_ROUTER__ROUTE: {error}") from None

    def folder(self) -> Path:
        """The folder of the router's version, or a `ModelFileError`."""
        return _folder(
            self.model,
            "router",
            "WYE_ROUTER__MODEL at a version that `wye train` wrote, or name the route "
            "(--route dense, lexical, graph, fusion or steps)",
        )


@dataclass(frozen=True, slots=True)
class RelevanceSettings:
    """Which curves make probabilities of scores.

    Attributes:
        model: Name of a folder in `models` of Wye or of the working folder, or the path of a folder
            that `wye train --relevance` wrote.
    """

    model: str = RELEVANCE_MODEL

    def folder(self) -> Path:
        """The folder of the curves, or a `ModelFileError`."""
        return _folder(
            self.model,
            "relevance model",
            "WYE_RELEVANCE__MODEL at one that `wye train --relevance` wrote",
        )


def _folder(name: str, what: str, point: str) -> Path:
    candidates = (Path(name), MODELS / name, Path(MODELS.name) / name)
    folder = next((path for path in candidates if path.is_dir()), None)
    if folder is None:
        raise ModelFileError(
            f"There is no {what} '{name}', neither as a folder nor in ./models or {MODELS}. "
            f"Point {point}."
        )
    return folder


@dataclass(frozen=True, slots=True)
class RerankerSettings:
    """Which model reranks the texts that `clue` and the graph by facts start from.

    Attributes:
        model: Address of an API that has /rerank; empty for none. In a server, other questions wait
            while it reads some 200 texts for one.
        name: Name of the model at that address.
    """

    model: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.model and not self.model.startswith(("http://", "https://")):
            raise SettingsError(
                f"WYE_RERANKER__MODEL is '{self.model}'; give the address of an API that has "
                "/rerank, as in http://127.0.0.1:8080."
            )


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How passages get into an index."""

    batch_passages: Annotated[int, Field(ge=1)] = 2048  # most per commit, or in 30 s
    entity_vectors: bool = False  # of every name, which the preset "linearrag" needs


class Settings(BaseSettings):
    """Every setting of Wye; each part gets its slice alone.

    Attributes:
        index: Folder of the index that commands use by default.
        preset: A published system from which all other settings start: "ea-graphrag", "linearrag",
            "clue-rag" or "zoom-rag"; empty for Wye's own.
        engine: "memory" to hold an index in memory, "dataset" to have Lance search its dataset,
            which `wye index --engine dataset` prepares, "auto" for that in a large prepared index.
        dataset_from: Passages from which "auto" lets Lance search.
        duplicates: "fold" for one place among the hits for near-duplicates, "keep" for one each.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=SEPARATOR, frozen=True, extra="forbid"
    )

    index: Path | None = None
    preset: str = ""
    analyser: AnalyserSettings = Field(default_factory=AnalyserSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    dense: DenseSettings = Field(default_factory=DenseSettings)
    lexical: LexicalSettings = Field(default_factory=LexicalSettings)
    graph: TriGraphSettings = Field(default_factory=TriGraphSettings)
    fusion: FusionSettings = Field(default_factory=FusionSettings)
    router: RoutingSettings = Field(default_factory=RoutingSettings)
    relevance: RelevanceSettings = Field(default_factory=RelevanceSettings)
    reranker: RerankerSettings = Field(default_factory=RerankerSettings)
    clue: ClueSettings = Field(default_factory=ClueSettings)
    zoom: ZoomSettings = Field(default_factory=ZoomSettings)
    engine: Literal["auto", "memory", "dataset"] = "auto"
    dataset_from: Annotated[int, Field(ge=1)] = 300_000
    duplicates: Literal["fold", "keep"] = "fold"

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Start from the preset, and put what is set explicitly on top of it."""
        preset = values.get("preset", "")
        if preset and preset not in PRESETS:
            raise SettingsError(f"There is no preset '{preset}'; use one of {', '.join(PRESETS)}.")
        for name, base in PRESETS[preset].items() if preset else ():
            if name not in cls.model_fields:  # of a part that only a layer above has
                continue
            changes = values.get(name, {})
            if not isinstance(base, Mapping):
                values.setdefault(name, base)
            elif isinstance(changes, Mapping):
                values[name] = _merged(base, changes)
        return {name: _with_lists(value, cls._default(name)) for name, value in values.items()}

    @classmethod
    def _default(cls, name: str) -> object:
        info = cls.model_fields.get(name)
        return info.get_default(call_default_factory=True) if info else None


def load_settings(**overrides: Any) -> Settings:  # noqa: ANN401 - as many types as settings
    """Settings from the environment, with overrides; see `load`."""
    return load(Settings, **overrides)


def load(model: type[S], **overrides: Any) -> S:  # noqa: ANN401 - as many types as settings
    """`Settings`, or a layer's subclass, from the environment, with overrides that are not None.

    A `SettingsError` if a variable names no setting, or a value is not valid.
    """
    refuse_unknown(model)
    try:
        return model(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(" ".join(_sentence(fault) for fault in error.errors())) from None


KEY = "WYE_KEY"  # variable with the API key for another server; no setting


def refuse_unknown(model: type[S]) -> None:
    """Raise a `SettingsError` for a variable of ours that sets nothing, with what is similar.

    Variables of parts that only a layer above knows are left to that layer.
    """
    names = {variable.name for variable in variables(model)}
    elsewhere = [part.upper() for part in ELSEWHERE if part not in model.model_fields]
    above = tuple(PREFIX + part + SEPARATOR for part in elsewhere)
    for variable in sorted(os.environ):
        name = variable.upper()
        if not name.startswith(PREFIX) or name in names or name == KEY:
            continue
        if above and (name + SEPARATOR).startswith(above):
            continue
        advice = suggestion(name, names) or f" {LIST} lists them all."
        raise SettingsError(f"{variable} is set, but there is no such setting.{advice}")


_BOUNDS = {
    "greater_than_equal": "use {ge:g} or more",
    "greater_than": "use a number above {gt:g}",
    "less_than_equal": "use {le:g} or less",
    "less_than": "use a number below {lt:g}",
    "literal_error": "use {expected}",
}


def _sentence(fault: Mapping[str, Any]) -> str:
    """A validation error in words, with the name of the variable."""
    variable = PREFIX + SEPARATOR.join(str(part) for part in fault["loc"]).upper()
    context = fault.get("ctx", {})
    if isinstance(context.get("error"), Exception):
        error = str(context["error"])
        return error if PREFIX in error or not fault["loc"] else f"{variable}{SEPARATOR}…: {error}"
    if fault["type"] in _BOUNDS:
        advice = _BOUNDS[fault["type"]].format(**context).replace("'", "")
        return f"{variable} is {fault['input']!r}; {advice}."
    message = str(fault["msg"])
    return f"{variable} is {fault['input']!r}: {message[:1].lower()}{message[1:]}."


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` on top of `base`, level by level."""
    merged = dict(base)
    for name, value in changes.items():
        below = merged.get(name)
        nested = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(below, value) if nested and below is not None else value
    return merged


def _with_lists(values: object, default: object) -> object:
    """Split comma-separated text from the environment where the default is a tuple."""
    if isinstance(values, str) and isinstance(default, tuple):
        return tuple(part.strip() for part in values.split(",") if part.strip())
    if isinstance(values, Mapping):
        items = values.items()
        return {name: _with_lists(value, getattr(default, name, None)) for name, value in items}
    return values


@dataclass(frozen=True, slots=True)
class Variable:
    """A setting as an environment variable.

    Attributes:
        part: First line of the docstring of its settings class.
        default: Default, as it would be written in the environment; "" for none.
        doc: What it means.
    """

    name: str
    part: str
    default: str
    doc: str


def variables(model: type[S]) -> list[Variable]:
    """Every variable of a settings model: those at the top, then those of each part in order."""
    docs: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        docs |= attribute_docs(getdoc(owner))  # subclasses last
    top_level: list[Variable] = []
    parts: list[Variable] = []
    for name, info in model.model_fields.items():
        variable = PREFIX + name.upper()
        default = info.get_default(call_default_factory=True)
        if is_dataclass(default) and not isinstance(default, type):
            parts.extend(_of_part(variable, default))
        else:
            top_level.append(Variable(variable, _first_line(model), _written(default), docs[name]))
    return top_level + parts


def attribute_docs(docstring: str | None) -> dict[str, str]:
    """Attribute -> its text under "Attributes:" in a class's docstring, as one line."""
    _, _, section = (docstring or "").partition("Attributes:\n")
    matches = list(_ATTRIBUTE.finditer(section))
    ends = [*(match.start() for match in matches), len(section)][1:]
    texts = (section[match.end() : end] for match, end in zip(matches, ends, strict=True))
    return {match[1]: " ".join(text.split()) for match, text in zip(matches, texts, strict=True)}


def markdown(model: type[S]) -> str:
    """The settings as a Markdown page with a table for each part."""
    lines = [
        "# Settings",
        "",
        "Every setting is an environment variable. Written from the code by `make docs`; do not "
        "edit.",
    ]
    part = ""
    for variable in variables(model):
        if variable.part != part:
            part = variable.part
            lines += ["", f"## {part.rstrip('.')}", "", "| variable | default | meaning |"]
            lines.append("|---|---|---|")
        default = f"`{variable.default}`" if variable.default else "none"
        lines.append(f"| `{variable.name}` | {default} | {variable.doc} |")
    return "\n".join(lines) + "\n"


def _of_part(prefix: str, value: Any) -> Iterator[Variable]:  # noqa: ANN401 - any dataclass
    """The variables of a settings dataclass, nested parts last.

    Fields that its `Attributes:` leaves out are set by presets, commands and tests alone.
    """
    docs = attribute_docs(getdoc(type(value)))
    nested: list[Variable] = []
    for entry in fields(value):
        variable = prefix + SEPARATOR + entry.name.upper()
        default = getattr(value, entry.name)
        if is_dataclass(default) and not isinstance(default, type):
            nested.extend(_of_part(variable, default))
        elif entry.name in docs:
            yield Variable(variable, _first_line(type(value)), _written(default), docs[entry.name])
    yield from nested


def _first_line(owner: type) -> str:
    return (getdoc(owner) or "").splitlines()[0]


def _written(value: object) -> str:
    """A default as it would be written in the environment."""
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return ",".join(_written(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)
