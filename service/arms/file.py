"""Reads the file that declares remote arms, `wye.toml`, and opens arms without a server."""

import asyncio
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from wye.backends.errors import suggestion
from wye.router.remote import ArmAnswer, ArmFacts, ArmQuestion, Save
from wye.router.session import ModelCache
from wye.router.types import Route
from wye.service.arms.arm import Kind, RemoteArm
from wye.service.errors import ServiceError
from wye.service.settings import DEFAULT, LONGEST_DEADLINE_MS, ServiceSettings, load_settings

FILE = "wye.toml"  # the default, which `wye serve` reads from the working folder
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SECONDS = LONGEST_DEADLINE_MS / 1000
_POLL_SECONDS = 0.1
# Keys of an arm's table that do not affect its answers.
_CALL_KEYS = {*Kind.model_fields} - {"kind"}


def settings_with_arms(path: Path | None, preset: str | None = None) -> ServiceSettings:
    """All settings, with an arms file: the given one, that of the settings, or `FILE`."""
    settings = load_settings(arms=path, preset=preset)
    if settings.arms is None and Path(FILE).is_file():
        settings = load_settings(arms=Path(FILE), preset=preset)
    return settings


def read_arms(
    path: Path | None, collections: Sequence[str], deadline: float
) -> dict[str, tuple[RemoteArm, ...]]:
    """Read the arms of each collection that has any; the first of them is the default.

    A `ServiceError` names the table, the key and the fault. `deadline` is a request's, in seconds.
    """
    if path is None:
        return {}
    arms: dict[str, tuple[RemoteArm, ...]] = {}
    for name, table in _tables(path).items():
        where = f"{path}: [arms.{name}]"
        arm = RemoteArm(name, _kind(name, table, where), deadline)
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


def _tables(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ServiceError(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise ServiceError(f"{path} is not TOML: {error}.") from None
    tables = content.pop("arms", {})
    for unknown in content:
        raise ServiceError(f"{path}: there is no '{unknown}'. Write tables [arms.NAME].")
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ServiceError(f"{path}: arms: write a table [arms.NAME] for each.")
    return tables


def _kind(name: str, table: Mapping[str, Any], where: str) -> Kind:
    from wye.service.arms.kinds import KINDS  # noqa: PLC0415 - few servers have arms

    if not _NAME.fullmatch(name) or name in {*Route, "local"}:
        raise ServiceError(
            f"{where}: an arm cannot be called '{name}'; use lower-case letters, digits and "
            "dashes, and no name of a route."
        )
    word = str(table.get("kind", ""))
    if word not in KINDS:
        fault = f"'{word}' is not a kind.{suggestion(word, KINDS)}" if word else "it is missing."
        raise ServiceError(
            f"{where} kind: {fault} Use one of {', '.join(KINDS)}; "
            "docs/guides/remote-arms.md has recipes for other servers."
        )
    try:
        return KINDS[word].model_validate(table)
    except ValidationError as error:
        faults = (_sentence(fault, KINDS[word].model_fields) for fault in error.errors())
        raise ServiceError(" ".join(f"{where} {fault}" for fault in faults)) from None


def _sentence(fault: Any, keys: Mapping[str, object]) -> str:  # noqa: ANN401 - of pydantic
    """Describe a fault and its key; the value is not repeated, since it may be a secret."""
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        hint = suggestion(key, keys) or f" The keys are {', '.join(keys)}."
        return f"{key}: there is no such key.{hint}"
    if fault["type"] == "missing":
        return f"{key}: it is missing."
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{key}: {message[:1].lower()}{message[1:]}." if key else f"{message}."


def open_arms(path: Path) -> "LocalArms":
    """Open the arms of a file's first collection; a `ServiceError` if it is invalid or has none."""
    arms = read_arms(path, [DEFAULT], _SECONDS)
    if DEFAULT not in arms:
        raise ServiceError(f"{path} has no arms; declare one with a table [arms.NAME].")
    return LocalArms(arms[DEFAULT])


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
        for arm in self._arms.values():
            self._runner.run(arm.close())
        self._runner.close()
        self._models.close()

    def ask(self, questions: Sequence[ArmQuestion], save: Save) -> None:
        """Save each answer as it arrives; questions to an arm with an open breaker wait."""

        async def ask_all() -> None:
            await asyncio.gather(*(self._ask(question, save) for question in questions))

        self._runner.run(ask_all())

    async def _ask(self, question: ArmQuestion, save: Save) -> None:
        arm = self._arms[question.arm]
        patience = arm.config.open_seconds + 1
        while arm.refusal() and patience > 0:
            await asyncio.sleep(_POLL_SECONDS)
            patience -= _POLL_SECONDS
        call = await arm.search(question.text, arm.config.depth, None, _SECONDS)
        save(question, ArmAnswer(call.hits, 1000 * call.seconds, call.reason))

    async def _encode(self, question: str) -> Sequence[float]:
        analyser = self._models.analyser(load_settings().analyser)
        vector: Sequence[float] = analyser.encode_questions([question])[0].tolist()
        return vector


def _facts(arm: RemoteArm) -> ArmFacts:
    config = arm.config
    settings = config.model_dump(mode="json", exclude=_CALL_KEYS)
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16)
    limits = config.price, config.depth, config.scores, config.weight
    return ArmFacts(arm.name, digest.hexdigest(), *limits, arm.prefix)
