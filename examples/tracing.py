"""Traces through the application: an OpenTelemetry span for each call, with the record's trace as its parent.

Headers are passed on with records, so results have the `traceparent` of their input; this adds a span in between. Needs
stoatflow[opentelemetry] and opentelemetry-sdk. `python examples/tracing.py` runs it in the test driver, and prints what
an exporter would get.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import stoatflow as sf
from stoatflow import FixedKeyRecord
from stoatflow.opentelemetry import record_span, with_context
from stoatflow.testing import TopologyTestDriver


class Priced(sf.ContextualFixedKeyProcessor[str, int, int]):
    """Adds the tax, within a span."""

    def process(self, record: FixedKeyRecord[str, int]) -> None:
        """Process one record: its headers name the parent span, those of the result name this span."""
        with record_span("price order", record, self.context):
            price = (record.value or 0) * 125 // 100
            self.context.forward(with_context(record.replace(value=price)))


def build() -> sf.Topology:
    """Orders in, priced orders out."""
    builder = sf.StreamsBuilder()
    builder.stream("orders", key=str, value=int).process_values(Priced).to("priced", key=str, value=int)
    return builder.build()


topology = build()


def main() -> None:
    """One order of a trace that began elsewhere."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with TopologyTestDriver(topology) as driver:
        driver.input("orders", str, int).pipe("o1", 100, headers=[("traceparent", parent.encode())])
        priced = driver.output("priced", str, int).read()
    (span,) = spans.get_finished_spans()
    assert span.parent is not None
    assert span.context is not None
    print(f"{span.name}: trace {span.context.trace_id:032x}, parent {span.parent.span_id:016x}")
    goes_on = (
        dict(priced.headers)["traceparent"]
        == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01".encode()
    )
    print(f"{priced.key} {priced.value}, the trace goes on: {goes_on}")


if __name__ == "__main__":
    main()
