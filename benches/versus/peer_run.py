"""Shared by the programs of other engines: their command line, and how their end is detected from outside.

Takes a broker; returns the options, and the time of an engine's last change on the broker. The engine itself is not
asked.
"""

from __future__ import annotations

import argparse
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

POLL_S = 0.2
# An engine that has changed nothing on the broker for this long is done. This time doesn't count, its CPU
# does.
QUIET_S = 3.0
TIMEOUT_S = 30.0
# Errors of a broker about a group that was not used before.
NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def options(about: str | None) -> argparse.Namespace:
    """Parse the command line of every program; inputs and outputs are lists."""
    parser = argparse.ArgumentParser(description=about)
    for name in ("workload", "bootstrap", "application-id", "inputs", "outputs", "guarantee", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--commit-interval-ms", type=int, required=True)
    found = parser.parse_args()
    found.inputs, found.outputs = found.inputs.split(","), found.outputs.split(",")
    return found


class Progress:
    """Progress of an application, seen from the broker."""

    def __init__(self, at: argparse.Namespace) -> None:
        """Read the partitions of the inputs."""
        self._admin = AdminClient({"bootstrap.servers": at.bootstrap, "log_level": 2})
        self._application, self._inputs, self._outputs = at.application_id, at.inputs, at.outputs
        # Reads the group's committed offsets without being a member.
        self._group = Consumer({"bootstrap.servers": at.bootstrap, "group.id": at.application_id, "log_level": 2})
        self._places = [TopicPartition(*place) for place in self._ends(at.inputs)]

    def records(self) -> int:
        """Number of records to read."""
        return sum(self._ends(self._inputs).values())

    def wait(self, *, commits: bool) -> float:
        """Wait until something is written and nothing changes any more; return the time of the last change.

        With `commits` the application commits its offsets in the inputs, and must have read all of them.
        """
        total, changed = self.records(), time.monotonic()
        last: tuple[dict[tuple[str, int], int], int] = ({}, 0)
        while True:
            time.sleep(POLL_S)
            ends, read = self._ends([*self._outputs, *self._internal()]), self._read() if commits else total
            if (ends, read) != last:
                last, changed = (ends, read), time.monotonic()
            written = any(end for (topic, _), end in ends.items() if topic in self._outputs)
            if written and read == total and time.monotonic() - changed > QUIET_S:
                return changed

    def _internal(self) -> list[str]:
        """The engine's internal topics, whose names contain the application's name."""
        topics = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return [name for name in topics if self._application in name]

    def _ends(self, topics: list[str]) -> dict[tuple[str, int], int]:
        known = self._admin.list_topics(timeout=TIMEOUT_S).topics
        wanted = {
            TopicPartition(topic, number): OffsetSpec.latest() for topic in topics for number in known[topic].partitions
        }
        asked = self._admin.list_offsets(wanted, request_timeout=TIMEOUT_S)
        return {(at.topic, at.partition): found.result().offset for at, found in asked.items()}

    def _read(self) -> int:
        """Sum of committed offsets in the inputs; 0 while the broker looks for the group's coordinator."""
        try:
            committed = self._group.committed(self._places, TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET:
                raise
            return 0
        return sum(max(at.offset, 0) for at in committed)
