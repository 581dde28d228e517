"""Whether the process is alive, whether it can answer, and metrics for Prometheus."""

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from wye.service.http.edge import ASKING, READ, Scope, unbound
from wye.service.service import Served, Service

router = APIRouter(tags=["operations"])


# Load balancers also ask with HEAD; the server leaves the body out.
@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Is the process alive?", operation_id="health")
async def health(service: Served) -> dict[str, Any]:
    """Returns 200 whenever the process answers at all, and says what it serves."""
    return {"status": "ok", "ready": service.is_ready, **await _facts(service)}


@router.head("/ready", include_in_schema=False)
@router.get(
    "/ready",
    summary="Can it answer questions?",
    operation_id="ready",
    responses={503: {"description": "Loading, stalled, or an index cannot be read."}},
)
async def ready(service: Served) -> Response:
    """Returns 200 if every collection is loaded and has answered a question over every route.

    Returns 503 otherwise, and while one piece of work has kept the models busy for 10 seconds. It
    is meant for load balancers: a process that stops closes its port and finishes its requests.
    """
    fault, facts = service.fault, await _facts(service)
    is_unreadable = any(collection.read_fault for collection in service.collections.values())
    if service.is_ready and not fault and not is_unreadable:
        return JSONResponse({"status": "ready", **facts})
    state = {"status": "stalled", "error": fault} if service.is_ready else {"status": "loading"}
    if is_unreadable:
        state = {"status": "unavailable"}
    return JSONResponse({**state, **facts}, 503, headers={"retry-after": "1"})


@router.get(
    "/metrics",
    dependencies=[*READ, Depends(unbound)],
    summary="Metrics for Prometheus",
    operation_id="metrics",
)
async def metrics(service: Served) -> Response:
    """Returns counts and times of this server."""
    await service.jobs.count()
    return Response(service.metrics.text(), media_type=service.metrics.content_type)


async def _facts(service: Service) -> dict[str, Any]:
    """Facts for keys that may read: the addresses themselves are open to anybody."""
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
    if own_faults := {name: fault for name, fault in faults.items() if name in service.collections}:
        facts["jobs"] = own_faults
    return facts
