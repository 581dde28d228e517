"""Errors as problems (RFC 9457), and what the middleware notes in a request's scope."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from wye.backends.errors import (
    BackendError,
    FilterError,
    IndexLockedError,
    ReadOnlyError,
    SourceError,
    suggestion,
)
from wye.featurizer.errors import FeaturizerError
from wye.router.errors import QuestionError, RouterError
from wye.service.errors import ServiceError
from wye.service.logs import LOG

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# Keys in the scope of a request: its id, and the kind of problem that it ended with.
NOTED_ID = "wye.request_id"
NOTED_PROBLEM = "wye.problem"

MEDIA_TYPE = "application/problem+json"
SHOWN_FAULTS = 10
_ERRORS: tuple[tuple[tuple[type[Exception], ...], int, str, int | None], ...] = (
    ((FilterError, QuestionError, SourceError), 422, "refused", None),
    ((IndexLockedError,), 409, "locked", 1),
    ((ReadOnlyError,), 409, "read-only", None),
    # A fault of an index, a model or a setting, which the operator has to fix.
    ((BackendError, FeaturizerError, RouterError, ServiceError), 503, "unavailable", 10),
    ((MemoryError,), 503, "unavailable", 10),
)
"""Errors below the service, the first that fits: status, kind, and seconds until a retry."""

# The folders of an absolute path, and those of an address in an object store.
_FOLDERS = re.compile(
    r"""(?<![\w./])(?:(?:s3|gs|az|abfss?|file-object-store):/*)?/(?:[^\s/'"`]+/)+(?=[^\s/'"`])"""
)
# What FastAPI and Starlette say, in our words.
_HTTP_DETAILS = {
    "Not Found": "There is nothing at this address; /openapi.json lists the addresses.",
    "Method Not Allowed": "This address does not support that method; /openapi.json lists those it "
    "supports.",
    "There was an error parsing the body": "The body cannot be read as JSON. Send UTF-8, not "
    "compressed and not deeply nested.",
}
_HTTP_SLUGS = {
    400: "unreadable",
    404: "not-found",
    405: "method",
    413: "too-long",
    422: "validation",
}
_SHOULD_BE = "Input should be "  # how pydantic begins
_Location = tuple[int | str, ...]

# Error types that OpenAI's SDKs expect, by status; others are "invalid_request_error".
_OPENAI_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    **dict.fromkeys((500, 502, 503, 504), "server_error"),
}
# The path that Dify calls, and its error codes: no key or a wrong one, no such knowledge.
DIFY = "/v1/dify/"
_DIFY_CODES: Mapping[int, int] = {401: 1002, 403: 1002, 404: 2001}


@dataclass(eq=False)
class Problem(ServiceError):  # noqa: N818 - the word of RFC 9457
    """A reply that is an error.

    Attributes:
        retry_after: Seconds after which a retry makes sense.
        errors: Each fault's path in the request (`at`) and what is wrong there (`says`).
    """

    status: int
    slug: str  # the kind of error in a word or two, part of its type
    detail: str  # what is wrong and what to do, in one or two sentences
    retry_after: float | None = field(default=None, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    errors: Sequence[Mapping[str, str]] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.retry_after is not None:
            self.headers = {**self.headers, "retry-after": str(max(1, math.ceil(self.retry_after)))}

    def __str__(self) -> str:
        return self.detail

    def body(self, request_id: str) -> dict[str, Any]:
        """The body as JSON; the member `error` is for clients of OpenAI's protocol."""
        return {
            "type": f"urn:wye:problem:{self.slug}",
            "title": "Client Gone" if self.status == 499 else HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id,
            **({"errors": self.errors} if self.errors else {}),
            "error": {
                "message": self.detail,
                "type": _OPENAI_TYPES.get(self.status, "invalid_request_error"),
                "param": self.errors[0]["at"] if self.errors else None,
                "code": self.slug,
            },
        }


def closing() -> Problem:
    """The problem (503) for requests that a stopping server will not finish."""
    return Problem(
        503, "closing", "This server is stopping; try again, or ask another.", retry_after=1
    )


def reason_of(error: BaseException | str, folder: Path | None = None, name: str = "") -> str:
    """An error or a text without this machine's folders; that of an index is called by its name."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, SourceError):  # names documents, whose ids may look like paths
        return str(error)
    message = getattr(error, "strerror", None) or f"{error}" or type(error).__name__
    return _FOLDERS.sub("", message if folder is None else message.replace(str(folder), name))


def not_writable(failure: str, error: OSError, where: str = "a disk") -> Problem:
    """The problem (503) for a write that the disk refuses; paths are only in the log."""
    LOG.warning("not writable", exc_info=error)
    return Problem(
        503,
        "not-writable",
        f"{failure}: {reason_of(error)}. Give the server {where} with free space and write "
        "permission.",
        retry_after=30,
    )


def validated(parse: Callable[[T], M], value: T) -> M:
    """The model that pydantic makes of a part of a request, or a `RequestValidationError`."""
    try:
        return parse(value)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


def problem_of(error: Exception) -> Problem:
    """The problem for an exception that a request ends with; 500 for an unexpected one."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ClientDisconnect):
        return Problem(499, "gone", "The client went away before it had sent the whole request.")
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, HTTPException):
        return _of_http(error)
    for kinds, status, slug, seconds in _ERRORS:
        if isinstance(error, kinds):
            detail = str(error) if status == 422 else reason_of(error)
            if isinstance(error, MemoryError):
                detail = "There was not enough memory for this. Try again."
            return Problem(status, slug, _sentence(detail), retry_after=seconds)
    fault = "This is a fault of the server, not of the request."
    return Problem(500, "internal", f"{fault} Its log has the details under this request_id.")


def answer(error: Exception, scope: Scope) -> Response:
    """The reply to a request that ends with an exception; an unexpected one is logged."""
    problem = problem_of(error)
    request_id = str(scope.get(NOTED_ID, ""))
    if problem.status >= 500 and problem is not error:  # also for the folders that it names
        LOG.error(problem.slug, exc_info=error, extra={"request_id": request_id})
    scope[NOTED_PROBLEM] = problem.slug
    body = problem.body(request_id)
    if scope.get("path", "").startswith(DIFY):
        body |= {
            "error_code": _DIFY_CODES.get(problem.status, problem.status),
            "error_msg": problem.detail,
        }
    return JSONResponse(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


async def handle(request: Request, error: Exception) -> Response:
    """Answer an error that FastAPI would answer; the middleware answers all others."""
    return answer(error, request.scope)


def _of_validation(error: RequestValidationError) -> Problem:
    """The faults with their paths, without the values sent, which may be long, or secrets."""
    located = islice(_located(error.errors(), error.body), SHOWN_FAULTS)
    faults = [{"at": _path(location), "says": sentence} for location, sentence in located]
    summary = " ".join(f"{fault['at']}: {fault['says']}" for fault in faults)
    return Problem(
        422, "validation", f"{summary} See /openapi.json for what is accepted.", errors=faults
    )


def _located(faults: Iterable[Mapping[str, Any]], body: object) -> Iterator[tuple[_Location, str]]:
    """Location and sentence of each fault; a value that fits no type of a union is one fault.

    Pydantic has a fault for each type. If the value is of one type, only its faults are returned.
    """
    mismatches: dict[_Location, list[str]] = {}
    explained: set[_Location] = set()
    for fault in faults:
        location, is_type = _locate(fault, body)
        sentence = _fault_sentence(fault)
        if is_type and fault["type"].endswith("_type"):
            mismatches.setdefault(location, []).append(sentence)
        else:
            explained |= {location[:length] for length in range(len(location) + 1)}
            yield location, sentence
    for location in mismatches.keys() - explained:
        kinds = [text.removeprefix(_SHOULD_BE).removesuffix(".") for text in mismatches[location]]
        yield location, f"{_SHOULD_BE}{' or '.join(kinds)}."


def _locate(fault: Mapping[str, Any], body: object) -> tuple[_Location, bool]:
    """Where a fault is, without names of types, and whether the last part was such a name."""
    parts = tuple(fault.get("loc", ()))
    if parts[:1] != ("body",) or not isinstance(body, Mapping):
        return parts, False
    value: Any = body
    location, is_type = parts[:1], False
    for part in parts[1:]:
        try:
            value, is_type = value[part], False
            location += (part,)
        except (LookupError, TypeError):
            is_type = True
    if fault.get("type") == "missing":
        return (*location, parts[-1]), False
    return location, is_type


def _fault_sentence(fault: Mapping[str, Any]) -> str:
    if fault.get("type") in ("model_attributes_type", "model_type"):
        if tuple(fault.get("loc", ())) == ("body",):
            return "Send a JSON object, with the header `content-type: application/json`."
        return f"{_SHOULD_BE}an object."
    if fault.get("type") == "json_invalid":
        return f"This is not JSON: {fault['ctx']['error']}."
    return _sentence(str(fault.get("msg", "")).removeprefix("Value error, "))


def _of_http(error: HTTPException) -> Problem:
    detail = _HTTP_DETAILS.get(error.detail, _sentence(error.detail))
    slug = _HTTP_SLUGS.get(error.status_code, "http")
    return Problem(error.status_code, slug, detail, headers=error.headers or {})


def _path(location: _Location) -> str:
    """A location in a request as text, such as `body.filter.type` or `body.messages[2]`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def with_suggestion(fault: ErrorDetails, fields: Iterable[str]) -> InitErrorDetails:
    """The same fault; for an unknown field it suggests the fields that may have been meant."""
    message = fault["msg"]
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        name, listing = str(fault["loc"][0]), f" The fields are {', '.join(fields)}."
        message = f"There is no such field.{suggestion(name, fields) or listing}"
    kind = PydanticCustomError(fault["type"], message)
    return InitErrorDetails(type=kind, loc=fault["loc"], input=fault["input"])
