"""The OpenAPI schema: the words that belong to no single address, and errors as they really are."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from router.settings import attribute_docs
from service.http.metrics import Metrics
from service.http.problems import MEDIA_TYPE

DESCRIPTION = """
Wye finds passages for questions. Some questions are about one thing, and comparing vectors finds
their passages at once; others lead from a thing to a second one that the question never names, and
it takes a walk over a graph to get there. Wye scores each question and sends it the way that suits
it, or fuses both.

**Every answer can be questioned.** A reply says which way was taken, by which score and which
thresholds, which arm had each passage at which rank, how long each stage took, and which version of
the index was searched. An answer that is not what was asked for says why, in `degraded`.

**Collections.** A server has one or several, each with its own index, router and thresholds;
requests name one with `collection`. A thresholds file that is replaced counts for the questions
that come after, and a reply has those that its score was held against.

**Errors** are problem+json (RFC 9457): `detail` says what is wrong and what to do, `errors`
where in the request. 503 and 429 come at once and with `Retry-After`; clients that
retry at once by the hundred get them up to a second later. Each reply has an
`x-request-id`; send one to choose it.

**Keys.** A server that other machines can reach needs an API key, as a bearer token or in
`x-api-key`. Scopes are `read`, `write` and `admin`, each including those before it.
"""

TAGS = [
    {"name": "retrieval", "description": "Passages for questions."},
    {"name": "answers", "description": "Answers with citations, as one reply or as they come."},
    {"name": "openai", "description": "What clients of OpenAI's API know how to use."},
    {"name": "connectors", "description": "In the form in which other programs ask."},
    {
        "name": "documents",
        "description": (
            "What is searched. A change is committed before it is answered with 200 or 201; a "
            "large upload is answered with 202 and a job, which outlives the server's end. "
            "Searching goes on meanwhile, and moves to the new version when its arms are built; "
            "every reply says which version it searched."
        ),
    },
    {"name": "operations", "description": "For load balancers, Prometheus and whoever is on call."},
]


class FaultValue(BaseModel):
    """One thing that is wrong with a request."""

    at: str = Field(description="Where, as in `body.filter.type`.")
    says: str


class ProblemValue(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="Its kind, as in `urn:wye:problem:overloaded`.")
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    request_id: str
    errors: list[FaultValue] = Field(default=[], description="Where in the request.")
    error: dict[str, str | None] = Field(description="The same for clients of OpenAI's API.")


def describe(app: FastAPI, bodies: Sequence[type[BaseModel]] = ()) -> None:
    """Have an app's schema tell errors as problems, which FastAPI does not know of.

    `bodies` are requests that an address reads by itself, and that its `requestBody` refers to.
    """
    app.openapi = partial(_schema, app, app.openapi, bodies)  # type: ignore[method-assign]


def _schema(
    app: FastAPI, make: Callable[[], dict[str, Any]], bodies: Sequence[type[BaseModel]]
) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = make()
        parts = schema["components"]["schemas"]
        models: list[type[BaseModel]] = [ProblemValue, *bodies]
        for model in models:
            own = model.model_json_schema(ref_template="#/components/schemas/{model}")
            parts |= {**own.pop("$defs", {}), model.__name__: own}
        for name in ("HTTPValidationError", "ValidationError"):
            parts.pop(name, None)
        for part in parts.values():
            _describe_fields(part)
        for operation in (each for path in schema["paths"].values() for each in path.values()):
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "What went wrong, and what to do.",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemValue"}}},
            }
        metrics = schema["paths"]["/metrics"]["get"]
        metrics["description"] += _listed(app.state.service.metrics)
        app.openapi_schema = schema
    return app.openapi_schema


def _describe_fields(part: dict[str, Any]) -> None:
    """Give each field of a dataclass the text that its docstring has for it."""
    docs = attribute_docs(part.get("description"))
    if docs:
        part["description"] = part["description"].partition("\n\nAttributes:")[0]
        for name, text in docs.items():
            part["properties"][name]["description"] = text.replace("None", "null")


def _listed(metrics: Metrics) -> str:
    """Every metric, as Markdown."""
    rows = (f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in metrics.listed())
    return "\n\n" + "\n".join(["| metric | type | meaning |", "|---|---|---|", *rows])
