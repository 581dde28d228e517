"""OpenTelemetry spans: one for each request (FastAPI's own), one for each of its stages."""

import sys
from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING, Literal

from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, NoOpTracerProvider, Span, Tracer

from service.errors import ServiceError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

NAME = "wye"


def provider(kind: Literal["off", "otlp", "console"]) -> trace.TracerProvider:
    """What makes spans and sends them off; without any, spans cost nothing.

    Raises:
        ServiceError: The exporter is not installed.
    """
    if kind == "off":
        return NoOpTracerProvider()
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - most servers need none of it
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    made = TracerProvider(resource=Resource.create({"service.name": NAME}))
    made.add_span_processor(BatchSpanProcessor(_exporter(kind)))
    return made


def record_retrieval(
    tracer: Tracer,
    seconds: Mapping[str, float],
    total: float,
    attributes: Mapping[str, str | float],
) -> None:
    """Record a retrieval that has just ended, as a child of the current span.

    Its stages stand one after another. They are a question's shares of its batch's time, so they
    fill the span only for a question that was alone. `total` are seconds from queueing to the end.
    """
    if isinstance(tracer, NoOpTracer):
        return
    end = time_ns()
    start = end - round(total * 1e9)
    span: Span = tracer.start_span("wye.retrieve", start_time=start, attributes=dict(attributes))
    context = trace.set_span_in_context(span)
    at = start
    for stage, spent in seconds.items():
        child = tracer.start_span(f"wye.{stage}", context, start_time=at)
        at += round(spent * 1e9)
        child.end(at)
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
            "install Wye with the extra otlp."
        ) from None
    exporter: SpanExporter = OTLPSpanExporter()
    return exporter
