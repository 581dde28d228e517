"""The way of one question: from the handler of its address to the gateway, and back."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

import service

if TYPE_CHECKING:
    from tests.service.conftest import Library

HERE = Path(service.__file__).parent
MOST_FUNCTIONS = 32


class Way:
    """What is called between a request's handler and the end of its reply.

    Attributes:
        functions: Of the service, in order of their first call; what runs beside it is left out.
        wrapped: Dataclasses of the service that were made.
    """

    def __init__(self) -> None:
        self.begin_again()

    def begin_again(self) -> None:
        self.functions: dict[str, None] = {}
        self.wrapped: dict[str, None] = {}
        self.begun = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_filename == "<string>" and code.co_name == "__init__" and self.begun:
            kind = type(frame.f_locals["self"])
            if kind.__module__.startswith("service."):
                self.wrapped[kind.__name__] = None
        if not code.co_filename.startswith(str(HERE)) or code.co_name.startswith("<"):
            return
        place = Path(code.co_filename).relative_to(HERE).as_posix()
        self.begun = self.begun or (place, code.co_name) == ("routes/retrieve.py", "retrieve")
        if self.begun and not place.startswith(("ingest/", "refresh.py", "http/middleware.py")):
            self.functions[f"{place}:{code.co_qualname}"] = None


@pytest.fixture
def way() -> Way:
    return Way()


def test_a_question_takes_few_functions_and_one_wrapper_each_way(
    serve: Callable[..., TestClient], library: "Library", way: Way
) -> None:
    before = threading.getprofile()
    threading.setprofile(way)
    try:
        client = serve(library, refresh_seconds=60.0)
        client.post("/v1/retrieve", json={"question": "What river is it?"})
        way.begin_again()
        reply = client.post("/v1/retrieve", json={"question": "What river is it?"})
    finally:
        threading.setprofile(before)
    assert reply.status_code == 200
    assert library.batches
    assert len(way.functions) <= MOST_FUNCTIONS, [*way.functions]
    # Entry and _Waiting are the queue's own, one for what is known and one for who waits.
    assert [*way.wrapped] == ["SearchParams", "QueuedQuestion", "Entry", "_Waiting", "SearchResult"]
    assert "search.py:Searcher.work" in way.functions
    assert sys.getprofile() is None
