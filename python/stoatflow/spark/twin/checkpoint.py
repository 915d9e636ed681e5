"""Records in a checkpoint, beside Spark's own files, which topology its state belongs to.

Takes a folder that Spark can write to, and parts. Returns the plan with which the checkpoint was started, or raises an
error that names the difference. Owns the file `stoatflow.json` in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from stoatflow.spark import connected
from stoatflow.spark.errors import TwinError
from stoatflow.spark.twin.parts import Part
from stoatflow.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "stoatflow.json"


@dataclass(frozen=True)
class Plan:
    """What must stay the same from one run to the next."""

    parts: list[str]
    """One line per part, with its stores."""
    partitions: dict[str, int]
    """Partitions of the topics that are read."""
    tasks: int
    """Number of tasks of parts that are partitioned by key."""
    shuffle: int
    """Number of Spark's partitions for the tasks and their state."""


def plan(parts: Sequence[Part], partitions: Mapping[str, int], tasks: int, shuffle: int) -> Plan:
    """Return the plan of a topology. Functions may change, as for an application; what keeps state may not."""
    return Plan([_line(part) for part in parts], dict(sorted(partitions.items())), tasks, shuffle)


def _line(part: Part) -> str:
    reads, writes = ", ".join((*part.topics, *part.hops_in)), ", ".join((*part.sinks, *part.hops_out))
    physical = json.loads(Topology(part.nodes).plan.physical_json)
    stores = [
        f"{store['name']} ({store['kind']['type']} of {_text(store['key'])} and {_text(store['value'])})"
        for store in physical["stores"]
    ]
    keeps = f", keeps {', '.join(stores)}" if stores else ""
    return f"part {part.number}: {reads} -> {writes or 'nothing'}{keeps}, by {part.how}"


def _text(serde: Any) -> str:
    return serde if isinstance(serde, str) else json.dumps(serde, sort_keys=True)


def read(spark: SparkSession, folder: str) -> Plan | None:
    """Return the plan of a checkpoint; `None` if nothing was started there."""
    found = read_json(spark, folder, _FILE)
    if found is not None:
        return Plan(**found)
    if exists(spark, folder, "offsets"):
        raise TwinError(
            f"the checkpoint {folder} belongs to a query that is no streaming twin: name a folder of its own"
        )
    return None


def write(spark: SparkSession, folder: str, new: Plan) -> None:
    """Write the plan of a new checkpoint."""
    write_json(spark, folder, _FILE, asdict(new))


def exists(spark: SparkSession, folder: str, name: str) -> bool:
    """Whether a checkpoint has a file or a folder with this name."""
    files, path = _file(spark, folder, name)
    return bool(files.exists(path))


def read_text(spark: SparkSession, folder: str, name: str) -> str | None:
    """Return the content of a file in a checkpoint; `None` if it doesn't exist."""
    files, path = _file(spark, folder, name)
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        return str(_jvm(spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def write_text(spark: SparkSession, folder: str, name: str, text: str) -> None:
    """Write a file into a checkpoint, replacing an existing one."""
    files, path = _file(spark, folder, name)
    stream = files.create(path, True)
    stream.write(bytearray(text.encode()))
    stream.close()


def create_text(spark: SparkSession, folder: str, name: str, text: str) -> bool:
    """Write a file into a checkpoint, unless it exists."""
    if exists(spark, folder, name):
        return False
    write_text(spark, folder, name, text)
    return True


def read_json(spark: SparkSession, folder: str, name: str) -> dict[str, Any] | None:
    """Return the JSON content of a file in a checkpoint; `None` if it doesn't exist."""
    text = read_text(spark, folder, name)
    if text is None:
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def write_json(spark: SparkSession, folder: str, name: str, content: Mapping[str, Any]) -> None:
    """Write a JSON file into a checkpoint."""
    write_text(spark, folder, name, json.dumps(content, indent=1))


def names(spark: SparkSession, folder: str, name: str) -> list[str]:
    """List a folder of a checkpoint."""
    files, path = _file(spark, folder, name)
    return [str(each.getPath().getName()) for each in files.listStatus(path)] if files.exists(path) else []


def remove(spark: SparkSession, folder: str, name: str) -> None:
    """Remove a file or a folder of a checkpoint, if it exists."""
    files, path = _file(spark, folder, name)
    files.delete(path, True)


def compare(folder: str, begun: Plan, new: Plan) -> None:
    """Raise `TwinError` if the state of one plan can't be used with the other."""
    for old, wanted in zip_longest(begun.parts, new.parts):
        if old != wanted:
            raise TwinError(
                f"the checkpoint {folder} belongs to another topology: it has {_shown(old)}, this one has "
                f"{_shown(wanted)}. Go on with the topology that it was begun with, or begin again with another folder"
            )
    for topic in sorted(begun.partitions.keys() | new.partitions.keys()):
        if (old_count := begun.partitions.get(topic)) != (count := new.partitions.get(topic)):
            raise TwinError(
                f"the checkpoint {folder} was begun with {old_count} partition(s) of {topic}, now it has {count}: keys "
                "go elsewhere than where their state is. Begin again with another folder"
            )
    if begun.tasks != new.tasks:
        raise TwinError(
            f"the checkpoint {folder} was begun with {begun.tasks} tasks, not {new.tasks}: leave tasks= out"
        )


def _shown(line: str | None) -> str:
    return f"'{line}'" if line is not None else "no further part"


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _file(spark: SparkSession, folder: str, name: str) -> tuple[Any, Any]:
    """Return the file system of a folder, through Spark's own client, and the path of a file in it."""
    connected.need_classic(spark, "the checkpoint of a stream", connected.BATCH)
    path = _jvm(spark).org.apache.hadoop.fs.Path(f"{folder.rstrip('/')}/{name}")
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
