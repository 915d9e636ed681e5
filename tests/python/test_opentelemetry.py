"""What OpenTelemetry gets of an application: its metrics, its commits, and the traces of its records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import stoatflow as sf
from certificates import Authority
from stoatflow.opentelemetry import context_of, instrument, links_to, record_span, with_context
from stoatflow.opentelemetry.commits import CommitSpans
from stoatflow.opentelemetry.exposition import Sample, parse
from stoatflow.testing import TopologyTestDriver

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TOKEN = "a-token-of-some-length"  # noqa: S105  # made up


def counting() -> sf.Topology:
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    lines.group_by_key().count(store="counts").to_stream().to("counts", key=str, value=int)
    return builder.build()


@pytest.fixture
def broker() -> Iterator[sf.EmbeddedBroker]:
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("lines", 2)
        broker.create_topic("counts")
        broker.produce_many("lines", [(None, f"k{n % 7}".encode(), b"v", n) for n in range(100)])
        yield broker


def traced() -> tuple[TracerProvider, InMemorySpanExporter]:
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider, spans


def points(reader: InMemoryMetricReader) -> dict[str, dict[frozenset[tuple[str, Any]], float]]:
    """Of each instrument, the value for each set of labels."""
    data = reader.get_metrics_data()
    found: dict[str, dict[frozenset[tuple[str, Any]], float]] = {}
    for resource in [] if data is None else data.resource_metrics:
        for scope in resource.scope_metrics:
            assert (scope.scope.name, scope.scope.version) == ("stoatflow", sf.__version__)
            for metric in scope.metrics:
                values: Any = metric.data.data_points
                found[metric.name] = {frozenset((p.attributes or {}).items()): p.value for p in values}
    return found


def with_label(values: dict[frozenset[tuple[str, Any]], float], *label: str) -> float:
    (found,) = (value for labels, value in values.items() if tuple(label) in labels)
    return found


# Metrics -----------------------------------------------------------------------------------------


def test_the_parser_accepts_all_of_openmetrics() -> None:
    lines = [
        "# HELP rows How many\\nrows",
        "# TYPE rows counter",
        'rows_total{store="a\\"b\\\\n,{}",lane="0"} 7 # {trace_id="1"} 1.0',
        "rows_total 1e3 1700000000.5",
        "# HELP took_seconds Time",
        "# TYPE took_seconds histogram",
        "# UNIT took_seconds seconds",
        'took_seconds_bucket{le="+Inf"} 2',
        "took_seconds_sum 0.5",
        "# TYPE empty gauge",
        "# EOF",
    ]
    rows, took, empty = parse("\n".join(lines))
    assert (rows.name, rows.kind, rows.help) == ("rows", "counter", "How many\nrows")
    assert rows.samples == [
        Sample("_total", {"store": 'a"b\\n,{}', "lane": "0"}, 7.0),
        Sample("_total", {}, 1000.0),
    ]
    assert (took.kind, took.unit) == ("histogram", "seconds")
    assert took.samples == [Sample("_bucket", {"le": "+Inf"}, 2.0), Sample("_sum", {}, 0.5)]
    assert (empty.kind, empty.samples) == ("gauge", [])


def test_every_metric_is_an_instrument(broker: sf.EmbeddedBroker) -> None:
    reader = InMemoryMetricReader()
    app = sf.StoatFlow(counting(), {"application.id": "told"}, broker=broker)
    with app:
        with instrument(app, meter_provider=MeterProvider([reader])) as reported:
            app.wait_until(caught_up=True)
        # Nothing more is read, so that the two can be compared.
        families = reported._port.families()
        assert families is not None
        found = points(reader)
    expected = set()
    for family in families:
        ends = {"counter": [""], "histogram": ["_sum", "_count"], "info": ["_info"]}.get(family.kind, [""])
        expected |= {family.name + end for end in ends if family.samples}
    assert expected == set(found)
    assert len(expected) > 60
    assert with_label(found["stoatflow_records_in"], "application_id", "told") == 100
    assert with_label(found["stoatflow_state"], "state", "RUNNING") == 1
    assert with_label(found["stoatflow_commit_duration_seconds_count"], "application_id", "told") >= 1
    # They stay what they were when the application has stopped.
    assert points(reader) == found


def test_an_application_reports_nothing_before_start_and_after_close(broker: sf.EmbeddedBroker) -> None:
    reader = InMemoryMetricReader()
    app = sf.StoatFlow(counting(), {"application.id": "told"}, broker=broker)
    reported = instrument(app, meter_provider=MeterProvider([reader]), interval="10ms")
    assert points(reader) == {}
    with app:
        app.wait_until(caught_up=True)
    reported.close()
    assert not reported._thread.is_alive()
    reported.close()


# Commits -----------------------------------------------------------------------------------------


def test_each_commit_is_a_span_with_its_steps(broker: sf.EmbeddedBroker) -> None:
    provider, spans = traced()
    app = sf.StoatFlow(counting(), {"application.id": "told"}, broker=broker)
    with app, instrument(app, tracer_provider=provider, interval="20ms"):
        app.wait_until(caught_up=True)
        broker.produce("lines", "k1", "v")
        app.wait_until(caught_up=True)
    every = spans.get_finished_spans()
    commits = [span for span in every if span.name == "stoatflow commit"]
    assert len(commits) >= 2
    assert sum(int(str((span.attributes or {})["stoatflow.records"])) for span in commits) == 101
    assert {(span.attributes or {})["stoatflow.application_id"] for span in commits} == {"told"}
    epochs = [(span.attributes or {})["stoatflow.epoch"] for span in commits]
    assert sorted(set(epochs), key=int) == epochs, "each once, in order"
    for commit in commits:
        assert commit.parent is None
        steps = [span for span in every if span.parent is not None and span.parent == commit.context]
        assert [step.name for step in steps] == ["align", "flush", "offsets", "end transaction", "apply"]
        assert (steps[0].start_time, steps[-1].end_time) == (commit.start_time, commit.end_time)
        for before, after in pairwise(steps):
            assert before.end_time == after.start_time


def test_a_commit_that_failed_is_a_span_with_an_error_once() -> None:
    provider, spans = traced()
    commits = CommitSpans(provider.get_tracer("test"), "told")
    failed = {"epoch": 7, "step": "flush", "error": "the broker is away", "at_ms": 1000, "records": 3}
    for _ in range(2):
        commits.record({"recent": [], "failed": failed})
    (span,) = spans.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "the broker is away")
    assert (span.attributes or {})["stoatflow.step"] == "flush"


def test_an_instrumentation_error_is_logged_once_and_the_application_continues(
    broker: sf.EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *_args: Any, **_named: Any) -> Any:
            return None

    app = sf.StoatFlow(counting(), {"application.id": "told"}, broker=broker)
    reported = instrument(app, tracer_provider=Broken(), interval="10ms")
    with caplog.at_level(logging.ERROR, "stoatflow.opentelemetry"), app, reported:
        app.wait_until(caught_up=True)
        broker.produce("lines", "k1", "v")
        app.wait_until(caught_up=True)
    assert app.state is sf.State.STOPPED
    assert [record.getMessage() for record in caplog.records] == [
        "the application can't be reported to OpenTelemetry; it goes on without"
    ]


# The way into the admin port ---------------------------------------------------------------------


def test_a_token_grants_access(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    for given in (TOKEN, f"file:{tmp_path / 'token'}"):
        provider, spans = traced()
        app = sf.StoatFlow(counting(), {"application.id": "told", "admin.token": given}, broker=broker)
        with app, instrument(app, tracer_provider=provider):
            app.wait_until(caught_up=True)
            broker.produce("lines", "k1", "v")
            app.wait_until(caught_up=True)
        assert any(span.name == "stoatflow commit" for span in spans.get_finished_spans())


def test_its_own_certificate_is_trusted(broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    own = Authority(tmp_path)
    certificate, key = own.issue("server")
    tls = {"admin.ssl.certificate": certificate, "admin.ssl.key": key, "admin.ssl.ca": own.ca, "admin.token": TOKEN}
    provider, spans = traced()
    app = sf.StoatFlow(counting(), {"application.id": "told", **tls}, broker=broker)
    with app, instrument(app, tracer_provider=provider):
        app.wait_until(caught_up=True)
        assert str(app.admin_url).startswith("https://")
    assert any(span.name == "stoatflow commit" for span in spans.get_finished_spans())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"admin.listen": "off"}, "admin.listen is off"),
        ({"admin.ssl.certificate": "c.pem", "admin.ssl.key": "k.pem", "admin.ssl.ca": "ca.pem"}, "admin.token too"),
    ],
)
def test_refused_access_is_logged(broker: sf.EmbeddedBroker, setting: dict[str, str], message: str) -> None:
    app = sf.StoatFlow(counting(), {"application.id": "told", **setting}, broker=broker)
    with pytest.raises(sf.ConfigError, match=message):
        instrument(app)


# A collector -------------------------------------------------------------------------------------


@pytest.fixture
def collector() -> Iterator[tuple[str, dict[str, list[bytes]]]]:
    """The address of an OTLP receiver, and the bodies that came by path."""
    bodies: dict[str, list[bytes]] = {}

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.setdefault(self.path, []).append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        serving.join()


def test_otlp_exporters_send_metrics_and_spans(
    broker: sf.EmbeddedBroker, collector: tuple[str, dict[str, list[bytes]]]
) -> None:
    url, bodies = collector
    resource = Resource.create({"service.name": "shop"})
    exported = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics", compression=None))
    meters = MeterProvider([exported], resource)
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    app = sf.StoatFlow(counting(), {"application.id": "told"}, broker=broker)
    with app, instrument(app, meter_provider=meters, tracer_provider=tracers):
        app.wait_until(caught_up=True)
    meters.shutdown()
    tracers.shutdown()
    (metrics,) = ExportMetricsServiceRequest.FromString(bodies["/v1/metrics"][-1]).resource_metrics
    (scope,) = metrics.scope_metrics
    named = {metric.name: metric for metric in scope.metrics}
    records = named["stoatflow_records_in"]
    assert records.sum.is_monotonic
    assert [point.as_double or point.as_int for point in records.sum.data_points] == [100]
    assert named["stoatflow_state_memory_bytes"].unit == "By"
    spans = [
        span
        for body in bodies["/v1/traces"]
        for found in ExportTraceServiceRequest.FromString(body).resource_spans
        for scoped in found.scope_spans
        for span in scoped.spans
    ]
    assert {span.name for span in spans} >= {"stoatflow commit", "align", "apply"}


# Records -----------------------------------------------------------------------------------------


def through(processor: Any, headers: list[tuple[str, bytes]]) -> sf.Record[str, int]:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).process_values(processor).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, int).pipe("a", 100, headers=headers)
        out: Any = driver.output("out", str, int).read()
        return sf.Record(out.key, out.value, out.timestamp, tuple(out.headers))


def taxed(tracer: Any, fails: bool = False) -> Any:
    class Taxed(sf.ContextualFixedKeyProcessor[str, int, int]):
        def process(self, record: sf.FixedKeyRecord[str, int]) -> None:
            with record_span("add tax", record, self.context, tracer=tracer, attributes={"rate": 25}):
                if fails:
                    raise ValueError("no such rate")
                self.context.forward(with_context(record.replace(value=(record.value or 0) * 5 // 4)))

    return Taxed


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def test_a_span_continues_the_trace_of_a_record() -> None:
    provider, spans = traced()
    headers = [("kept", b"1"), ("Traceparent", b"damaged"), ("traceparent", PARENT.encode()), ("kept", b"2")]
    out = through(taxed(provider.get_tracer("shop")), headers)
    span = only(spans)
    assert span.parent is not None
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
    expected = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01".encode()
    assert list(out.headers) == [("kept", b"1"), ("kept", b"2"), ("traceparent", expected)]
    assert out.value == 125
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.destination.name": "in",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.kafka.message.key": "a",
        "rate": 25,
    }


def test_a_record_without_a_trace_begins_one() -> None:
    provider, spans = traced()
    out = through(taxed(provider.get_tracer("shop")), [])
    assert only(spans).parent is None
    assert [name for name, _ in out.headers] == ["traceparent"]


def test_an_exception_is_in_the_span_and_raised() -> None:
    provider, spans = traced()
    with pytest.raises(sf.ProcessingError, match="no such rate"):
        through(taxed(provider.get_tracer("shop"), fails=True), [])
    assert only(spans).status.status_code is StatusCode.ERROR
    assert only(spans).events[0].name == "exception"


def test_a_batch_links_to_the_traces_of_its_records() -> None:
    with_trace = sf.Record("a", 1, timestamp=0, headers={"traceparent": PARENT})
    damaged = sf.Record("b", 2, timestamp=0, headers=(("traceparent", b"\xff"), ("x", None)))
    links = links_to([with_trace, sf.Record("c", 3, timestamp=0), damaged])
    assert [f"{link.context.span_id:016x}" for link in links] == ["00f067aa0ba902b7"]
    assert context_of(damaged) == {}
