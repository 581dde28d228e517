import sys
from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from tests.service.fakes import Library
from wye.service import app
from wye.service.errors import ServiceError
from wye.service.http.tracing import provider

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_retrieval_and_its_stages_are_spans_of_their_request(
    serve: Callable[..., TestClient], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(app, "provider", lambda _: made)
    client = serve(library)
    exporter.clear()
    client.post(
        "/v1/retrieve",
        json={"question": "What river is it?"},
        headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
    )
    spans = {span.name: span for span in exporter.get_finished_spans()}
    request, retrieval = spans["POST /v1/retrieve"], spans["wye.retrieve"]
    assert request.context is not None
    assert f"{request.context.trace_id:032x}" == TRACE
    assert retrieval.parent is not None
    assert retrieval.parent.span_id == request.context.span_id
    assert retrieval.attributes is not None
    assert retrieval.attributes["wye.route"] == "dense"
    assert retrieval.attributes["wye.score"] == 0.4
    assert {"wye.queue", "wye.parsing", "wye.dense", "wye.fetching"} <= {*spans}
    assert "What river is it?" not in str([span.to_json() for span in spans.values()])


def test_without_an_exporter_there_are_no_spans() -> None:
    assert provider("off") is None


def test_an_exporter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ServiceError, match=r"pip install -e '\.\[otlp\]'"):
        provider("otlp")


def test_the_exporter_writes_to_standard_error_when_asked() -> None:
    made = provider("console")
    assert isinstance(made, TracerProvider)
    made.shutdown()
