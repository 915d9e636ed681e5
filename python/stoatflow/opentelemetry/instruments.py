"""The metrics of `/metrics` as observable instruments.

Takes a meter; asks the admin port at each collection. A histogram becomes two counters, its count and its sum:
instruments can't take buckets that are filled already.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Observation

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from stoatflow.opentelemetry.exposition import Family
    from stoatflow.opentelemetry.port import OwnPort

_FRESH_S = 0.5
"""Instruments of one collection share one answer."""
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}


class MetricInstruments:
    """One instrument for each family, made when it first occurs."""

    def __init__(self, meter: Meter, port: OwnPort) -> None:
        """Take the meter; make nothing yet."""
        self._meter = meter
        self._port = port
        self._lock = threading.Lock()
        self._families: dict[str, Family] = {}
        self._read_at = float("-inf")
        self._made: set[str] = set()
        self._closed = False

    def register(self) -> None:
        """Make the instruments of new families."""
        for family in list(self._current().values()):
            if family.name not in self._made:
                self._made.add(family.name)
                self._make(family)

    def close(self) -> None:
        """Give what was read last from now on."""
        with self._lock:
            self._closed = True

    def _make(self, family: Family) -> None:
        unit = _UNITS.get(family.unit or family.name.rpartition("_")[2], family.unit)
        if family.kind == "counter":
            self._counter(family.name, unit, family, "_total")
        elif family.kind == "histogram":
            self._counter(f"{family.name}_sum", unit, family, "_sum")
            self._counter(f"{family.name}_count", "", family, "_count")
        else:
            suffix = "_info" if family.kind == "info" else ""
            observe = self._observer(family.name, suffix)
            self._meter.create_observable_gauge(family.name + suffix, [observe], unit, family.help)

    def _counter(self, name: str, unit: str, family: Family, suffix: str) -> None:
        observe = self._observer(family.name, suffix)
        self._meter.create_observable_counter(name, [observe], unit, family.help)

    def _observer(self, name: str, suffix: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            family = self._current().get(name)
            for sample in () if family is None else family.samples:
                if sample.suffix == suffix:
                    yield Observation(sample.value, sample.labels)

        return observe

    def _current(self) -> dict[str, Family]:
        with self._lock:
            if not self._closed and time.monotonic() - self._read_at > _FRESH_S:
                families = self._port.families()
                if families is not None:
                    self._families = {family.name: family for family in families}
                self._read_at = time.monotonic()
            return self._families
