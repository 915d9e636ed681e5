"""A span for each commit, with one for each of its steps.

Takes what `/debug/barriers` says, makes the spans of what is new in it, at the times at which the steps happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_STEPS = ("align", "flush", "offsets", "end transaction", "apply")


class CommitSpans:
    """Remembers which commits have a span."""

    def __init__(self, tracer: Tracer, application: str) -> None:
        """Take the tracer, and the application for an attribute."""
        self._tracer = tracer
        self._application = application
        self._last = (0, 0)
        self._failed: dict[str, Any] | None = None

    def record(self, barriers: dict[str, Any]) -> None:
        """Make the spans of what is new."""
        for commit in barriers["recent"]:
            # Epochs start again when the application does.
            at = (commit["at_ms"], commit["epoch"])
            if at > self._last:
                self._last = at
                self._span(commit)
        failed = barriers["failed"]
        if failed is not None and failed != self._failed:
            self._failed = failed
            self._failure(failed)

    def _span(self, commit: dict[str, Any]) -> None:
        other = commit["commit_us"] - commit["flush_us"] - commit["offsets_us"]
        took = (commit["align_us"], commit["flush_us"], commit["offsets_us"], max(other, 0), commit["apply_us"])
        end_ns = commit["at_ms"] * 1_000_000
        at_ns = end_ns - sum(took) * 1000
        attributes = {
            "stoatflow.application_id": self._application,
            "stoatflow.epoch": commit["epoch"],
            "stoatflow.records": commit["records"],
            "stoatflow.outputs": commit["outputs"],
        }
        # A root: a commit is of many records, each with a trace of its own.
        whole = self._tracer.start_span(
            "stoatflow commit", trace.set_span_in_context(trace.INVALID_SPAN), attributes=attributes, start_time=at_ns
        )
        within = trace.set_span_in_context(whole)
        for name, us in zip(_STEPS, took, strict=True):
            step = self._tracer.start_span(name, within, start_time=at_ns)
            at_ns += us * 1000
            step.end(at_ns)
        whole.end(end_ns)

    def _failure(self, failed: dict[str, Any]) -> None:
        attributes = {
            "stoatflow.application_id": self._application,
            "stoatflow.epoch": failed["epoch"],
            "stoatflow.records": failed["records"],
            "stoatflow.step": failed["step"],
        }
        at_ns = failed["at_ms"] * 1_000_000
        span = self._tracer.start_span(
            "stoatflow commit", trace.set_span_in_context(trace.INVALID_SPAN), attributes=attributes, start_time=at_ns
        )
        span.set_status(Status(StatusCode.ERROR, failed["error"]))
        span.end(at_ns)
