"""Hand-over from Spark to the engine: an application continues where a streaming twin has stopped, with its state.

Takes a topology, the application's settings, the checkpoint of a query that doesn't run. Makes a plan, and executes it.
The order: first the checkpoint is closed, so that no query continues from it; then rows, positions and the permission
to start are written in one transaction. An interrupted hand-over is completed by running it again.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoatflow.cli.import_offsets import refuse_old
from stoatflow.errors import ConfigError
from stoatflow.spark import connected
from stoatflow.spark.errors import TopicError, TwinError
from stoatflow.spark.handover import rows, unsupported
from stoatflow.spark.handover.application import Application, Record
from stoatflow.spark.handover.distribution import merged
from stoatflow.spark.kafka import KafkaTopics
from stoatflow.spark.loading.frames import require_arrow
from stoatflow.spark.twin import checkpoint as checkpoints
from stoatflow.spark.twin import faithful, handed_over
from stoatflow.spark.twin import settings as meaning
from stoatflow.spark.twin.parts import Part, cut
from stoatflow.spark.twin.resumed_task import retentions
from stoatflow.spark.twin.running import pairs_of
from stoatflow.spark.twin.stored import ReadCells, cells_of
from stoatflow.spark.twin.streaming import groups_of, tasks_of
from stoatflow.spark.twin.task_state import Change, TaskState, compacted, unpacked
from stoatflow.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from stoatflow.settings import Settings

_CLOSED = "v1\nclosed by stoatflow hand-over from-spark\n"


@dataclass(frozen=True)
class Returned:
    """What a store gets back."""

    name: str
    topic: str
    rows: int
    """Rows of the store afterwards."""
    changes: int
    """Records that are written to its changelog, including deletions."""


class FromSpark:
    """What a hand-over back to the engine will do; `make` does it."""

    def __init__(self, spark: SparkSession, topology: Topology, settings: Settings, checkpoint: str | Path) -> None:
        """Examine everything and change nothing.

        Raises:
            TopologyError: something can't be handed over.
            ConfigError: the application has run since, or it was handed over to another checkpoint.
            TwinError: the checkpoint is of another topology, or a trigger in it has not ended.

        """
        connected.need_classic(spark, "a hand-over", connected.BATCH)
        require_arrow()
        self._spark, self.topology, self._settings, self.folder = (
            spark,
            topology,
            settings,
            handed_over.place(checkpoint),
        )
        faithful.check(topology, streaming=True)
        pairs_of(settings)
        self.parts: tuple[Part, ...] = tuple(cut(topology))
        self.plan = self._plan_of_checkpoint()
        self.over = handed_over.read(spark, self.folder)
        unsupported.check(topology, self.parts, self.plan.partitions, settings)
        self.counts = tasks_of(self.parts, self.plan.partitions, self.plan.tasks)
        self.application = Application(topology, settings)
        self._refuse_others()
        self.trigger = self._last_trigger()
        self.positions = self._positions()
        self._changes = self._all_changes()
        self.stores = [
            Returned(store, self.application.changelog(store), held, len(changes))
            for store, (held, changes) in self._changes.items()
        ]

    def describe(self) -> str:
        """Return a description of what will be done."""
        behind = "before its first trigger" if self.trigger is None else f"behind trigger {self.trigger}"
        lines = [
            f"'{self.application.id}' at {self.application.address} goes on where Spark has stopped: {self.folder},",
            f"{behind}",
            "",
            "it begins to read here:",
        ]
        lines += [f"  {topic}-{partition}  offset {offset}" for (topic, partition), offset in self.positions.items()]
        lines += ["", "state that it begins with:"]
        lines += [
            f"  {one.name}  {one.rows:,} rows; {one.changes:,} records are written to {one.topic}"
            for one in self.stores
        ] or ["  none"]
        lines += [
            "",
            "The checkpoint is closed: no query goes on with it. The application may be started then, with the local",
            "state that it has or on an empty disk: it reads what has changed from its changelogs.",
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain data."""
        return {
            "application": self.application.id,
            "address": self.application.address,
            "checkpoint": self.folder,
            "trigger": self.trigger,
            "partitions": [
                {"topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in self.positions.items()
            ],
            "stores": [asdict(one) for one in self.stores],
        }

    def make(self) -> None:
        """Execute the plan."""
        writer = self.application.fence()
        self._refuse_others()
        self._close_checkpoint()
        self.application.make_topics(max(self.plan.partitions.values()))
        formats = {} if self.over is None else self.over.formats
        self.application.take_back(writer, self._records(), self.positions, formats)
        broker = KafkaTopics(self._spark, self.application.address, meaning.client(self._settings))
        # For tools that show lag; the application itself reads its offsets topic.
        with contextlib.suppress(TopicError):
            broker.commit(self.application.id, self.positions, self.application.noted().metadata)

    # Reading the current state ----------------------------------------------------------------------

    def _plan_of_checkpoint(self) -> checkpoints.Plan:
        begun = checkpoints.read(self._spark, self.folder)
        if begun is None:
            raise TwinError(f"nothing has begun in {self.folder}: give the checkpoint of a streaming twin")
        wanted = checkpoints.plan(self.parts, begun.partitions, begun.tasks, begun.shuffle)
        checkpoints.compare(self.folder, begun, wanted)
        return begun

    def _refuse_others(self) -> None:
        """Raise unless the application was handed over to this checkpoint."""
        mark = self.application.handed_to()
        if self.over is None:
            self._refuse_old()
            return
        if self.over.application != self.application.id:
            raise ConfigError(
                f"{self.folder} was handed over by '{self.over.application}', not by '{self.application.id}'",
                next_step="name that application's settings",
            )
        if mark is None:
            done = handed_over.back(self._spark, self.folder) is not None
            raise ConfigError(
                f"'{self.application.id}' has its work already"
                + (": it was handed back" if done else ", and not by this checkpoint")
                + "; nothing was changed",
                next_step="start it" if done else "hand over again, into a new folder: stoatflow hand-over to-spark",
            )
        if mark is not None and self.over.id not in mark:
            raise ConfigError(
                f"'{self.application.id}' is {mark.partition(';')[0]}; nothing was changed",
                next_step=mark.partition("next: ")[2],
            )

    def _refuse_old(self) -> None:
        """Raise unless the application is new: a query that started by itself doesn't continue an application."""
        found = self.application.look()
        empty = [one for one in found["changelogs"] if one["records"] == 0]
        if handed_over.back(self._spark, self.folder) is not None and len(empty) < len(found["changelogs"]):
            raise ConfigError(
                f"'{self.application.id}' has its work already: it was handed back; nothing was changed",
                next_step="start it",
            )
        # An interrupted attempt has created topics, and nothing else.
        refuse_old({**found, "changelogs": [one for one in found["changelogs"] if one not in empty]})

    def _last_trigger(self) -> int | None:
        """Return the number of the last completed trigger; `None` before the first one."""
        begun = {number for number in self._numbers("offsets") if not self._is_closed(number)}
        ended = self._numbers("commits")
        if unfinished := begun - ended:
            raise TwinError(
                f"trigger {max(unfinished)} in {self.folder} has begun and not ended; what it has written would be "
                "written again. Let it end: stoatflow run --engine spark --until-end, and run this then"
            )
        return max(ended, default=None)

    def _numbers(self, log: str) -> set[int]:
        return {int(name) for name in checkpoints.names(self._spark, self.folder, log) if name.isdigit()}

    def _is_closed(self, number: int) -> bool:
        return checkpoints.read_text(self._spark, self.folder, f"offsets/{number}") == _CLOSED

    def _positions(self) -> dict[tuple[str, int], int]:
        offsets: Mapping[str, Mapping[str, int]] = self.over.offsets if self.over is not None else {}
        if self.trigger is not None:
            text = checkpoints.read_text(self._spark, self.folder, f"offsets/{self.trigger}") or ""
            offsets = _offsets_of(text)
        return {(topic, int(at)): offset for topic, places in sorted(offsets.items()) for at, offset in places.items()}

    # Writing changelogs -----------------------------------------------------------------------------

    def _all_changes(self) -> dict[str, tuple[int, list[Record]]]:
        """Return, for each store, its number of rows, and the records to write to its changelog."""
        if self.trigger is None and self.over is None:
            raise TwinError(f"nothing was read yet by the query of {self.folder}: let a trigger end first")
        if self.trigger is None:
            # No trigger has run: the changelogs are as they were.
            return {store: (self._held(store), []) for store in self.application.retentions}
        found = merged(self.parts, self.counts, self._rows_of_part)
        made = {}
        for store, how in self.application.retentions.items():
            wanted, topic = found.get(store, []), self.application.changelog(store)
            before = list(itertools.chain.from_iterable(self.application.rows(store)))
            records: list[Record] = [
                (topic, None, key, value, timestamp, unpacked(headers))
                for key, value, timestamp, headers in rows.to_write(before, wanted, {store: how})
            ]
            made[store] = (len(wanted), records)
        return made

    def _held(self, store: str) -> int:
        return sum(len(compacted(page, self.application.retentions)) for page in self.application.rows(store))

    def _records(self) -> Iterator[Record]:
        for _, records in self._changes.values():
            yield from records

    def _rows_of_part(self, part: Part) -> dict[int, list[Change]]:
        """Return the rows of all tasks of a part."""
        groups = groups_of(self._spark, max(self.counts.values()), self.plan.shuffle)
        task_of = {group: task for task, group in enumerate(groups)}
        found: dict[int, dict[int, bytes]] = {}
        for group, number, data in cells_of(self._spark, self.folder, part.number).toLocalIterator():
            found.setdefault(task_of[group], {})[number] = bytes(data)
        how = retentions(Topology(part.nodes))
        return {task: TaskState(ReadCells(cells), how).rows() for task, cells in found.items()}

    # Closing the checkpoint -------------------------------------------------------------------------

    def _close_checkpoint(self) -> None:
        """Let no query continue: a running one finds that its next trigger exists, and ends with an error."""
        number = 0 if self.trigger is None else self.trigger + 1
        made = checkpoints.create_text(self._spark, self.folder, f"offsets/{number}", _CLOSED)
        if not made and not self._is_closed(number):
            raise TwinError(
                f"a query has run with the checkpoint {self.folder} meanwhile: stop it, and run this again; nothing "
                "was changed"
            )
        noted = {"application": self.application.id, "trigger": self.trigger}
        checkpoints.write_json(self._spark, self.folder, handed_over.BACK, noted)


def _offsets_of(text: str) -> Mapping[str, Mapping[str, int]]:
    """Find the offsets of Kafka's source in a file of Spark that has a line for each source."""
    for line in text.splitlines()[2:]:
        found = json.loads(line) if line.startswith("{") else None
        if found and all(isinstance(each, dict) for each in found.values()):
            offsets: dict[str, dict[str, int]] = found
            return offsets
    raise TwinError("the checkpoint holds no offsets of topics: only a query that reads topics can be handed back")
