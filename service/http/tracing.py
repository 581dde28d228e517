"""OpenTelemetry spans: one for each request (FastAPI's own) and one for each of its stages."""

import sys
from time import time_ns
from typing import TYPE_CHECKING, Literal

from opentelemetry import trace
from opentelemetry.trace import Span, Tracer

from wye.featurizer.errors import how_to_install
from wye.service.errors import ServiceError
from wye.service.search import SearchResult

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

NAME = "wye"


def provider(kind: Literal["off", "otlp", "console"]) -> trace.TracerProvider | None:
    """The provider of tracers that export spans; None with "off".

    Raises:
        ServiceError: The exporter is not installed.
    """
    if kind == "off":
        return None
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - most servers need none of it
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    tracers = TracerProvider(resource=Resource.create({"service.name": NAME}))
    tracers.add_span_processor(BatchSpanProcessor(_exporter(kind)))
    return tracers


def record_retrieval(tracer: Tracer, result: SearchResult) -> None:
    """Record a retrieval that has just ended as a child of the current span.

    The stages become child spans, one after another. They are the question's shares of its batch's
    time, so they fill the span only if the question was alone in its batch.
    """
    params, reply, entry = result.params, result.reply, result.entry
    end = time_ns()
    start = end - round(result.total * 1e9)
    attributes: dict[str, str | float] = {
        "wye.request_id": entry.item.request_id,
        "wye.collection": params.collection,
        "wye.asked": str(params.route),
        "wye.route": str(reply.route),
        "wye.index_version": reply.version,
        "wye.batch": entry.size,
        "wye.degraded": result.degraded,
    }
    if reply.decision is not None and reply.decision.score is not None:
        attributes["wye.score"] = float(reply.decision.score)
    span: Span = tracer.start_span("wye.retrieve", start_time=start, attributes=attributes)
    context = trace.set_span_in_context(span)
    moment = start
    for stage, seconds in result.seconds.items():
        child = tracer.start_span(f"wye.{stage}", context, start_time=moment)
        moment += round(seconds * 1e9)
        child.end(moment)
    span.end(end)


def _exporter(kind: Literal["otlp", "console"]) -> "SpanExporter":
    if kind == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415

        return ConsoleSpanExporter(out=sys.stderr)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
    except ImportError:
        raise ServiceError(
            "WYE_SERVE__TRACES is otlp, but its exporter is not installed; "
            f"{how_to_install('otlp')}."
        ) from None
    exporter: SpanExporter = OTLPSpanExporter()
    return exporter
