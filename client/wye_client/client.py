"""A client of the HTTP API."""

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx2

T = TypeVar("T")

_BUSY = (429, 503)
_PARTS = ("id", "rank", "score", "title", "text", "metadata", "document")  # of a `Hit`
_LONGEST_WAIT, _FIRST_WAIT, _POLL_SECONDS = 10.0, 0.2, 0.5  # seconds


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


class Turn(TypedDict):
    """A turn of the conversation; the role is "user" or "assistant"."""

    role: str
    content: str


class AnswerOptions(SearchOptions, total=False):
    """How to search and answer.

    Attributes:
        history: Earlier turns of the conversation, oldest first.
        abstain_below: No answer is given if answerability is below this, 0 to 1.
        max_tokens: Longest answer of a language model, in tokens.
    """

    history: Sequence[Turn]
    abstain_below: float
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found.

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


@dataclass(frozen=True, slots=True)
class Decision:
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
class Hits:
    """Passages for a question.

    Attributes:
        passages: Best first.
        answerability: Probability that the collection has an answer; None if unknown.
        degraded: Why this is not what was asked for; "" if it is.
        raw: The whole reply, with arms, times and explanations.
    """

    question: str
    passages: tuple[Hit, ...]
    decision: Decision
    answerability: float | None
    degraded: str
    request_id: str
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def route(self) -> str:
        """The route that answered."""
        return self.decision.route


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and its sources.

    Attributes:
        text: The answer; numbers in square brackets cite passages of `found`, from 1.
        citations: The cited passages: index, id, title, document, and the quoted sentences, each
            with its text, start and end.
        generator: Name of the language model, or "extractive".
        note: Why the answer is not a language model's; "" if it is.
        segments: The text in parts without brackets, each with the passages it comes from.
        finish_reason: "stop", "length", or "error" if it broke off.
        answered: "yes", "unsure" or "no"; None if it is not known whether there is an answer.
        usage: Counts of tokens, as the language model's endpoint reports them.
    """

    text: str
    citations: tuple[Mapping[str, Any], ...]
    generator: str
    note: str
    found: Hits
    segments: tuple[Mapping[str, Any], ...] = ()
    finish_reason: str = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)
    answered: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document; storing it replaces one with the same id."""

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of storing documents, in passages.

    Attributes:
        version: Version of the index that has them.
    """

    added: int
    updated: int
    unchanged: int
    removed: int
    version: int


class Client:
    """A client of one server, for any threads.

    Requests that are refused under load or whose connection fails are sent again after a while;
    sending any of them twice does no harm. A request that fails is a `WyeError` in every method.
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

    def search(self, question: str, **options: Unpack[SearchOptions]) -> Hits:
        """Find passages for a question."""
        return self._send("POST", "/v1/retrieve", _hits, json={"question": question, **options})

    def answer(self, question: str, **options: Unpack[AnswerOptions]) -> Answer:
        """Answer a question from passages, with citations."""
        return self._send("POST", "/v1/answer", _answer, json={"question": question, **options})

    def route(self, question: str, *, collection: str | None = None) -> Decision:
        """Decide which route a question would take."""
        body = {"question": question, "collection": collection, "explain": True}
        return self._send("POST", "/v1/route", lambda reply: _decision(reply["route"]), json=body)

    def collections(self) -> list[str]:
        """Names of the collections that the key may see; the first is the default."""
        return self._send(
            "GET", "/v1/vector_stores", lambda reply: [each["id"] for each in reply["data"]]
        )

    def document(self, id: str, *, collection: str | None = None) -> Document:  # noqa: A002
        """Read a stored document; its passages are joined by empty lines."""
        params = {} if collection is None else {"collection": collection}
        return self._send("GET", f"/v1/documents/{quote(id, safe='')}", _document, params=params)

    def add(self, documents: Iterable[Document], *, collection: str | None = None) -> Written:
        """Store documents, and wait until they are written."""
        values = [asdict(document) for document in documents]
        body = {"documents": values, "collection": collection}
        reply: Any = self._send("POST", "/v1/documents", dict, json=body)
        while (written := _written(reply)) is None:
            time.sleep(_POLL_SECONDS)
            reply = self._send("GET", f"/v1/jobs/{reply['id']}", dict)
        return written

    def delete(self, documents: Sequence[str], *, collection: str | None = None) -> int:
        """Delete documents by id, and return how many passages they had."""
        several = [documents] if isinstance(documents, str) else list(documents)
        body = {"documents": several, "collection": collection}
        return self._send(
            "POST", "/v1/documents/delete", lambda reply: int(reply["deleted"]), json=body
        )

    def _send(
        self,
        method: str,
        path: str,
        parse: Callable[[Any], T],
        **content: Any,  # noqa: ANN401 - as of httpx2
    ) -> T:
        """Send a request until there is an answer, and return what `parse` makes of its JSON."""
        for attempt in count():
            outcome: httpx2.Response | httpx2.TransportError
            try:
                outcome = self._http.request(method, path, **content)
            except httpx2.TransportError as error:
                outcome = error
            wait = _wait(outcome, attempt)
            if wait is None or attempt >= self._retries:
                break
            time.sleep(wait)
        if isinstance(outcome, httpx2.Response):
            return _result(outcome, parse)
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


def _result(reply: httpx2.Response, parse: Callable[[Any], T]) -> T:
    """What `parse` makes of a reply; a `WyeError` if it reports an error or is another server's."""
    request_id = reply.headers.get("x-request-id", "")
    if reply.is_error:
        try:
            message = str(reply.json()["detail"])
        except (ValueError, KeyError, TypeError):
            message = f"The server replied {reply.status_code}."
        raise WyeError(message, reply.status_code, request_id)
    try:
        return parse(reply.json())
    except (ValueError, KeyError, TypeError) as error:
        raise WyeError(
            f"{reply.url} sent a reply that is not Wye's ({error!r}); check the address.",
            reply.status_code,
            request_id,
        ) from error


def _decision(value: Mapping[str, Any]) -> Decision:
    return Decision(value["path"], value["reason"], value.get("score"), value.get("summary", ""))


def _hits(reply: Mapping[str, Any]) -> Hits:
    return Hits(
        question=reply["question"],
        passages=tuple(
            Hit(**{name: each[name] for name in _PARTS}, relevance=each.get("relevance"))
            for each in reply["passages"]
        ),
        decision=_decision(reply["route"]),
        answerability=reply.get("answerability"),
        degraded=reply["degraded"],
        request_id=reply["request_id"],
        raw=reply,
    )


def _answer(reply: Mapping[str, Any]) -> Answer:
    return Answer(
        text=reply["answer"],
        citations=tuple(reply["citations"]),
        generator=reply["generator"],
        note=reply["note"],
        found=_hits(reply["retrieval"]),
        segments=tuple(reply["segments"]),
        finish_reason=reply["finish_reason"],
        answered=reply.get("answered"),
        usage=reply.get("usage", {}),
    )


def _document(reply: Mapping[str, Any]) -> Document:
    text = "\n\n".join(passage["text"] for passage in reply["passages"])
    return Document(reply["id"], text, reply["title"], reply["metadata"])


def _written(reply: Mapping[str, Any]) -> Written | None:
    """The result that a reply or a job reports; None while the job is unfinished."""
    if (state := reply.get("state", "done")) != "done":
        if state in ("failed", "cancelled"):
            raise WyeError(f"The job {reply['id']} {state}. {reply.get('error', '')}".strip())
        return None
    counts = ("added", "updated", "unchanged", "removed")
    return Written(**{name: reply[name] for name in counts}, version=reply["index_version"])
