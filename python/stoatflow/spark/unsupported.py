"""Methods and arguments of an application that have no meaning on Spark, why, and what to do instead.

Takes the name of a method or an argument, returns a `ConfigError`. Owns the table from which docs/reference/spark.md is
written.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoatflow.errors import ConfigError

_QUERIES = "read a store as a DataFrame, app.spark.store(name): stores are in Spark's tasks"
_METRICS = "look at Spark's own interface, and app.spark.progress(): Spark counts what is read"

METHODS: dict[str, str] = {
    "store()": _QUERIES,
    "snapshot(), sql()": _QUERIES,
    "to_arrow(), arrow_batches()": _QUERIES,
    "metrics()": _METRICS,
    "lag()": _METRICS,
    "thread_activity()": _METRICS,
    "parked()": "leave it out: nothing is parked, as offload is refused on Spark",
    "pause()": "close it: the next run of a stream goes on from the checkpoint",
    "resume()": "start another run: a stream goes on from the checkpoint",
    "clean_up()": "name another checkpoint to begin again: state is there",
    "set_uncaught_exception_handler()": "start another run after an error: it goes on from the checkpoint",
}
"""By method of `StoatFlow`."""

ARGUMENTS: dict[str, str] = {
    "broker=": "close it, and set bootstrap.servers to embedded:PATH for a batch: Spark's workers are other processes",
    "on_restore=": "leave it out: a task restores its stores when its first record comes, in a worker",
    "on_processing_error=": "say it at the operator: on_error=",
    "on_deserialization_error=": "say it at the source: on_error=",
    "on_production_error=": "say it at the sink: on_error=",
}
"""By argument of `StoatFlow`."""

OF_ENGINE = {
    "store_kind": "store()",
    "snapshot": "snapshot(), sql()",
    "store_batches": "to_arrow(), arrow_batches()",
    "metrics_json": "metrics()",
    "lag": "lag()",
    "activity_json": "thread_activity()",
    "parked": "parked()",
    "pause": "pause()",
    "resume": "resume()",
    "clean_up": "clean_up()",
}
"""By engine method that `StoatFlow` calls: the methods of `StoatFlow` that call it."""


def refusal(method: str) -> ConfigError:
    """Return the error about a method of `StoatFlow`."""
    return ConfigError(f"{method}: refused on Spark", next_step=METHODS[method])


def refuse_arguments(given: Mapping[str, object]) -> None:
    """Raise `ConfigError` if one of these arguments is given."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise ConfigError(f"{wrong[0]}: refused on Spark", next_step=ARGUMENTS[wrong[0]])
