"""Which operators the twins support: the same, with a difference, or refused.

Takes nodes of a topology, returns verdicts, or raises a `TopologyError` that names everything refused, with the reason
and what to do instead. Owns the tables from which docs/reference/spark.md is written. Operators that are not in the
table are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from stoatflow.asynchronous import Awaiting
from stoatflow.errors import TopologyError
from stoatflow.handlers import DLQ, Decide, Retry
from stoatflow.plan import Node, nodes
from stoatflow.spark.twin.schedules import by_wall_clock
from stoatflow.spark.twin.shape import Shape
from stoatflow.topology import Topology

SAME, DIFFERS, REFUSED = "same", "differs", "refused"


@dataclass(frozen=True)
class Verdict:
    """How a twin treats an operator."""

    what: str
    text: str = ""


_EFFECTS = Verdict(DIFFERS, "runs in Spark's workers, once more for each task that Spark tries again")
_TASKS = Verdict(
    DIFFERS,
    "sees the keys of its task, as in Kafka Streams, not those of the whole application; punctuations run after each "
    "record, the wall clock stands still",
)
_SAME = Verdict(SAME)

OPERATORS: dict[str, Verdict] = {
    "stream": _SAME,
    "table": _SAME,
    "global_table": Verdict(DIFFERS, "all of its topic is read before anything else, and copied to each task"),
    "state_store": _SAME,
    "global_store": Verdict(DIFFERS, "all of its topic is read before anything else, and copied to each task"),
    "scheduled": Verdict(REFUSED, "a batch has no clock that ticks: write the ticks into a topic and read that"),
    "filter": _SAME,
    "filter_not": _SAME,
    "map": _SAME,
    "map_values": _SAME,
    "flat_map": _SAME,
    "flat_map_values": _SAME,
    "map_batches": Verdict(DIFFERS, "batches are of the records of one commit: often of a single record"),
    "select_key": _SAME,
    "peek": _EFFECTS,
    "foreach": _EFFECTS,
    "foreach_batch": _EFFECTS,
    "merge": _SAME,
    "split": _SAME,
    "branch": _SAME,
    "repartition": _SAME,
    "to_table": _SAME,
    "process": _TASKS,
    "process_values": _TASKS,
    "transform_values": _TASKS,
    "group_by_key": _SAME,
    "group_by": Verdict(
        DIFFERS, "of a table: all records of its part go to one task, as nothing else keeps their order"
    ),
    "windowed_by": Verdict(DIFFERS, "one Spark task for each partition; close_when_idle is never due"),
    "emit_strategy": _SAME,
    "cogroup": _SAME,
    "count": _SAME,
    "reduce": _SAME,
    "aggregate": _SAME,
    "suppress": Verdict(
        DIFFERS, "one Spark task for each partition; a bounded buffer is one per task, as in Kafka Streams"
    ),
    "join": Verdict(DIFFERS, "by a foreign key: all records of its part go to one task"),
    "left_join": Verdict(DIFFERS, "by a foreign key: all records of its part go to one task"),
    "outer_join": _SAME,
    "deduplicate": Verdict(DIFFERS, "one Spark task for each partition"),
    "offload": Verdict(
        REFUSED, "another process answers while the batch doesn't wait: run the topology behind it alone"
    ),
    "to_stream": _SAME,
    "to": Verdict(DIFFERS, "a DataFrame instead of a topic; a partitioner is not asked"),
}
"""By the operators' names in the plan."""

