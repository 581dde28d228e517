"""Remote arms outside of a server: for commands, which have no event loop of their own."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from router.remote_arms import ArmAnswer, ArmFacts, ArmQuestion, AskedHit
from router.session import ModelCache
from service.arms.arm import RemoteArm
from service.arms.file import read_arms
from service.collections import DEFAULT
from service.errors import ServiceError
from service.settings import LONGEST_DEADLINE_MS, load_settings

_LOOK = 0.1
# What of a table says how to call, and not what is answered.
_MANNERS = frozenset(
    {
        "role",
        "collection",
        "timeout_ms",
        "price",
        "max_concurrency",
        "retries",
        "scores",
        "weight",
        "depth",
        "same_ids",
        "open_after",
        "open_seconds",
        "hedge_ms",
        "cache_seconds",
        "cache_entries",
        "cache_mb",
    }
)


def open_arms(path: Path, *, collection: str = "", has_index: bool = False) -> "LocalArms":
    """The arms of a collection of an arms file.

    Args:
        collection: By name; the default without one.
        has_index: Whether there is an index beside them.

    Raises:
        ServiceError: The file is not sound, or has no arms for this collection.
    """
    name = collection or DEFAULT
    found = read_arms(path, [name] if has_index else [], LONGEST_DEADLINE_MS / 1000)
    if name not in found:
        named = ", ".join(found) or "none"
        raise ServiceError(f"{path} has no arms of collection '{name}'; it has those of {named}.")
    if not has_index and not any(arm.is_simple for arm in found[name]):
        raise ServiceError(
            f"{path} has no simple arm for '{name}': name an index, or declare one with the role "
            '"simple".'
        )
    return LocalArms(found[name])


class LocalArms:
    """Arms with an event loop, used by one thread.

    Attributes:
        arms: What is known of them.
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
        """Place and answer of each, as they come.

        An arm has as many calls at once as it may; while its breaker is open, it is waited for.
        """
        loop = self._runner.get_loop()
        waiting = {loop.create_task(self._ask(place, one)) for place, one in enumerate(questions)}
        try:
            while waiting:
                first = partial(asyncio.wait, waiting, return_when=asyncio.FIRST_COMPLETED)
                done, waiting = self._runner.run(first())
                yield from (task.result() for task in done)
        finally:
            for task in waiting:
                task.cancel()
            if waiting:
                self._runner.run(_ended(waiting))

    async def _ask(self, place: int, asked: ArmQuestion) -> tuple[int, ArmAnswer]:
        arm = self._arms[asked.arm]
        if asked.filter is not None:
            arm.check_filter(asked.filter)
        config, patience = arm.config, arm.config.open_seconds + 1
        while arm.closed() and patience > 0:
            await asyncio.sleep(_LOOK)
            patience -= _LOOK
        call = await arm.search(asked.text, config.depth, asked.filter, LONGEST_DEADLINE_MS / 1000)
        hits = tuple(AskedHit(hit.id, hit.title, hit.text, hit.score) for hit in call.hits)
        return place, ArmAnswer(hits, 1000 * call.seconds, call.spent, call.reason)

    async def _encode(self, question: str) -> Sequence[float]:
        analyser = self._models.analyser(load_settings().analyser)
        found: Sequence[float] = analyser.encode_questions([question])[0].tolist()
        return found

    async def _close(self) -> None:
        for arm in self._arms.values():
            await arm.close()


async def _ended(tasks: "set[asyncio.Task[tuple[int, ArmAnswer]]]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _facts(arm: RemoteArm) -> ArmFacts:
    own = arm.config
    told = {key: value for key, value in own.model_dump(mode="json").items() if key not in _MANNERS}
    content = json.dumps(told, sort_keys=True).encode()
    return ArmFacts(
        arm.name,
        own.role,
        hashlib.blake2b(content, digest_size=16).hexdigest(),
        own.price,
        own.depth,
        own.scores,
        own.weight,
        "" if own.same_ids or arm.is_simple else f"{arm.name}:",
    )
