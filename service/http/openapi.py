"""The OpenAPI schema: what it says of the whole API, and errors as problem+json."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from wye.router.settings import attribute_docs
from wye.service.http.problems import MEDIA_TYPE

DESCRIPTION = """
Wye finds passages for questions. Some questions are about one thing, and a comparison of vectors
finds their passages at once. Others lead from one thing to a second that the question never names,
and finding their passages takes a walk over a graph. Wye scores each question and takes the route
that suits it, or fuses both.

**Every answer can be checked.** A reply says which route was taken, by which score and thresholds,
which arms found each passage at which rank, how long each stage took, and which version of the
index was searched. If an answer is not what was asked for, `degraded` says why.

**Collections.** A server has one or several, each with its own index; requests name one with
`collection`. A new thresholds file applies to later questions, and a reply
contains the thresholds that its score was compared with.

**Errors** are problem+json (RFC 9457): `detail` says what is wrong and what to do, and `errors`
where in the request. 503 is sent at once with `Retry-After`. Every reply has an
`x-request-id`; send one to choose it.

**Keys.** A server that other machines can reach needs an API key, sent as a bearer token or in
`x-api-key`. Its scope is `read`, or `write`, which includes `read`.
"""

TAGS = [
    {"name": "retrieval", "description": "Passages for questions."},
    {"name": "answers", "description": "Answers with citations, whole or as a stream."},
    {"name": "openai", "description": "For clients of OpenAI's API; replies have its shapes."},
    {"name": "connectors", "description": "Addresses in the protocols of other programs."},
    {
        "name": "documents",
        "description": (
            "The documents that are searched. The reply to a change is 200 or 201 once it is "
            "committed. A large upload is 202 with a job, which survives a restart of the server. "
            "Meanwhile searches use the former version, until the new one is ready; every reply "
            "says which version it searched."
        ),
    },
    {"name": "operations", "description": "Health, metrics and feedback."},
]


class Described(BaseModel):
    """A request or reply whose fields are described by the texts below them."""

    model_config = {"use_attribute_docstrings": True}


class FaultValue(Described):
    """One fault of a request."""

    at: str
    """Where in the request, as in `body.filter.type`."""
    says: str


class ProblemValue(Described):
    """An error (RFC 9457)."""

    type: str
    """Kind of the error, as in `urn:wye:problem:overloaded`."""
    title: str
    status: int
    detail: str
    """What is wrong, and what to do."""
    request_id: str
    errors: list[FaultValue] = Field(default=[])
    """The faults and where they are."""
    error: dict[str, str | None]
    """The same for clients of OpenAI's API."""


ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "An error: what is wrong and what to do.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemValue"}}},
    }
}
"""The replies of every address that FastAPI describes otherwise."""


def body_of(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a body is that an operation parses itself, by content type."""
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


def describe(app: FastAPI, bodies: Sequence[type[BaseModel]] = ()) -> None:
    """Serve an app's schema, rendered once, with `bodies` that operations parse themselves."""
    app.openapi = cache(partial(_schema, app.openapi, bodies))  # type: ignore[method-assign]

    @cache
    def rendered() -> tuple[bytes, str]:
        content = json.dumps(app.openapi(), separators=(",", ":")).encode()
        return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    @app.get("/openapi.json", include_in_schema=False)
    async def schema(request: Request) -> Response:
        content, tag = rendered()
        headers = {"etag": tag, "cache-control": "no-cache"}
        body = None if tag in request.headers.get("if-none-match", "") else content
        return Response(body, 200 if body else 304, headers, "application/json")


def _schema(
    make: Callable[[], dict[str, Any]], bodies: Sequence[type[BaseModel]]
) -> dict[str, Any]:
    schema = make()
    parts = schema["components"]["schemas"]
    models: list[type[BaseModel]] = [ProblemValue, *bodies]
    for model in models:
        definition = model.model_json_schema(ref_template="#/components/schemas/{model}")
        parts |= {**definition.pop("$defs", {}), model.__name__: definition}
    for part in parts.values():
        _describe_fields(part)
    return schema


def _describe_fields(part: dict[str, Any]) -> None:
    """Have each field's text in one line, also where a docstring lists it as an attribute."""
    fields = part.get("properties", {})
    for name, text in attribute_docs(part.get("description")).items():
        part["description"] = part["description"].partition("\n\nAttributes:")[0]
        fields[name]["description"] = text.replace("None", "null")
    for field in fields.values():
        if "description" in field:
            field["description"] = " ".join(field["description"].split())
