"""An object of Python that searches."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import Annotated, Any

from pydantic import Field

from wye.service.arms.kind import ArmConfig, Garbled, Kind, RemoteHit, remote_hit
from wye.service.errors import ServiceError


class PythonConfig(ArmConfig):
    """A Python object that searches.

    Attributes:
        target: "module:object", where the object has `search(question, k)`, or is a class or
            function that makes one without arguments. A hit is an object or a dict with `id`,
            `text` and perhaps `title`, `score` and `metadata`.
        filters: Whether its `search` takes a filter as a third argument.
    """

    target: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    filters: bool = False


class PythonKind(Kind[PythonConfig]):
    """Calls `search`, in a thread unless it is a coroutine function."""

    Config = PythonConfig

    def __init__(self, config: PythonConfig) -> None:
        super().__init__(config)
        searcher = _load(config.target)
        if not callable(getattr(searcher, "search", None)):
            raise ServiceError(f"target: {config.target} has no search(question, k)")
        self._call: Callable[..., Any] = searcher.search
        # A thread cannot be stopped after a timeout, so their number is limited to that of calls.
        self._threads = ThreadPoolExecutor(config.max_concurrency, "wye-arm")

    def check_filter(self, filter_: object) -> None:
        """Take any filter, if the arms file says that `search` takes one."""
        if not self.config.filters:
            super().check_filter(filter_)

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the object's order."""
        arguments = (question, k, filter_) if self.config.filters else (question, k)
        if inspect.iscoroutinefunction(self._call):
            results = await self._call(*arguments)
        else:
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self._threads, self._call, *arguments)
        try:
            hits = list(results)[:k]
        except TypeError:
            raise Garbled("it is not a list") from None
        return list(map(_hit, hits))

    async def close(self) -> None:
        """End its threads without waiting for calls in progress."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _load(target: str) -> Any:  # noqa: ANN401 - foreign code
    module, _, path = target.partition(":")
    try:
        value: Any = import_module(module)
        for name in path.split("."):
            value = getattr(value, name)
        is_factory = inspect.isclass(value) or inspect.isfunction(value)
        return value() if is_factory else value
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        raise ServiceError(
            f"target: {target} cannot be loaded ({type(error).__name__}: {error})"
        ) from None


def _hit(hit: Any) -> RemoteHit:  # noqa: ANN401 - a dict or an object
    get = hit.get if isinstance(hit, dict) else partial(_attribute, hit)
    return remote_hit(get("id"), get("text"), get("title", ""), get("score"), get("metadata"))


def _attribute(hit: object, name: str, default: object = None) -> object:
    return getattr(hit, name, default)