OTHERS: dict[str, Verdict] = {
    "async functions": Verdict(
        REFUSED, "what a service answers, and when, is not in the input: put the answers into a topic or a table"
    ),
    "resources": Verdict(REFUSED, "a pool or a client belongs to one process: make it in a function where it is used"),
    "StreamsBuilder(wrapper=)": Verdict(
        REFUSED, "what wraps functions would be asked for each part anew: wrap them where they are written"
    ),
    "topics by a pattern": Verdict(REFUSED, "which topics there are depends on when it starts: name them"),
    "late=": Verdict(
        REFUSED, "a late policy goes by the application's watermark, which no task of Spark sees: leave it out"
    ),
    "ttl=": Verdict(REFUSED, "a row expires with a commit of the engine, and no task of Spark commits: leave it out"),
    "watermark=": Verdict(DIFFERS, "is not looked at: time is stream time"),
    "time.semantics=watermark": Verdict(
        REFUSED, "the watermark is the least of all partitions, which no task of Spark sees: use stream-time"
    ),
    "TimestampExtractors.WALLCLOCK": Verdict(
        REFUSED, "the time at which the batch runs says nothing of the records: use a time of the record"
    ),
    "table.group_by or a foreign-key join beside windows": Verdict(
        REFUSED,
        "with more than one partition: one part needs all records in one task, the other needs a time for each "
        "partition. Write what stands between them to a topic, and read that in a second topology",
    ),
    "record caching, emit.mode=barrier": Verdict(DIFFERS, "every update of a table is forwarded"),
    "exactly-once": Verdict(
        DIFFERS, "results are a DataFrame of one run; how it is written is at least once, or as exact as the target is"
    ),
    "interactive queries": Verdict(DIFFERS, "stores are DataFrames, at the end of the input"),
    "dead letters": Verdict(
        DIFFERS, "the record is left out and counted as it should be, and the letter is not among the results"
    ),
    "offsets in processors and dead letters": Verdict(DIFFERS, "count within the task, not within the topic"),
    "order of records of different partitions": Verdict(
        DIFFERS, "by time and then by topic, partition and offset, as one run of the engine might take them"
    ),
    "a key in two partitions": Verdict(REFUSED, "where something goes by time: write .repartition() behind the source"),
    "schedules by the wall clock": Verdict(DIFFERS, "are never due: the wall clock stands still"),
    "timestamp= with a function, or of the partition": _SAME,
    "logging=False": _SAME,
    "a topic that is both written and read": Verdict(DIFFERS, "what others write there is read only if it is given"),
}


_RESTORED = Verdict(
    REFUSED,
    "the time of a partition is in no changelog, so it would begin again with a restart: use a time of the record",
)
_WHOLE = Verdict(
    REFUSED, "which of its rows a record meets would depend on the trigger: join a table by the same key instead"
)

STREAMING: dict[str, Verdict] = {
    "global_table": _WHOLE,
    "global_store": _WHOLE,
    "scheduled": Verdict(
        REFUSED, "a task runs when records come, not when a clock ticks: write the ticks into a topic and read that"
    ),
    "offload": Verdict(
        REFUSED, "another process answers while the trigger doesn't wait: run the topology behind it alone"
    ),
    "to": Verdict(
        DIFFERS,
        "at least once into Kafka, with headers that say what made a record; Kafka stamps it when it arrives, its own "
        "time is in a header; a partitioner is not asked",
    ),
    "async functions": Verdict(
        REFUSED, "what a service answers may be another thing when a trigger runs again: put the answers into a topic"
    ),
    "TimestampExtractors.WALLCLOCK": Verdict(
        REFUSED, "a trigger that runs again would give other times: use a time of the record"
    ),
    "timestamp= with a function, or of the partition": _RESTORED,
    "schedules by the wall clock": Verdict(
        REFUSED, "a task runs when records come, not when a clock ticks: schedule by stream time"
    ),
    "logging=False": Verdict(
        REFUSED, "what a store keeps goes into Spark's state by way of its changelog: leave logging= out"
    ),
    "exactly-once": Verdict(
        DIFFERS, "state is exact; what goes out is at least once into Kafka, and exact into files, trigger by trigger"
    ),
    "interactive queries": Verdict(DIFFERS, "stores are read from the checkpoint: read_store"),
    "a key in two partitions": Verdict(
        DIFFERS, "where something goes by time, it has a state in each, as in Kafka Streams"
    ),
    "order of records of different partitions": Verdict(
        DIFFERS, "by time within a trigger; what comes with a later trigger is later, whatever its time"
    ),
    "a topic that is both written and read": Verdict(DIFFERS, "what others write there is not read"),
}
"""Operators with another verdict in the streaming twin, by the same names."""


