"""A Python object: a retriever of LangChain or LlamaIndex, or anything that searches."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Annotated, Any

from pydantic import Field

from wye.service.arms.kind import ArmConfig, Garbled, Kind, RemoteHit, remote_hit
from wye.service.errors import ServiceError

_METHODS = ("search", "ainvoke", "invoke", "aretrieve", "retrieve")


class PythonConfig(ArmConfig):
    """A Python object that searches.

    Attributes:
        target: "module:object", where the object searches, or is a class or function that makes one
            without arguments.
        filters: Whether its `search` takes a filter as a third argument.
    """

    target: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    filters: bool = False


class PythonKind(Kind[PythonConfig]):
    """Calls `search(question, k)`, LangChain's `invoke` or LlamaIndex's `retrieve`."""

    Config = PythonConfig

    def __init__(self, config: PythonConfig) -> None:
        super().__init__(config)
        searcher = _load(config.target)
        name = next((name for name in _METHODS if callable(getattr(searcher, name, None))), "")
        if not name:
            raise ServiceError(f"target: {config.target} has none of {', '.join(_METHODS)}")
        if config.filters and name != "search":
            raise ServiceError("filters: only an object with `search` can take a filter")
        self._call: Callable[..., Any] = getattr(searcher, name)
        self._is_search = name == "search"
        # A thread cannot be stopped after a timeout, so their number is limited to that of calls.
        self._threads = ThreadPoolExecutor(config.max_concurrency, "wye-arm")

    def translate(self, filter_: object) -> object:
        """Pass a filter on, if the arms file says that `search` takes one."""
        return filter_ if self.config.filters else super().translate(filter_)

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the object's order."""
        arguments: tuple[object, ...] = (question, k) if self._is_search else (question,)
        if self.config.filters:
            arguments = (*arguments, filter_)
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


def _load(target: str) -> object:
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


def _hit(hit: Any) -> RemoteHit:  # noqa: ANN401 - of several libraries
    """Make a hit of a scored node (LlamaIndex), a document (LangChain), a dict or an object."""
    node = getattr(hit, "node", None)
    if node is not None:
        metadata = dict(node.metadata)
        title = metadata.get("title", "")
        return remote_hit(node.node_id, node.get_content(), title, hit.score, metadata)
    if hasattr(hit, "page_content"):
        metadata = dict(hit.metadata)
        id_ = getattr(hit, "id", None) or metadata.get("id") or hit.page_content
        return remote_hit(id_, hit.page_content, metadata.get("title", ""), None, metadata)
    if isinstance(hit, dict):
        get = hit.get
    else:

        def get(name: str, default: object = None) -> object:
            return getattr(hit, name, default)

    return remote_hit(get("id"), get("text"), get("title", ""), get("score"), get("metadata"))
