"""Analysers without models, and a language model with scripted answers."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np

from tests.hashing import FakeAnalyser
from tests.live import LocalServer, send
from wye.featurizer.analyser import AnalyserSettings, open_syntax_parser
from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.types import Parse, Syntax
from wye.router.scorer import AttentionMlp

Wye = Callable[..., tuple[int, str, str]]
Router = Callable[[Path, str, float], Path]
"""Writes a router; see `handmade_router`."""


def line(weights: Sequence[float], bias: float) -> AttentionMlp:
    """A network whose logit is w · x + b, exactly: its gates are open, and it hides no layer."""
    width = len(weights)
    gate = {"weight": np.zeros((width, width)), "bias": np.full(width, 40.0)}
    tensors = {f"{layer}.{name}": v for layer in ("features", "output") for name, v in gate.items()}
    head = {"head.weight": np.array([weights], float), "head.bias": np.array([bias])}
    return AttentionMlp({**tensors, **head})


class ReadingAnalyser(FakeAnalyser):
    """Parses questions like the real one, so that features are real; vectors are hashes."""

    def __init__(self, settings: AnalyserSettings) -> None:
        super().__init__(settings)
        self.syntax = syntax_parser(settings)

    @property
    def syntax_fingerprint(self) -> dict[str, str]:
        return self.syntax.fingerprint

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        named = super().parse_questions(texts)
        if not tokens:
            return named
        read = self.syntax.parser.parse_questions(texts, tokens=True)
        return [
            replace(own, entities=fake.entities, phrases=())
            for own, fake in zip(read, named, strict=True)
        ]

    def syntax_of(self, parses: Sequence[Parse], *, trees: bool = True) -> list[Syntax]:
        del trees
        return self.syntax.build(parses)


@lru_cache(maxsize=1)
def syntax_parser(settings: AnalyserSettings) -> SyntaxParser:
    return open_syntax_parser(settings)


Say = Callable[..., str | bytes | int | float]
"""Messages -> the answer: a text, a whole body, a status, or seconds of silence."""


class LanguageModel:
    """Serves OpenAI's protocol at a port of this machine.

    Attributes:
        say: Makes the answer to the contents of a request's messages.
        requests: Bodies of the requests, each with its `path` and `key`.
    """

    def __init__(self, say: Say) -> None:
        self.say = say
        self.requests: list[dict[str, Any]] = []
        self._ended = threading.Event()
        self._server = LocalServer(self._answer)
        self.url = f"{self._server.url}/v1"

    def close(self) -> None:
        self._ended.set()
        self._server.close()

    def _answer(self, to: BaseHTTPRequestHandler, content: bytes) -> None:
        body = json.loads(content)
        known = {"path": to.path, "key": to.headers["Authorization"]}
        self.requests.append(body | known)
        said = self.say(*(message["content"] for message in body["messages"]))
        if isinstance(said, int):
            to.send_error(said)
        elif isinstance(said, float):
            self._ended.wait(said)
        elif isinstance(said, bytes):
            send(to, 200, said)
        else:
            choice = {"message": {"role": "assistant", "content": said}}
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            completion = {"choices": [choice], "usage": usage}
            send(to, 200, json.dumps(completion).encode(), **{"content-type": "application/json"})


@contextmanager
def speaking(say: Say) -> Iterator[LanguageModel]:
    """A language model that is listening."""
    with closing(LanguageModel(say)) as model:
        yield model
