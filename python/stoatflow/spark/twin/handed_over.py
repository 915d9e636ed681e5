"""A checkpoint that started with state of an application, or was handed back to it.

Takes a checkpoint. Returns the state that was handed over, as a stream of `Routed` rows that the first trigger reads
with its records; refuses a checkpoint whose hand-over is not complete, or that was handed back. Owns two files and a
folder beside Spark's own. Reads no topic.
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
"""Marks rows that are not records, but chunks of a task's initial state."""

OVER, BACK, ROWS = "handed-over.json", "handed-back.json", "handed-over"

Offsets = dict[str, dict[str, int]]
"""By topic and partition, in the format of Spark's source."""


@dataclass(frozen=True)
class HandedOver:
    """The initial state of a checkpoint."""

    application: str
    address: str
    offsets: Offsets
    """Where the application stopped: for each partition, the first offset that it has not processed."""
    formats: dict[str, str]
    """Formats of the application's changelog rows."""
    id: str
    """Id of this hand-over."""


def place(checkpoint: str | Path) -> str:
    """Return the absolute path or URI of a checkpoint's folder."""
    folder = str(checkpoint)
    return folder if ":/" in folder else os.path.abspath(folder)


def begun(spark: SparkSession, folder: str) -> HandedOver | None:
    """Return the initial state of a checkpoint; `None` if it started empty.

    Raises:
        TwinError: a hand-over there is not complete, or the checkpoint was handed back.

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
    """Return the initial state of a checkpoint, also of one that was handed back."""
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
    """Write the initial state of a checkpoint: from now on it can be run."""
    checkpoint.write_json(spark, folder, OVER, asdict(made))


def rows(spark: SparkSession, folder: str) -> DataFrame:
    """Return the state as a stream: all of it arrives with the first trigger, and nothing after that."""
    return spark.readStream.schema(SCHEMA).parquet(f"{folder.rstrip('/')}/{ROWS}")


def back(spark: SparkSession, folder: str) -> Mapping[str, Any] | None:
    """Return what was noted when the checkpoint was handed back."""
    return checkpoint.read_json(spark, folder, BACK)
