"""What an engine has written to the broker, in bytes: the same look at the same files for all of them.

Takes: the data folder of a broker, the names of output topics and of an application.
Gives: the bytes of record batches (and marks of transactions) in outputs, changelogs, repartition topics and others.
Owns: the setting that keeps what an engine has thrown away again. Never: counts what the broker writes for itself (the
places of groups, the state of transactions), or indexes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

# Kafka Streams deletes what it has read of its repartition topics, segment by segment. A deleted
# segment is renamed, and removed after this delay: beyond any run, so that what was sent is still
# there to be counted.
KEEP_DELETED = {"log.segment.delete.delay.ms": str(7 * 24 * 3600 * 1000)}
OUTPUT, CHANGELOG, REPARTITION, OTHER = KINDS = ("output", "changelog", "repartition", "other")


def kind_of(topic: str, application: str, outputs: Collection[str]) -> str | None:
    """What a topic is to an application; None if it is not one of its own."""
    if topic in outputs:
        return OUTPUT
    if application not in topic:
        return None
    # Of the name that is left without the application's, which may hold any word.
    rest = topic.replace(application, "")
    return next((kind for kind in (CHANGELOG, REPARTITION) if kind in rest), OTHER)


def bytes_of(folder: Path, application: str, outputs: Collection[str]) -> dict[str, int]:
    """Bytes by kind of topic, in the data folder of a broker."""
    found = dict.fromkeys(KINDS, 0)
    for partition in (folder / "kafka-logs").iterdir():
        kind = kind_of(partition.name.rpartition("-")[0], application, outputs)
        if kind is not None:
            found[kind] += _segments(partition)
    return found


def _segments(partition: Path) -> int:
    """Those that are there and those that were thrown away, each once, also if it is renamed meanwhile."""
    sizes: dict[str, int] = {}
    for file in partition.iterdir():
        first, _, end = file.name.partition(".")
        if end in {"log", "log.deleted"}:
            with contextlib.suppress(FileNotFoundError):  # renamed: it comes under its other name
                sizes[first] = max(sizes.get(first, 0), file.stat().st_size)
    return sum(sizes.values())
