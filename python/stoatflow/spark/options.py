"""What an application is told on Spark beside its settings: `StoatFlow(..., engine="spark", spark=SparkOptions(...))`.

Takes and gives plain values. Never: imports PySpark.
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
    """How an application runs on Spark; everything has a default, but for the checkpoint of a stream.

    >>> from stoatflow.spark import SparkOptions
    >>> options = SparkOptions(checkpoint="checkpoints", every="5s")
    >>> options.trigger, options.until_end
    ('5000 milliseconds', False)
    """

    session: SparkSession | None = None
    """Yours, which stays open; without one a local session is started, and stopped with the application."""
    inputs: Mapping[str, DataFrame | str | Path] = field(default_factory=dict)
    """Read these topics from DataFrames instead, with `batch=True` also from Parquet files (their path)."""
    output: str | Path | Callable[[DataFrame, int], None] | None = None
    """A folder for Parquet files. As a stream also a function (records, trigger); without one, the topics."""
    checkpoint: str | Path | None = None
    """Of a stream: the folder where its state and its offsets are kept, which all workers can write to."""
    every: Duration | None = None
    """Of a stream: how often a trigger begins; without it, as soon as the last one is done."""
    until_end: bool = False
    """Of a stream: stop where the inputs end now."""
    at_most: int = 200_000
    """Of a stream: records of a trigger, from Kafka."""
    tasks: int | None = None
    """How many tasks share what is shared out by key."""
    partitions: Mapping[str, int] | None = None
    """How many partitions topics have that are DataFrames."""
    removed: bool = False
    """It is known that retention has removed records of the input."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Properties of Kafka's Java client; `security.`, `ssl.` and `sasl.` settings are taken over without it."""
    cores: int = 2
    """Of a session that is started."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, of a session that is started."""
    say: Callable[[str], object] | None = None
    """Is told how it goes on; the log, if it is left out."""

    def check(self, *, batch: bool) -> None:
        """Raise `ConfigError` for what doesn't go together.

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
        """When a trigger begins, as Spark writes it.

        >>> from stoatflow.spark import SparkOptions
        >>> SparkOptions(every="5s").trigger
        '5000 milliseconds'
        """
        return "0 seconds" if self.every is None else f"{duration_ms(self.every)} milliseconds"

    @property
    def folder(self) -> Path | None:
        """Where files are written.

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
