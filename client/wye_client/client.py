"""A client that searches over the HTTP API."""

import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self, TypedDict, Unpack

import httpx2

_BUSY = (429, 503)
_LONGEST_WAIT, _FIRST_WAIT = 10.0, 0.2  # seconds


class WyeError(Exception):
    """A request that failed; the message says what is wrong and what to do.

    Attributes:
        status: HTTP status of the reply; 0 if there was none.
        request_id: The request's id in the server's log; "" if there was no reply.
    """

    def __init__(self, message: str, status: int = 0, request_id: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class SearchOptions(TypedDict, total=False):
    """How to search; the server has a default for each option.

    Attributes:
        route: "auto", "dense", "lexical", "hybrid", "graph", "fusion", "steps", "clue" or
            "zoom".
        k: Most passages to return.
        filter: Filter on metadata, such as "year>=1850", or in JSON's form.
        collection: Name of a collection, needed where there are several.
        min_relevance: Leave out passages that are less likely to be relevant, 0 to 1.
        max_cost: Greatest cost of calls of remote arms.
        duplicates: "fold" or "keep" for near-duplicates.
        deadline_ms: Time for finding passages, after which the reply is an error.
        explain: Whether to say why the route was taken.
    """

    route: str
    k: int
    filter: Mapping[str, Any] | str | None
    collection: str | None
    min_relevance: float
    max_cost: float | None
    duplicates: str
    deadline_ms: int | None
    explain: bool


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage of a reply.

    Attributes:
        rank: 1 for the best.
        score: Higher is better; comparable within one reply only.
        document: Id of the document that it is part of.
        relevance: Probability that it is relevant, 0 to 1; None if unknown.
    """

    id: str
    rank: int
    score: float
    title: str
    text: str
    metadata: Mapping[str, Any]
    document: str
    relevance: float | None = None

    def labels(self, **more: object) -> dict[str, Any]:
        """Its metadata, title and document, and `more`: what a framework's document carries."""
        return {**self.metadata, "title": self.title, "document": self.document, **more}

    @property
    def best_score(self) -> float:
        """Its relevance, or its score if the server knows no relevance."""
        return self.score if self.relevance is None else self.relevance


@dataclass(frozen=True, slots=True)
class Routing:
    """Which route a question takes, and why.

    Attributes:
        route: The route that is taken.
        reason: "score", "forced", "budget: …", "unfamiliar: …" or "degraded: …".
        score: Complexity from 0 to 1; None if nothing was scored.
        summary: Why, in a sentence or two; "" unless asked for.
    """

    route: str
    reason: str
    score: float | None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class SearchReply:
    """Passages for a question.

    Attributes:
        passages: Best first.
        answerability: Probability that the collection has an answer; None if unknown.
        degraded: Why this is not what was asked for; "" if it is.
        raw: The whole reply, with arms, times and explanations.
    """

    question: str
    passages: tuple[RankedPassage, ...]
    decision: Routing
    answerability: float | None
    degraded: str
    request_id: str
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def route(self) -> str:
        """The route that answered."""
        return self.decision.route


class Client:
    """A client of one server, for any threads.

    A request that is refused under load or whose connection fails is sent again after a while.
    """

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 2
    ) -> None:
        """Ask the server at `url`.

        Args:
            url: Its address, such as "http://127.0.0.1:8000".
            key: An API key; by default WYE_KEY of the environment.
            timeout: Longest silence, in seconds.
            retries: Most further attempts.
        """
        key = os.environ.get("WYE_KEY") if key is None else key
        self._url = url
        self._retries = retries
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def search(self, question: str, **options: Unpack[SearchOptions]) -> SearchReply:
        """Find passages for a question; a `WyeError` if that fails."""
        body = {"question": question, **options}
        for attempt in count():
            outcome: httpx2.Response | httpx2.TransportError
            try:
                outcome = self._http.post("/v1/retrieve", json=body)
            except httpx2.TransportError as error:
                outcome = error
            wait = _wait(outcome, attempt)
            if wait is None or attempt >= self._retries:
                break
            time.sleep(wait)
        if isinstance(outcome, httpx2.Response):
            return _result(outcome)
        why = str(outcome) or type(outcome).__name__
        raise WyeError(f"{self._url} cannot be reached ({why}).") from outcome


def _wait(outcome: httpx2.Response | httpx2.TransportError, attempt: int) -> float | None:
    """Seconds until another attempt may succeed; None if none is to be made."""
    reply = outcome if isinstance(outcome, httpx2.Response) else None
    if reply is not None and reply.status_code not in _BUSY:
        return None
    header = reply.headers.get("retry-after", "") if reply is not None else ""
    wait = float(header) if header.isdigit() else _FIRST_WAIT * 2**attempt
    # With jitter, so that clients that were refused together do not return together.
    return None if wait > _LONGEST_WAIT else wait * (1 + random.random() / 2)


def _result(reply: httpx2.Response) -> SearchReply:
    """What a server replied; a `WyeError` if it reports an error or is another server's."""
    request_id = reply.headers.get("x-request-id", "")
    if reply.is_error:
        try:
            message = str(reply.json()["detail"])
        except (ValueError, KeyError, TypeError):
            message = f"The server replied {reply.status_code}."
        raise WyeError(message, reply.status_code, request_id)
    try:
        return _parsed(reply.json())
    except (ValueError, KeyError, TypeError) as error:
        says = f"{reply.url} sent a reply that is not Wye's ({error!r}); check the address."
        raise WyeError(says, reply.status_code, request_id) from error


def _parsed(reply: Mapping[str, Any]) -> SearchReply:
    parts = ("id", "rank", "score", "title", "text", "metadata", "document")
    route = reply["route"]
    return SearchReply(
        question=reply["question"],
        passages=tuple(
            RankedPassage(**{name: each[name] for name in parts}, relevance=each.get("relevance"))
            for each in reply["passages"]
        ),
        decision=Routing(
            route["path"], route["reason"], route.get("score"), route.get("summary", "")
        ),
        answerability=reply.get("answerability"),
        degraded=reply["degraded"],
        request_id=reply["request_id"],
        raw=reply,
    )
