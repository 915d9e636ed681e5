"""Errors of load and reconcile; every message says what to do next.

A wrong result is no error: a reconciliation that finds faults succeeds, and reports them.
"""


class SparkUnavailableError(RuntimeError):
    """Spark cannot be started here; the message says what to install or change."""


class TopicError(RuntimeError):
    """A topic or its broker cannot be used as asked."""


class OpenTransactionError(TopicError):
    """A transaction is still open, so a committed reader would not see the end of the topic."""


class TwinError(RuntimeError):
    """A twin of a topology can't be computed as requested."""
