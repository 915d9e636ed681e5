"""Options of an application on Spark, besides its settings: `StoatFlow(..., engine="spark", spark=SparkOptions(...))`.

Holds plain values. Never imports PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """How an application runs on Spark; all options have defaults, except the checkpoint of a stream.

    >>> from stoatflow.spark import SparkOptions
    >>> options = SparkOptions(checkpoint="checkpoints", every="5s")
    >>> options.trigger, options.until_end
    ('5000 milliseconds', False)
    """

    session: SparkSession | None = None
    """Your session, which stays open; by default a local session is started, and stopped with the application."""
    inputs: Mapping[str, DataFrame | str | Path] = field(default_factory=dict)
    """Read these topics from DataFrames instead; with `batch=True` also from Parquet files (their path)."""
    output: str | Path | Callable[[DataFrame, int], None] | None = None
    """A folder for Parquet files. For a stream also a function (records, trigger); by default, the topics."""
    checkpoint: str | Path | None = None
    """For a stream: the folder of its state and offsets, which all workers can write to."""
    every: Duration | None = None
    """For a stream: the interval of triggers; by default, a trigger begins as soon as the last one is done."""
    until_end: bool = False
    """For a stream: stop at the current ends of the inputs."""
    at_most: int = 200_000
    """For a stream: most records of a trigger, from Kafka."""
    tasks: int | None = None
    """Number of tasks of parts that are partitioned by key."""
    partitions: Mapping[str, int] | None = None
    """Number of partitions of topics that are DataFrames."""
    removed: bool = False
    """Accept that retention has removed records of the input."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Properties of Kafka's client; settings `security.`, `ssl.` and `sasl.` are passed on without it."""
    cores: int = 2
    """Cores of a session that is started."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings, for a session that is started."""
    say: Callable[[str], object] | None = None
    """Called with progress messages; the default is the log."""

    def check(self, *, batch: bool) -> None:
        """Raise `ConfigError` for options that exclude each other.

        >>> from stoatflow.spark import SparkOptions
        >>> SparkOptions(checkpoint="checkpoints").check(batch=False)
        >>> try:
        ...     SparkOptions(every="5s").check(batch=True)
        ... except sf.ConfigError as error:
        ...     print(error)
        every is of a stream. Next: leave it out, or leave out batch=True
        """
        if batch:
            self._refuse(
                {"checkpoint": self.checkpoint, "every": self.every, "until_end": self.until_end},
                "is of a stream",
                "leave it out, or leave out batch=True",
            )
            if callable(self.output):
                raise ConfigError(
                    "SparkOptions(output=) is a function, which a batch doesn't call",
                    next_step="name a folder, or take DataFrames: app.spark.output(topic)",
                )
            return
        if self.checkpoint is None:
            raise ConfigError(
                "a stream on Spark needs a folder for its state and its offsets",
                next_step="give SparkOptions(checkpoint=...), or run a batch: batch=True",
            )
        files = {topic: where for topic, where in self.inputs.items() if isinstance(where, str | Path)}
        self._refuse(files, "is a file, which a stream doesn't follow", "give a DataFrame of spark.readStream")

    @property
    def trigger(self) -> str:
        """The trigger's interval in Spark's format.

        >>> from stoatflow.spark import SparkOptions
        >>> SparkOptions(every="5s").trigger
        '5000 milliseconds'
        """
        return "0 seconds" if self.every is None else f"{duration_ms(self.every)} milliseconds"

    @property
    def folder(self) -> Path | None:
        """The folder of the output files.

        >>> from stoatflow.spark import SparkOptions
        >>> SparkOptions(output="/tmp/results").folder.name
        'results'
        """
        return Path(self.output) if isinstance(self.output, str | Path) else None

    @staticmethod
    def _refuse(given: Mapping[str, object], why: str, next_step: str) -> None:
        wrong = [name for name, value in given.items() if value]
        if wrong:
            raise ConfigError(f"{wrong[0]} {why}", next_step=next_step)
