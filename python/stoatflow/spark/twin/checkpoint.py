"""What a checkpoint must be told beside what Spark writes there: which topology its state belongs to.

Takes: a folder that Spark can write to, parts. Gives: the plan that was begun with, or an error that names the
difference. Owns: the file `stoatflow.json` in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from stoatflow.spark import connected
from stoatflow.spark.errors import TwinError
from stoatflow.spark.twin.cutting import Part
from stoatflow.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "stoatflow.json"


@dataclass(frozen=True)
class Plan:
    """What must stay the same from one run to the next."""

    parts: list[str]
    """One line for each, with what it keeps."""
    partitions: dict[str, int]
    """Of the topics that are read."""
    tasks: int
    """That share what is shared out by key."""
    shuffle: int
    """Into so many of Spark's partitions the tasks go, and their state."""


def plan(parts: Sequence[Part], partitions: Mapping[str, int], tasks: int, shuffle: int) -> Plan:
    """Give the plan of a topology. Functions may change, as with an application; what keeps state may not."""
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
    """Give the plan of a checkpoint; none if nothing has begun there."""
    files, path = _file(spark, folder, _FILE)
    if not files.exists(path):
        other, offsets = _file(spark, folder, "offsets")
        if other.exists(offsets):
            raise TwinError(
                f"the checkpoint {folder} belongs to a query that is no streaming twin: name a folder of its own"
            )
        return None
    stream = files.open(path)
    try:
        text = _jvm(spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return Plan(**json.loads(text))


def write(spark: SparkSession, folder: str, new: Plan) -> None:
    """Write the plan of a checkpoint that begins."""
    files, path = _file(spark, folder, _FILE)
    stream = files.create(path, True)
    stream.write(bytearray(json.dumps(asdict(new), indent=1).encode()))
    stream.close()


def compare(folder: str, begun: Plan, new: Plan) -> None:
    """Raise `TwinError` if state of one plan is no state of the other."""
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
    """Give the file system of a folder, through Spark's own client, and the path of a file in it."""
    connected.need_classic(spark, "the checkpoint of a stream", connected.BATCH)
    path = _jvm(spark).org.apache.hadoop.fs.Path(f"{folder.rstrip('/')}/{name}")
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
