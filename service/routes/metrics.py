"""What Prometheus reads."""

from fastapi import APIRouter, Depends
from starlette.responses import Response

from service.http.auth import READ, unbound
from service.service import Served

router = APIRouter(tags=["operations"], dependencies=[*READ, Depends(unbound)])


@router.get("/metrics", summary="Metrics for Prometheus", operation_id="metrics")
async def metrics(service: Served) -> Response:
    """Counts and times of this server; with several workers, any of them tells those of all."""
    await service.jobs.count()
    return Response(service.metrics.text(), media_type=service.metrics.content_type)
