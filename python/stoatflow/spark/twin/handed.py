"""A checkpoint that began with state of an application, or was handed back to it.

Takes: a checkpoint. Gives: what was handed over, as a stream of `Routed` rows that the first trigger reads beside its
records; refusals for a checkpoint whose hand-over has not ended, or that was handed back.
Owns: two files and a folder beside Spark's own. Never: reads a topic.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoatflow.spark.errors import TwinError
from stoatflow.spark.twin import checkpoint
from stoatflow.spark.twin.routing import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE = "\0state"
"""Names rows that are no records, but chunks of what a task begins with."""

OVER, BACK, ROWS = "handed-over.json", "handed-back.json", "handed-over"

Offsets = dict[str, dict[str, int]]
"""By topic and partition, as Spark's source writes them."""


@dataclass(frozen=True)
class HandedOver:
    """What a checkpoint began with."""

    application: str
    address: str
    offsets: Offsets
    """Where the application stopped: of each partition the first record that it has not processed."""
    formats: dict[str, str]
    """What the application says of the rows of its changelogs."""
    id: str
    """Of this hand-over."""


def place(checkpoint: str | Path) -> str:
    """Return the folder of a checkpoint as it is named from anywhere."""
    folder = str(checkpoint)
    return folder if ":/" in folder else os.path.abspath(folder)


def begun(spark: SparkSession, folder: str) -> HandedOver | None:
    """Return what a checkpoint began with, if it did not begin with nothing.

    Raises:
        TwinError: a hand-over was begun there and has not ended, or the checkpoint was handed back.

    """
    back = checkpoint.read_json(spark, folder, BACK)
    if back is not None:
        raise TwinError(
            f"the checkpoint {folder} was handed back to the application '{back['application']}', which goes on from "
            "it: a second run would process the same records. Hand over again, into a new folder; if the hand-over "
            "back was not finished: stoatflow hand-over from-spark, again"
        )
    return read(spark, folder)


def read(spark: SparkSession, folder: str) -> HandedOver | None:
    """Return what a checkpoint began with, also of one that was handed back."""
    found = checkpoint.read_json(spark, folder, OVER)
    if found is not None:
        return HandedOver(**found)
    if checkpoint.exists(spark, folder, ROWS):
        raise TwinError(
            f"a hand-over into {folder} was begun and has not ended: run it again (stoatflow hand-over to-spark), or "
            "name another folder"
        )
    return None


def write(spark: SparkSession, folder: str, made: HandedOver) -> None:
    """Write what a checkpoint begins with: from now on it can be run."""
    checkpoint.write_json(spark, folder, OVER, asdict(made))


def rows(spark: SparkSession, folder: str) -> DataFrame:
    """Return the state as a stream: all of it comes with the first trigger, and none ever again."""
    return spark.readStream.schema(SCHEMA).parquet(f"{folder.rstrip('/')}/{ROWS}")


def back(spark: SparkSession, folder: str) -> Mapping[str, Any] | None:
    """Return what was noted when the checkpoint was handed back."""
    return checkpoint.read_json(spark, folder, BACK)
