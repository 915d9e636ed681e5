"""Checks the topics of an application on the broker: sources, sinks, and changelogs.

Takes a client, a topology and settings, returns findings, and `None` for each topic that is fine. Reads a record of
each source, and writes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stoatflow.dlq.dead_letter_topics import dead_letter_topics
from stoatflow.doctor.finding import Finding, Kind
from stoatflow.errors import AuthorizationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stoatflow._runtime import bridge
    from stoatflow.settings import Settings
    from stoatflow.topology import Topology


class Topics:
    """The topics of one application on one broker."""

    def __init__(self, client: bridge.TopicsClient, topology: Topology, settings: Settings) -> None:
        """Send no request yet."""
        self._client = client
        self._plan: dict[str, Any] = json.loads(topology.plan.physical_json)
        application = str(settings.get("application.id"))
        self._dead_letters = dead_letter_topics(topology, settings)
        logged = (store for store in self._plan["stores"] if store["logged"])
        self._logged = {f"{application}-{store['name']}-changelog": store for store in logged}

    def read(self) -> Iterator[Finding | None]:
        """Check that each source may be read, if it has a record."""
        for topic in sorted({topic for source in self._plan["sources"] for topic in source["topics"]}):
            yield from self._unless_refused("source", topic, self._unreadable)

    def written(self) -> Iterator[Finding | None]:
        """Check that each output topic exists."""
        sinks = {sink["topic"] for sink in self._plan["sinks"] if sink["topic"]}
        for op, topics in (("sink", sorted(sinks)), ("dead letters", self._dead_letters)):
            for topic in topics:
                yield from self._unless_refused(op, topic, self._missing)

    def _unless_refused(
        self, op: str, topic: str, look: Callable[[str, str], Iterator[Finding | None]]
    ) -> Iterator[Finding | None]:
        try:
            yield from look(op, topic)
        except AuthorizationError as error:
            yield refused(error, op, topic)

    def _unreadable(self, _op: str, topic: str) -> Iterator[Finding | None]:
        """Read the first record, which raises if reading is not allowed."""
        found = self._client.topic(topic)
        ranges = self._client.ranges(topic, found[0]) if found else []
        for partition, (begin, end) in enumerate(ranges):
            if begin < end:
                self._client.read(topic, partition, begin, begin + 1).next(1)
                yield None
                return

    def _missing(self, op: str, topic: str) -> Iterator[Finding | None]:
        if self._client.topic(topic) is not None:
            yield None
        else:
            yield Finding.of_surroundings(
                "topic",
                f"there is no such topic at {self._client.address}, and the engine never creates one that it writes",
                "create it, or correct the name in the topology or the settings",
                op=op,
                node=topic,
            )

    def tables(self) -> Iterator[Finding | None]:
        """Check that each topic that is read as a table is compacted."""
        read = {store["source_changelog"] for store in self._plan["stores"] if store["source_changelog"]}
        for topic in sorted(read):
            yield from self._unless_refused("source", topic, self._forgetful_table)

    def _forgetful_table(self, op: str, topic: str) -> Iterator[Finding | None]:
        yield from self._forgetful(
            "table source",
            "it is read as a table, but its topic is not compacted: rows that its retention has removed are missing "
            "when the table is read anew",
            (op, topic, "compact"),
        )

    def changelogs(self) -> Iterator[Finding | None]:
        """Check that each existing changelog is compacted."""
        for topic in self._logged:
            yield from self._unless_refused("changelog", topic, self._forgetful_changelog)

    def _forgetful_changelog(self, op: str, topic: str) -> Iterator[Finding | None]:
        store = self._logged[topic]
        expires = store["kind"]["type"] in ("window", "session")
        yield from self._forgetful(
            "topic",
            f"it is not compacted: rows of '{store['name']}' that don't change are lost with its retention, and "
            "missing after a restore",
            (op, topic, "[compact,delete]" if expires else "compact"),
        )

    def _forgetful(self, kind: Kind, message: str, of: tuple[str, str, str]) -> Iterator[Finding | None]:
        """Check a topic that must be compacted, if it exists; `of`: its role, its name, the policy that it needs."""
        op, topic, policy = of
        if self._client.topic(topic) is None:
            return
        if self._client.keeps_latest(topic):
            yield None
        else:
            yield Finding.of_surroundings(kind, message, self._alter(topic, policy), op=op, node=topic)

    def _alter(self, topic: str, policy: str) -> str:
        where = f"kafka-configs.sh --bootstrap-server {self._client.address} --alter --entity-type topics"
        return f"have it compacted: {where} --entity-name {topic} --add-config cleanup.policy={policy}"


def refused(error: AuthorizationError, op: str = "", node: str = "") -> Finding:
    """Return the finding about a missing permission."""
    return Finding.of_surroundings("permission", error.message, error.next_step, op=op, node=node)
