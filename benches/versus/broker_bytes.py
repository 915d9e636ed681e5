"""Bytes that an engine has written to the broker, measured in the same way for all engines.

Takes the data folder of a broker, the names of output topics and of an application. Returns the bytes of record batches
(and transaction markers) in outputs, changelogs, repartition topics and others. Owns the setting that keeps deleted
segments. The broker's internal topics (group offsets, transaction state) and index files are not counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

# Kafka Streams deletes the records that it has read from its repartition topics, segment by segment. A
# deleted segment is renamed, and removed after this delay: longer than any run, so that its bytes can still
# be counted.
KEEP_DELETED = {"log.segment.delete.delay.ms": str(7 * 24 * 3600 * 1000)}
OUTPUT, CHANGELOG, REPARTITION, OTHER = KINDS = ("output", "changelog", "repartition", "other")


def kind_of(topic: str, application: str, outputs: Collection[str]) -> str | None:
    """Return the role of a topic in an application; `None` if it doesn't belong to it."""
    if topic in outputs:
        return OUTPUT
    if application not in topic:
        return None
    # Classify the rest of the name: the application's name may contain any word.
    rest = topic.replace(application, "")
    return next((kind for kind in (CHANGELOG, REPARTITION) if kind in rest), OTHER)


def bytes_of(folder: Path, application: str, outputs: Collection[str]) -> dict[str, int]:
    """Bytes by role of topic, in the data folder of a broker."""
    found = dict.fromkeys(KINDS, 0)
    for partition in (folder / "kafka-logs").iterdir():
        kind = kind_of(partition.name.rpartition("-")[0], application, outputs)
        if kind is not None:
            found[kind] += _segments(partition)
    return found


def _segments(partition: Path) -> int:
    """Bytes of existing and deleted segments, each counted once, even if it is renamed meanwhile."""
    sizes: dict[str, int] = {}
    for file in partition.iterdir():
        first, _, end = file.name.partition(".")
        if end in {"log", "log.deleted"}:
            with contextlib.suppress(FileNotFoundError):  # renamed: it is found under its other name
                sizes[first] = max(sizes.get(first, 0), file.stat().st_size)
    return sum(sizes.values())
