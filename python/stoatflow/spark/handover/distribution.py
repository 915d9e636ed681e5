"""Splits the rows of an application's stores among the tasks of Spark, and merges them again.

Takes the parts of a topology, their numbers of tasks, rows. Returns rows by part and task, or rows by store.
Independent of a broker and of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stoatflow.errors import IncompatibleStateError
from stoatflow.spark.handover import rows, unsupported
from stoatflow.spark.twin.parts import PARTITIONS, Part
from stoatflow.spark.twin.resumed_task import retentions
from stoatflow.spark.twin.task_state import Change
from stoatflow.topology import Topology


def distributed(
    parts: Sequence[Part], counts: Mapping[int, int], store: str, live: Sequence[Change]
) -> Iterator[tuple[int, int, list[Change]]]:
    """Return the rows of a store for each part that keeps it, task by task: part, task, rows."""
    for part in parts:
        own, tasks = Topology(part.nodes), counts[part.number]
        if store == rows.CLOCKS:
            clocks = unsupported.clocks_of(own)
            for task in range(tasks) if clocks else ():
                yield part.number, task, list(rows.clocks_of_task(live, task, clocks, tasks))
        elif store in retentions(own):
            of = rows.task_of(unsupported.behind_keys(own)[store] or 0, part.how, tasks)
            shared: dict[int, list[Change]] = {}
            for row in live:
                shared.setdefault(of(row.key), []).append(row)
            yield from ((part.number, task, some) for task, some in shared.items())


def merged(
    parts: Sequence[Part], counts: Mapping[int, int], of_part: Callable[[Part], Mapping[int, list[Change]]]
) -> dict[str, list[Change]]:
    """Merge the rows of each store; if several parts keep it, those of the part that owns it.

    `of_part` returns the rows of a part by task.
    """
    found: dict[str, list[Change]] = {}
    clocks: dict[bytes | None, Change] = {}
    # The part that owns a store comes last.
    for part in sorted(parts, key=lambda part: bool(part.stores)):
        own, tasks = Topology(part.nodes), counts[part.number]
        stores = retentions(own).keys() - {rows.CLOCKS}
        if not stores and not unsupported.clocks_of(own):
            continue
        of_tasks = of_part(part)
        _refuse_misplaced(part, own, tasks, of_tasks)
        for store in stores:
            if store in part.stores or store not in found:
                found[store] = [row for some in of_tasks.values() for row in some if row.store == store]
        times = {task: [row for row in some if row.store == rows.CLOCKS] for task, some in of_tasks.items()}
        clocks |= {row.key: row for row in rows.clocks_of_all(times, tasks)}
    return found | {rows.CLOCKS: list(clocks.values())}


def _refuse_misplaced(part: Part, own: Topology, tasks: int, of_tasks: Mapping[int, list[Change]]) -> None:
    """Refuse rows that the application would look for in another task."""
    if part.how != PARTITIONS or tasks == 1:
        return
    behind = unsupported.behind_keys(own)
    for task, some in of_tasks.items():
        for row in some:
            if row.store != rows.CLOCKS:
                wanted = rows.task_of(behind[row.store] or 0, part.how, tasks)(row.key)
                if wanted != task:
                    raise IncompatibleStateError(
                        f"a row of the store {row.store} is in task {task}, and its key belongs to {wanted}: records "
                        "are not where Kafka's Java clients put them (murmur2)",
                        next_step="write .repartition() behind that source",
                    )
