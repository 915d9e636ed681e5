"""Metrics of the user's code: counters, gauges and histograms, which `/metrics` shows beside the engine's.

Takes definitions and changes from functions and processors. Values live in the engine, so a scrape calls no Python.
Gauges with a function are the exception: a thread of the running application calls their functions at intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stoatflow._runtime.bridge import Counter, Gauge, Histogram, MetricRegistry
from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import ConfigError

__all__ = ["Counter", "Gauge", "Histogram", "Metrics"]

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of durations in seconds, as in `prometheus_client`."""
SERIES = 1_000
"""Series of a metric, unless `max_series` says otherwise."""


@dataclass(frozen=True, slots=True)
class GaugeFunction:
    """A gauge and the function that returns its value."""

    gauge: Gauge
    function: Callable[[], float]
    interval_s: float


class Metrics:
    """The metrics of a topology: `builder.metrics`, `topology.metrics`, and `context.metrics` in a processor.

    Names are shown as they are given, with the label `application_id`; a counter's samples end in `_total`. Defining a
    metric again returns the same one. A name that clashes with another metric is refused with a `ConfigError`.

    >>> builder = sf.StreamsBuilder()
    >>> rejected = builder.metrics.counter("orders_rejected", "Orders without a price", labels=["shop"])
    >>> orders = builder.stream("orders", key=str, value=dict)
    >>> orders.foreach(lambda key, order: rejected.labels(shop=order["shop"]).inc())
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, dict).pipe("1", {"shop": "north"})
    ...     print(driver.metrics()["custom"])
    [{'name': 'orders_rejected', 'type': 'counter', 'labels': {'shop': 'north'}, 'value': 1.0}]
    """

    def __init__(self) -> None:
        """Start without metrics."""
        self.registry: MetricRegistry = MetricRegistry()
        self._functions: list[GaugeFunction] = []

    def counter(self, name: str, help: str, labels: Iterable[str] = (), *, max_series: int = SERIES) -> Counter:  # noqa: A002
        """Define a counter: a number that only grows, such as of records rejected.

        A metric with labels has a series for each combination of their values. Beyond `max_series`, further
        combinations are counted together, with `_other` as the value of every label.

        >>> metrics = sf.Metrics()
        >>> orders = metrics.counter("orders", "Orders read")
        >>> orders.inc()
        >>> orders.inc(2)
        >>> orders.value
        3.0
        """
        return self.registry.counter(name, help, _labels(name, labels), max_series)

    def gauge(
        self,
        name: str,
        help: str,  # noqa: A002
        labels: Iterable[str] = (),
        *,
        function: Callable[[], float] | None = None,
        every: Duration = "10s",
        max_series: int = SERIES,
    ) -> Gauge:
        """Define a gauge: a number that rises and falls, such as the length of a queue.

        `function()` returns its value: it is called every so often while an application runs, on a thread that all such
        functions share. If it raises, the gauge has no value until the next call.

        >>> metrics = sf.Metrics()
        >>> waiting = metrics.gauge("requests_waiting", "Requests that wait for an answer")
        >>> waiting.inc()
        >>> waiting.set(7)
        >>> waiting.value
        7.0
        """
        gauge = self.registry.gauge(name, help, _labels(name, labels), max_series)
        if function is not None:
            if not callable(function):
                raise ConfigError(
                    f"the function of the gauge '{name}' is {function!r}", next_step="pass a function without arguments"
                )
            if tuple(labels):
                raise ConfigError(
                    f"the gauge '{name}' has labels and a function",
                    next_step="set the gauge for each label value instead, or define a gauge for each function",
                )
            seconds = duration_ms(every) / 1000
            if seconds <= 0:
                raise ConfigError(f"every={every!r} is no interval", next_step='write for example every="10s"')
            self._functions = [one for one in self._functions if one.gauge.name != name]
            self._functions.append(GaugeFunction(gauge, function, seconds))
        return gauge

    def histogram(
        self,
        name: str,
        help: str,  # noqa: A002
        labels: Iterable[str] = (),
        *,
        buckets: Sequence[float] = BUCKETS,
        max_series: int = SERIES,
    ) -> Histogram:
        """Define a histogram: counts of observations by size, such as durations in seconds.

        `buckets` are upper bounds in ascending order; a bucket without a bound is added.

        >>> metrics = sf.Metrics()
        >>> waits = metrics.histogram("lookup_seconds", "Time of a lookup")
        >>> waits.observe(0.2)
        >>> with waits.time():
        ...     pass
        >>> waits.count
        2
        """
        bounds = [float(bound) for bound in buckets]
        if bounds and bounds[-1] == float("inf"):
            bounds.pop()
        return self.registry.histogram(name, help, _labels(name, labels), bounds, max_series)

    @property
    def functions(self) -> tuple[GaugeFunction, ...]:
        """The gauges with a function.

        >>> metrics = sf.Metrics()
        >>> _ = metrics.gauge("cache_entries", "Entries of the cache", function=lambda: 3)
        >>> [one.gauge.name for one in metrics.functions]
        ['cache_entries']
        """
        return tuple(self._functions)


_rebuilt = MetricRegistry()
"""Metrics of functions that another process has sent here, as Spark does; no port shows them."""


def rebuilt(
    kind: str,
    name: str,
    help: str,  # noqa: A002
    labels: list[str],
    buckets: list[float],
    max_series: int,
    values: list[str] | None,
) -> Counter | Gauge | Histogram:
    """Return the metric that was pickled, with its label values, if it had any."""
    made: Counter | Gauge | Histogram
    if kind == "counter":
        made = _rebuilt.counter(name, help, labels, max_series)
    elif kind == "gauge":
        made = _rebuilt.gauge(name, help, labels, max_series)
    else:
        made = _rebuilt.histogram(name, help, labels, buckets, max_series)
    return made.labels(*values) if values else made


def _labels(name: str, labels: Iterable[str]) -> list[str]:
    if isinstance(labels, str):
        raise ConfigError(
            f"the labels of the metric '{name}' are the text {labels!r}", next_step=f"write labels=[{labels!r}]"
        )
    return list(labels)
