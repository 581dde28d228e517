"""Whether the process lives, whether it can answer, and what Prometheus reads."""

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from service.http.auth import READ, unbound
from service.http.keys import ASKING, Scope
from service.service import Served, Service

router = APIRouter(tags=["operations"])


@router.get("/health", summary="Is the process alive?", operation_id="health")
async def health(service: Served) -> dict[str, Any]:
    """Always 200 while the process answers at all; says what it serves."""
    return {"status": "ok", "ready": service.is_ready, **await _facts(service)}


@router.get(
    "/ready",
    summary="Can it answer questions?",
    operation_id="ready",
    responses={503: {"description": "Loading, an index cannot be read, or nothing moves."}},
)
async def ready(service: Served) -> Response:
    """200 when every collection is loaded and has answered a question over every route, else 503.

    503 as well while the models have been at one piece of work for 10 seconds. Meant for load
    balancers: a process that is stopping closes its port and finishes what it has.
    """
    fault, facts = service.fault, await _facts(service)
    is_gone = any(collection.gone for collection in service.collections.values())
    if service.is_ready and not fault and not is_gone:
        return JSONResponse({"status": "ready", **facts})
    said = {"status": "stalled", "error": fault} if service.is_ready else {"status": "loading"}
    if is_gone:
        said = {"status": "unavailable"}
    return JSONResponse({**said, **facts}, 503, headers={"retry-after": "1"})


@router.get(
    "/metrics",
    dependencies=[*READ, Depends(unbound)],
    summary="Metrics for Prometheus",
    operation_id="metrics",
)
async def metrics(service: Served) -> Response:
    """Counts and times of this server; with several workers, any of them tells those of all."""
    await service.jobs.count()
    return Response(service.metrics.text(), media_type=service.metrics.content_type)


async def _facts(service: Service) -> dict[str, Any]:
    """What only those may know who may read: of the others, anybody can ask."""
    key = ASKING.get()
    if not key.may(Scope.READ):
        return {"more": "with an API key"}
    facts: dict[str, Any] = {"collections": [each.facts() for each in service.collections.values()]}
    if key.filter:
        for each in facts["collections"]:
            each.pop("passages", None)
    arms = [arm for name in service.collections for arm in service.arms.get(name, ())]
    if arms:
        facts["arms"] = [arm.facts() for arm in arms]
    if service.ring.fault:
        facts["keys"] = service.ring.fault
    if service.log_fault:
        facts["request_log"] = f"cannot be written ({service.log_fault}); its lines are lost"
    faults = await service.jobs.faults()
    if own := {name: fault for name, fault in faults.items() if name in service.collections}:
        facts["jobs"] = own
    return facts
