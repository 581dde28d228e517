"""Reads the file that declares remote arms, `wye.toml`, and opens arms without a server."""

import asyncio
import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from wye.backends.errors import suggestion
from wye.router.remote import ArmAnswer, ArmFacts, ArmQuestion, Save
from wye.router.session import ModelCache
from wye.router.types import Route
from wye.service.arms.arm import RemoteArm
from wye.service.arms.kind import Kind
from wye.service.errors import ServiceError
from wye.service.settings import (
    DEFAULT,
    LONGEST_DEADLINE_MS,
    ServiceSettings,
    load_settings,
)

FILE = "wye.toml"
"""The default, which `wye serve` reads from the working folder."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_RESERVED = {*Route, "local"}


def settings_with_arms(path: Path | None, preset: str | None = None) -> ServiceSettings:
    """All settings, with an arms file: the given one, that of the settings, or `FILE`."""
    settings = load_settings(arms=path, preset=preset)
    if settings.arms is None and Path(FILE).is_file():
        settings = load_settings(arms=Path(FILE), preset=preset)
    return settings


def read_arms(
    path: Path | None, collections: Sequence[str], deadline: float
) -> dict[str, tuple[RemoteArm, ...]]:
    """Read the arms of each collection that has any.

    Args:
        collections: Their names; the first is the default.
        deadline: Default deadline of a request, in seconds.

    Raises:
        ServiceError: The file is invalid; names the table, the key and the fault.
    """
    if path is None:
        return {}
    arms: dict[str, tuple[RemoteArm, ...]] = {}
    for name, table in _tables(path).items():
        where = f"{path}: [arms.{name}]"
        arm = _arm(name, table, where, deadline)
        collection = arm.config.collection or collections[0]
        if collection not in collections:
            raise ServiceError(
                f"{where} collection: there is no collection '{collection}'; use one of "
                f"{', '.join(collections)}."
            )
        others = arms.get(collection, ())
        if arm.takes_graph and any(other.takes_graph for other in others):
            raise ServiceError(
                f"{where} role: another arm replaces the graph in '{collection}' already; make "
                "this one a list."
            )
        arms[collection] = (*others, arm)
    return arms


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ServiceError(f"{path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ServiceError(f"{path} is not TOML: {error}.") from None


def _tables(path: Path) -> dict[str, Any]:
    """The tables below `arms`, by name."""
    content = _content(path)
    if unknown := next((key for key in content if key != "arms"), ""):
        raise ServiceError(f"{path}: there is no '{unknown}'. Write tables [arms.NAME].")
    tables = content.get("arms", {})
    if not isinstance(tables, dict) or not all(
        isinstance(table, dict) for table in tables.values()
    ):
        raise ServiceError(f"{path}: arms: write a table [arms.NAME] for each.")
    return tables


def _arm(name: str, table: dict[str, Any], where: str, deadline: float) -> RemoteArm:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ServiceError(
            f"{where}: an arm cannot be called '{name}'; use lower-case letters, digits and "
            "dashes, and no name of a route."
        )
    from wye.service.arms.kinds import KINDS  # noqa: PLC0415 - few servers have arms

    word = table.get("kind")
    if not isinstance(word, str) or word not in KINDS:
        hint = suggestion(str(word), KINDS) if word is not None else ""
        fault_text = f"'{word}' is not a kind" if word is not None else "it is missing"
        raise ServiceError(
            f"{where} kind: {fault_text}.{hint} Use one of {', '.join(KINDS)}; "
            "docs/guides/remote-arms.md has recipes for other servers."
        )
    kind = KINDS[word]
    try:
        return RemoteArm(name, kind.model_validate(table), deadline)
    except ValidationError as error:
        fault_text = " ".join(
            _fault_text(fault, where, kind.model_fields) for fault in error.errors()
        )
        raise ServiceError(fault_text) from None
    except ServiceError as error:
        raise ServiceError(f"{where} {error}.") from None


def _fault_text(fault: Any, where: str, keys: Any) -> str:  # noqa: ANN401 - of pydantic
    """Describe a fault and its path; the value is not repeated, since it may be a secret."""
    key = ".".join(str(item) for item in fault["loc"])
    if fault["type"] == "extra_forbidden":
        hint = suggestion(key, keys) or f" The keys are {', '.join(keys)}."
        return f"{where} {key}: there is no such key.{hint}"
    if fault["type"] == "missing":
        return f"{where} {key}: it is missing."
    message = str(fault["msg"]).removeprefix("Value error, ")
    message = message if not key else f"{key}: {message[:1].lower()}{message[1:]}"
    return f"{where} {message}."


_SECONDS = LONGEST_DEADLINE_MS / 1000
_POLL_SECONDS = 0.1
# Keys of an arm's table that do not affect its answers.
_CALL_KEYS = {*Kind.model_fields} - {"kind"}


def open_arms(path: Path) -> "LocalArms":
    """Open the arms of the first collection in an arms file.

    Raises:
        ServiceError: The file is invalid or has no arms for this collection.
    """
    arms = read_arms(path, [DEFAULT], _SECONDS)
    if DEFAULT not in arms:
        raise ServiceError(f"{path} has no arms; declare one with a table [arms.NAME].")
    return LocalArms(arms[DEFAULT])


def _facts(arm: RemoteArm) -> ArmFacts:
    """Facts about an arm, known without asking it."""
    config = arm.config
    settings = config.model_dump(mode="json", exclude=_CALL_KEYS)
    content = json.dumps(settings, sort_keys=True).encode()
    return ArmFacts(
        arm.name,
        hashlib.blake2b(content, digest_size=16).hexdigest(),
        config.price,
        config.depth,
        config.scores,
        config.weight,
        arm.prefix,
    )


class LocalArms:
    """Arms with an event loop of their own; used by one thread."""

    def __init__(self, arms: Sequence[RemoteArm]) -> None:
        self._arms = {arm.name: arm for arm in arms}
        self._runner = asyncio.Runner()
        self._models = ModelCache()
        self.arms: Sequence[ArmFacts] = tuple(map(_facts, arms))
        for arm in arms:
            arm.config.use(self._encode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._close())
        self._runner.close()
        self._models.close()

    def ask(self, questions: Sequence[ArmQuestion], save: Save) -> None:
        """Ask all questions, and save the answer of each as it arrives.

        While an arm's breaker is open, its questions wait.
        """

        async def ask_all() -> None:
            await asyncio.gather(*(self._ask(question, save) for question in questions))

        self._runner.run(ask_all())

    async def _ask(self, question: ArmQuestion, save: Save) -> None:
        arm = self._arms[question.arm]
        config, patience = arm.config, arm.config.open_seconds + 1
        while arm.refusal() and patience > 0:
            await asyncio.sleep(_POLL_SECONDS)
            patience -= _POLL_SECONDS
        call = await arm.search(question.text, config.depth, None, _SECONDS)
        save(question, ArmAnswer(call.hits, 1000 * call.seconds, call.reason))

    async def _encode(self, question: str) -> Sequence[float]:
        analyser = self._models.analyser(load_settings().analyser)
        vector: Sequence[float] = analyser.encode_questions([question])[0].tolist()
        return vector

    async def _close(self) -> None:
        for arm in self._arms.values():
            await arm.close()
