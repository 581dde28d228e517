"""Whether the process lives, and whether it can answer."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from service.service import Served, Service

router = APIRouter(tags=["operations"])


@router.get("/health", summary="Is the process alive?", operation_id="health")
async def health(service: Served) -> dict[str, Any]:
    """Always 200 while the process answers at all; says what it serves."""
    return {"status": "ok", "ready": service.is_ready, **_facts(service)}


@router.get(
    "/ready",
    summary="Can it answer questions?",
    operation_id="ready",
    responses={
        503: {"description": "Still loading, or an index could not be loaded, or was taken away."}
    },
)
async def ready(service: Served) -> Response:
    """200 when every collection is loaded and has answered a question over every route, else 503.

    Meant for load balancers: a process that is stopping closes its port and finishes what it has.
    """
    status = "ready" if service.is_ready else "loading"
    if any(each.gone for each in service.collections.values()):
        status = "unavailable"
    headers = {} if status == "ready" else {"retry-after": "1"}
    said = {"status": status, **_facts(service)}
    return JSONResponse(said, 200 if status == "ready" else 503, headers=headers)


def _facts(service: Service) -> dict[str, Any]:
    facts: dict[str, Any] = {"collections": [each.facts() for each in service.collections.values()]}
    if service.log_fault:
        facts["request_log"] = f"cannot be written ({service.log_fault}); its lines are lost"
    return facts
