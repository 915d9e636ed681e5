"""The trace of a record: read from its headers, continued in a span, written into the headers of its results.

Headers are written by the global propagator: W3C's `traceparent` unless the program sets another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

from stoatflow._version import __version__
from stoatflow.record import FixedKeyRecord, Record

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

    from stoatflow.processor import ProcessorContext

_AnyRecord = TypeVar("_AnyRecord", bound="Record[Any, Any] | FixedKeyRecord[Any, Any]")


def context_of(record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> Context:
    """Return the trace context in the headers of a record; an empty one if they have none.

    >>> from stoatflow.opentelemetry import context_of
    >>> from opentelemetry import trace
    >>> parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    >>> record = sf.Record("a", 1, timestamp=0, headers={"traceparent": parent})
    >>> hex(trace.get_current_span(context_of(record)).get_span_context().span_id)
    '0xf067aa0ba902b7'
    """
    # Of a name that repeats the last one counts, as everywhere in Kafka.
    carrier = {name.lower(): value.decode("utf-8", "replace") for name, value in record.headers if value is not None}
    return propagate.extract(carrier)


def with_context(record: _AnyRecord, context: Context | None = None) -> _AnyRecord:
    """Return the record with a trace context (by default the current one) in its headers, in place of the one before.

    >>> from stoatflow.opentelemetry import with_context
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> with TracerProvider().get_tracer("shop").start_as_current_span("order"):
    ...     print([name for name, _ in with_context(sf.Record("a", 1, timestamp=0)).headers])
    ['traceparent']
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    propagated = set(propagate.get_global_textmap().fields)
    kept = [(name, value) for name, value in record.headers if name.lower() not in propagated]
    headers = (*kept, *((name, value.encode()) for name, value in carrier.items()))
    return cast("_AnyRecord", record.replace(headers=headers))


@contextmanager
def record_span(
    name: str,
    record: Record[Any, Any] | FixedKeyRecord[Any, Any],
    context: ProcessorContext[Any, Any] | None = None,
    *,
    tracer: Tracer | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[Span]:
    """Process a record within a span: a child of the trace in its headers, with its topic, partition and offset.

    Within it, `with_context` passes the trace on to results. An exception is recorded in the span, and raised.

    >>> from stoatflow.opentelemetry import record_span, with_context
    >>> class Taxed(sf.ContextualFixedKeyProcessor[str, int, int]):
    ...     def process(self, record: sf.FixedKeyRecord[str, int]) -> None:
    ...         with record_span("add tax", record, self.context):
    ...             self.context.forward(with_context(record.replace(value=125)))
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("net", key=str, value=int).process_values(Taxed).to("gross", key=str, value=int)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("net", str, int).pipe("a", 100)
    ...     print(driver.output("gross", str, int).read_value())
    125
    """
    known: dict[str, Any] = {"messaging.system": "kafka", "messaging.operation.type": "process"}
    metadata = None if context is None else context.record_metadata
    if metadata is not None:
        known["messaging.destination.name"] = metadata.topic
        known["messaging.destination.partition.id"] = str(metadata.partition)
        known["messaging.kafka.offset"] = metadata.offset
    if isinstance(record.key, str):
        known["messaging.kafka.message.key"] = record.key
    known.update(attributes or {})
    of = tracer or trace.get_tracer("stoatflow", __version__)
    with of.start_as_current_span(name, context_of(record), SpanKind.CONSUMER, attributes=known) as span:
        yield span


def links_to(records: Iterable[Record[Any, Any] | FixedKeyRecord[Any, Any]]) -> list[Link]:
    """Return links to the traces of several records, for the span of a batch of them; those without one have none.

    >>> from stoatflow.opentelemetry import links_to
    >>> parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    >>> batch = [sf.Record("a", 1, timestamp=0, headers={"traceparent": parent}), sf.Record("b", 2, timestamp=0)]
    >>> len(links_to(batch))
    1
    """
    contexts = (trace.get_current_span(context_of(record)).get_span_context() for record in records)
    return [trace.Link(context) for context in contexts if context.is_valid]
