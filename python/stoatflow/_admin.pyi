"""Metrics and additions to the admin port: types of a part of `_native`, not a module of its own. Never import it."""

from typing import final

from stoatflow._runtime.bridge import Engine

__all__ = ["AdminCall", "AdminHooks", "Counter", "Gauge", "Histogram", "HistogramTimer", "MetricRegistry"]

@final
class Counter:
    """A metric that only grows."""

    def labels(self, *values: object, **named: object) -> Counter:
        """Return the series of these label values, given by position or by name."""
    def inc(self, amount: float = 1.0) -> None:
        """Add to it; raise `ValueError` for a negative amount."""
    @property
    def value(self) -> float:
        """Its value."""
    @property
    def name(self) -> str:
        """Its name, without `_total`."""

@final
class Gauge:
    """A metric that may rise and fall."""

    def labels(self, *values: object, **named: object) -> Gauge:
        """Return the series of these label values, given by position or by name."""
    def set(self, value: float) -> None:
        """Set it."""
    def inc(self, amount: float = 1.0) -> None:
        """Add to it."""
    def dec(self, amount: float = 1.0) -> None:
        """Subtract from it."""
    def clear(self) -> None:
        """Remove its value: it isn't shown until it is set again."""
    @property
    def value(self) -> float:
        """Its value; 0 before it is set."""
    @property
    def name(self) -> str:
        """Its name."""

@final
class Histogram:
    """Observations, counted in buckets."""

    def labels(self, *values: object, **named: object) -> Histogram:
        """Return the series of these label values, given by position or by name."""
    def observe(self, value: float) -> None:
        """Count an observation."""
    def time(self) -> HistogramTimer:
        """Return a context manager that observes how many seconds its block takes, also if it raises."""
    @property
    def count(self) -> int:
        """Number of observations."""
    @property
    def sum(self) -> float:
        """Sum of all observations."""
    @property
    def name(self) -> str:
        """Its name."""

@final
class HistogramTimer:
    """Measures a `with` block for a histogram."""

    def __enter__(self) -> HistogramTimer: ...
    def __exit__(self, *_error: object) -> None: ...

@final
class MetricRegistry:
    """The metrics of a topology. The same definition again returns the same metric; others raise `ConfigError`."""

    def __new__(cls) -> MetricRegistry: ...
    def counter(self, name: str, help: str, labels: list[str], max_series: int) -> Counter: ...  # noqa: A002
    def gauge(self, name: str, help: str, labels: list[str], max_series: int) -> Gauge: ...  # noqa: A002
    def histogram(
        self,
        name: str,
        help: str,  # noqa: A002
        labels: list[str],
        buckets: list[float],
        max_series: int,
    ) -> Histogram: ...

@final
class AdminCall:
    """A request for an endpoint. The client gets 503 if it is dropped without an answer."""

    @property
    def endpoint(self) -> int:
        """The number of the endpoint."""
    @property
    def method(self) -> str:
        """The method."""
    @property
    def path(self) -> str:
        """The path, as it was sent."""
    @property
    def parameters(self) -> dict[str, str]:
        """The parameters in the path, decoded."""
    @property
    def query(self) -> str:
        """What follows the question mark, as it was sent."""
    @property
    def headers(self) -> list[tuple[str, str]]:
        """Headers with lower-case names, without credentials."""
    @property
    def body(self) -> bytes:
        """The body."""
    def answer(self, status: int, content_type: str, body: bytes) -> None:
        """Send an answer; only the first one counts, and none after the endpoint's timeout."""

@final
class AdminHooks:
    """What an application adds to its admin port. Numbers of checks and endpoints count from 0."""

    def __new__(cls, engine: Engine) -> AdminHooks: ...
    def add_health_check(self, name: str, interval_s: float, timeout_s: float, required: bool) -> int:
        """Add a health check; raise `ConfigError` for an invalid or known name."""
    def begin_health_check(self, number: int) -> None:
        """A call of a health check begins."""
    def end_health_check(self, number: int, passed: bool, detail: str | None = None) -> None:
        """A call of a health check has returned."""
    def add_endpoint(self, method: str, path: str, summary: str, timeout_s: float) -> int:
        """Add an endpoint below `/app`; raise `ConfigError` for an invalid or known path."""
    def next_call(self, within_s: float) -> AdminCall | None:
        """Wait for the next request; `None` if none arrives in time."""
