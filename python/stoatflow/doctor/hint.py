"""Logs, once per run and function, what the function has cost, and the expression that could replace it.

Takes metrics of the engine, writes log lines. Owns one thread that sleeps, reads counters now and then, and ends when
no hint is left. The source of a function is read only when its hint is due.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

from stoatflow._dsl.wrapped import names_by_function

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import Engine
    from stoatflow.topology import Topology

_OFTEN = 10_000
"""Calls before a hint is logged: fewer are not worth a line."""
_EVERY_S = 5.0
_PATIENCE_S = 2.0
_log = logging.getLogger("stoatflow")


class Hints:
    """The hints of one run."""

    def __init__(self, topology: Topology, engine: Engine) -> None:
        """Start nothing yet."""
        self._topology = topology
        self._engine = engine
        self._open: dict[tuple[str, str], tuple[int, str]] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stoatflow-hints", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if not all(map(self._is_awaited, self._topology.encoded.functions)):
            self._thread.start()

    def end(self) -> None:
        """Look once more, then stop; returns at once."""
        self._ended.set()

    def wait(self) -> None:
        """Wait a short time for the last look, if the thread was started."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE_S)

    def _watch(self) -> None:
        try:
            while not self._ended.wait(_EVERY_S) and self.look():
                pass
            self.look()
        except Exception:  # a hint must never stop an application
            _log.debug("there are no more hints about functions", exc_info=True)

    def look(self) -> bool:
        """Log the hints that are due; return whether more may follow."""
        uses = self._uses()
        for spent in json.loads(self._engine.metrics_json())["functions"]:
            use = spent["node"], spent["function"]
            if use in uses and spent["calls"] >= _OFTEN:
                self._log_hint(spent, *uses.pop(use))
        return bool(uses)

    def _uses(self) -> dict[tuple[str, str], tuple[int, str]]:
        """Functions without a hint so far, by node and name, as in the metrics."""
        if self._open is None:
            encoded, physical = self._topology.encoded, json.loads(self._topology.plan.physical_json)
            names = names_by_function(physical)
            functions = zip(encoded.functions, encoded.function_names, encoded.function_uses, strict=True)
            self._open = {
                (names[("udf", number)], name): use
                for number, (call, name, use) in enumerate(functions)
                if ("udf", number) in names and not self._is_awaited(call)
            }
        return self._open

    def _is_awaited(self, call: object) -> bool:
        if self._topology.event_loop is None:
            return False
        from stoatflow._runtime.event_loop import Caller

        return isinstance(call, Caller)

    def _log_hint(self, spent: dict[str, Any], at: int, field: str) -> None:
        from stoatflow.doctor.kinds import sides
        from stoatflow.doctor.suggestion import suggest

        plan = self._topology.nodes
        suggestion = suggest(plan, sides(plan), at, field)
        if suggestion is None:
            return
        wait = spent["wait_seconds"] / spent["calls"] * 1e6
        cost = spent["seconds"] / spent["calls"] * 1e6 + wait
        line = spent["function"].partition(" ")[0]
        self._engine.hint(
            spent["node"],
            spent["function"],
            f"{line}: {plan[at].op} calls a function, {cost:.1f} µs per record, {wait:.1f} µs of them waiting for the "
            f"interpreter; as an expression it needs no interpreter: {suggestion.text} "
            "(`stoatflow doctor` says where the two differ: docs/guide/doctor.md)",
        )