def check(topology: Topology, *, streaming: bool = False) -> list[tuple[Node, Verdict]]:
    """Return the differences, node by node; raise `TopologyError` with everything that is refused."""
    verdicts = {**OPERATORS, **OTHERS, **(STREAMING if streaming else {})}
    refused = list(_refused(topology, verdicts))
    if streaming:
        refused += _only_streaming(topology)
    if refused:
        listed = "\n".join(f"  - {problem}" for problem in refused)
        raise TopologyError(
            f"this topology has no {'streaming' if streaming else 'batch'} twin:\n{listed}",
            next_step="change what is listed, or run it with the engine; docs/reference/spark.md has the whole table",
        )
    shape = Shape(topology.nodes)
    return [(node, verdicts[node.op]) for at, node in enumerate(topology.nodes) if _differs(shape, at, verdicts)]


def _differs(shape: Shape, at: int, verdicts: Mapping[str, Verdict]) -> bool:
    node = shape.nodes[at]
    if verdicts[node.op].what != DIFFERS or isinstance(node, nodes.To):
        return False
    if isinstance(node, nodes.Join | nodes.LeftJoin):
        return shape.foreign_key(at)
    return not isinstance(node, nodes.GroupBy) or shape.kinds[at] == "grouped table"


def _refused(topology: Topology, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    for node in topology.nodes:
        verdict = verdicts.get(node.op, Verdict(REFUSED, "the twin doesn't know it"))
        if verdict.what == REFUSED:
            yield f"{node.line} {node.op}: {verdict.text}"
        if isinstance(node, nodes.Stream) and node.pattern is not None:
            yield f"{node.line} topics by a pattern: {verdicts['topics by a pattern'].text}"
        if getattr(node, "late", None) is not None:
            yield f"{node.line} late=: {verdicts['late='].text}"
        kept = node if isinstance(node, nodes.StateStore) else getattr(node, "materialized", None)
        if kept is not None and kept.expiry is not None:
            yield f"{node.line} ttl=: {verdicts['ttl='].text}"
        if getattr(node, "timestamp", None) == "wallclock":
            yield f"{node.line} wall-clock timestamps: {verdicts['TimestampExtractors.WALLCLOCK'].text}"
    awaiting = [node for node in topology.nodes if any(_awaits(getattr(node, field.name)) for field in fields(node))]
    for node in awaiting:
        yield f"{node.line} async functions: {verdicts['async functions'].text}"
    if topology.is_wrapped:
        yield f"StreamsBuilder(wrapper=): {verdicts['StreamsBuilder(wrapper=)'].text}"
    if topology.event_loop is not None and not awaiting:
        yield f"resources: {verdicts['resources'].text}"


def _only_streaming(topology: Topology) -> Iterator[str]:
    """Yield what a batch supports and a restartable query doesn't."""
    for node in topology.nodes:
        time = getattr(node, "timestamp", None)
        if isinstance(time, nodes.TimestampFunction) or time == "use_partition_time":
            name = "timestamp= with a function, or of the partition"
            yield f"{node.line} {name}: {STREAMING[name].text}"
        kept = getattr(node, "materialized", None)
        if not getattr(node, "logged", True) or not (kept is None or kept.logged):
            yield f"{node.line} logging=False: {STREAMING['logging=False'].text}"
        made = getattr(node, "processor", None)
        if isinstance(made, nodes.ProcessorRef) and by_wall_clock(made.supplier):
            name = "schedules by the wall clock"
            yield f"{made.display} {name}: {STREAMING[name].text}"


def dead_letters(topology: Topology) -> list[str]:
    """Return the nodes that may send dead letters, which the twins leave out of their results."""
    return [f"{node.line} {node.op}" for node in topology.nodes if _sends(getattr(node, "on_error", None))]


def _sends(handler: object) -> bool:
    return _sends(handler.then) if isinstance(handler, Retry) else isinstance(handler, DLQ | Decide)


def _awaits(content: object) -> bool:
    return isinstance(content, nodes.Udf) and isinstance(content.call, Awaiting)


def check_partitions(how: str, timed: Sequence[str], partitions: int, number: int) -> None:
    """Raise `TopologyError` if one task can't keep the stream time of each partition."""
    if how == "one" and timed and partitions > 1:
        verdict = OTHERS["table.group_by or a foreign-key join beside windows"]
        raise TopologyError(
            f"part {number} of this topology has {', '.join(timed)} beside a table.group_by or a foreign-key join, and "
            f"its topics have {partitions} partitions: {verdict.text}",
            next_step="cut the topology there, or load the input into topics of one partition",
        )
