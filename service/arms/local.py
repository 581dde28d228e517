"""Remote arms without a server, for commands that ask them many questions."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from wye.router.remote import (
    ArmAnswer,
    ArmFacts,
    ArmHit,
    ArmQuestion,
)
from wye.router.session import ModelCache
from wye.service.arms.arm import RemoteArm
from wye.service.arms.file import read_arms
from wye.service.arms.kind import ArmConfig
from wye.service.errors import ServiceError
from wye.service.settings import DEFAULT, LONGEST_DEADLINE_MS, load_settings

_SECONDS = LONGEST_DEADLINE_MS / 1000
_POLL_SECONDS = 0.1
# Keys of an arm's table that do not affect its answers.
_CALL_KEYS = {*ArmConfig.model_fields} - {"kind"}


def open_arms(path: Path, *, collection: str = "", has_index: bool = False) -> "LocalArms":
    """Open a collection's arms from an arms file.

    Args:
        collection: Its name; "" for the default.
        has_index: Whether the collection has an index.

    Raises:
        ServiceError: The file is invalid or has no arms for this collection.
    """
    name = collection or DEFAULT
    arms = read_arms(path, [name] if has_index else [], _SECONDS)
    if name not in arms:
        named = ", ".join(arms) or "none"
        raise ServiceError(
            f"{path} has no arms of collection '{name}'; its collections are {named}."
        )
    if not has_index and not any(arm.is_simple for arm in arms[name]):
        raise ServiceError(
            f"{path} has no simple arm for '{name}': name an index, or declare one with the role "
            '"simple".'
        )
    return LocalArms(arms[name])


def _facts(arm: RemoteArm) -> ArmFacts:
    """Facts about an arm, known without asking it."""
    config = arm.config
    settings = config.model_dump(mode="json", exclude=_CALL_KEYS)
    content = json.dumps(settings, sort_keys=True).encode()
    return ArmFacts(
        arm.name,
        config.role,
        hashlib.blake2b(content, digest_size=16).hexdigest(),
        config.price,
        config.depth,
        config.scores,
        config.weight,
        arm.prefix,
    )


class LocalArms:
    """Arms with an event loop of their own; used by one thread.

    Attributes:
        arms: Facts about each arm.
    """

    def __init__(self, arms: Sequence[RemoteArm]) -> None:
        self._arms = {arm.name: arm for arm in arms}
        self._runner = asyncio.Runner()
        self._models = ModelCache()
        self.arms: Sequence[ArmFacts] = tuple(map(_facts, arms))
        for arm in arms:
            arm.use(self._encode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._close())
        self._runner.close()
        self._models.close()

    def ask(self, questions: Sequence[ArmQuestion]) -> Iterator[tuple[int, ArmAnswer]]:
        """Ask all questions, and yield the position and the answer of each as they arrive.

        An arm gets as many concurrent calls as it allows; while its breaker is open, its questions
        wait.
        """
        loop = self._runner.get_loop()
        tasks = {
            loop.create_task(self._ask(position, question))
            for position, question in enumerate(questions)
        }
        try:
            while tasks:
                first = asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                complete, tasks = self._runner.run(first)
                yield from (task.result() for task in complete)
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                self._runner.run(asyncio.wait(tasks))

    async def _ask(self, position: int, question: ArmQuestion) -> tuple[int, ArmAnswer]:
        arm = self._arms[question.arm]
        if question.filter is not None:
            arm.check_filter(question.filter)
        config, patience = arm.config, arm.config.open_seconds + 1
        while arm.refusal() and patience > 0:
            await asyncio.sleep(_POLL_SECONDS)
            patience -= _POLL_SECONDS
        call = await arm.search(question.text, config.depth, question.filter, _SECONDS)
        hits = tuple(ArmHit(hit.id, hit.title, hit.text, hit.score) for hit in call.hits)
        return position, ArmAnswer(hits, 1000 * call.seconds, call.spent, call.reason)

    async def _encode(self, question: str) -> Sequence[float]:
        analyser = self._models.analyser(load_settings().analyser)
        vector: Sequence[float] = analyser.encode_questions([question])[0].tolist()
        return vector

    async def _close(self) -> None:
        for arm in self._arms.values():
            await arm.close()
