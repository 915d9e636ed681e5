"""Metrics and commit spans of one application.

Takes an application and OpenTelemetry's providers. Owns one thread, which reads the admin port of this process.
Never stops the application: what fails is logged once.
"""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from opentelemetry import metrics, trace

from stoatflow._version import __version__
from stoatflow.durations import Duration, timeout_s
from stoatflow.opentelemetry.commits import CommitSpans
from stoatflow.opentelemetry.instruments import MetricInstruments
from stoatflow.opentelemetry.port import own_port

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from stoatflow.app import StoatFlow

_NAME = "stoatflow"
_log = logging.getLogger("stoatflow.opentelemetry")


def instrument(
    app: StoatFlow,
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    interval: float | Duration = "1s",
) -> Instrumentation:
    """Report an application to OpenTelemetry: every metric of `/metrics` as an instrument, every commit as a span.

    Without providers the global ones are used. Commits are read every `interval`; those beyond the last 64 of an
    interval have no span. Needs the admin port (`admin.listen`), without client certificates.

    >>> from stoatflow.opentelemetry import instrument
    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
    ...     with app, instrument(app):
    ...         app.wait_until(caught_up=True)
    ...         print(app.state)
    RUNNING
    """
    return Instrumentation(
        app,
        meter_provider or metrics.get_meter_provider(),
        tracer_provider or trace.get_tracer_provider(),
        timeout_s(interval) or 1.0,
    )


class Instrumentation:
    """What `instrument` has started. It ends with `close`, or with the `with` block.

    >>> from stoatflow.opentelemetry import instrument
    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
    ...     with app, instrument(app) as reported:
    ...         print(type(reported).__name__)
    Instrumentation
    """

    def __init__(self, app: StoatFlow, meters: MeterProvider, tracers: TracerProvider, interval_s: float) -> None:
        """Start at once; what is read before the application runs is empty."""
        self._port = own_port(app)
        self._figures = MetricInstruments(meters.get_meter(_NAME, __version__), self._port)
        self._commits = CommitSpans(tracers.get_tracer(_NAME, __version__), str(app.settings.get("application.id")))
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="stoatflow-opentelemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read what came last, and end. Providers stay as they are: who made them flushes them.

        >>> from stoatflow.opentelemetry import instrument
        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         print(instrument(app).close())
        None
        """
        self._ended.set()
        self._thread.join()
        self._figures.close()

    def __enter__(self) -> Instrumentation:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._read()
        self._read()

    def _read(self) -> None:
        try:
            barriers = self._port.barriers()
            if barriers is None:
                return  # the application does not run
            self._commits.record(barriers)
            self._figures.register()
        except Exception:
            # Once: the next failure is most likely the same one.
            if not self._failed:
                _log.exception("the application can't be reported to OpenTelemetry; it goes on without")
            self._failed = True
