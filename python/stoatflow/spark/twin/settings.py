"""The meaning of an application's settings on Spark.

Takes settings. Returns those of the engines in the tasks, Kafka's client properties, and notes about the others. Owns
the table from which docs/reference/spark.md is written, and which values are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoatflow.errors import ConfigError, TopologyError
from stoatflow.spark.twin.faithful import DIFFERS, OTHERS, REFUSED, SAME, Verdict

if TYPE_CHECKING:
    from stoatflow.settings import Settings

NONE = "no effect"

DEFAULTS = {"application.id": "twin", "bootstrap.servers": "embedded:", "ensure.explicit.naming": False}
_EXACT = {"statestore.cache.max.bytes": 0, "bootstrap.servers": "embedded:"}
_CLIENT = ("security.", "ssl.", "sasl.", "enable.ssl.")
_NOT_FOR_TASKS = (*_CLIENT, "consumer.", "producer.", "admin.", "oauth_cb")

_SAME = Verdict(SAME)
_COMMITS = Verdict(NONE, "Spark commits trigger by trigger: SparkOptions(every=, at_most=)")
_LANES = Verdict(NONE, "Spark's tasks share the work: SparkOptions(tasks=)")
_TOPICS = Verdict(NONE, "no topic is created")
_CLIENTS = Verdict(NONE, "Spark's own client reads and writes")
_ADMIN = Verdict(NONE, "there is no admin port: Spark has an interface of its own")
_ENGINE = Verdict(NONE, "Spark watches over its tasks, and tries again")
_DEFAULT = Verdict(REFUSED, "parts of a topology have no defaults: name it at sources, stores and sinks")
_NO_LISTS = Verdict(NONE, "only a default serde of lists reads it, which is refused")
_LETTERS = Verdict(DIFFERS, "dead letters are not among the results")
_IN_MEMORY = Verdict(DIFFERS, "as a stream always in the memory of the worker")
_WHEN = Verdict(DIFFERS, "the wall clock of a task stands still: leave it at -1")

SETTINGS: dict[str, Verdict] = {
    "application.id": Verdict(DIFFERS, "a name and no more, `twin` if it is left out: there is no group"),
    "bootstrap.servers": Verdict(DIFFERS, "an embedded broker is read by a batch only"),
    "kafka.client": _CLIENTS,
    "processing.guarantee": Verdict(
        DIFFERS, "exactly_once_v2 is refused where a stream writes topics: Spark writes them at least once"
    ),
    "commit.interval.ms": _COMMITS,
    "commit.min.interval.ms": _COMMITS,
    "commit.timeout.ms": _COMMITS,
    "transaction.timeout.ms": Verdict(NONE, "there are no transactions"),
    "lanes.count": _LANES,
    "batch.max.records": _LANES,
    "in.flight.max.bytes": _COMMITS,
    "max.task.idle.ms": Verdict(NONE, "records are taken by their time"),
    "time.semantics": Verdict(DIFFERS, "watermark is refused"),
    "watermark.default": Verdict(NONE, "time is stream time"),
    "max.timestamp.ahead.ms": Verdict(REFUSED, "the wall clock of a task stands still, so every time is ahead of it"),
    "auto.offset.reset": Verdict(DIFFERS, "the input is read from its beginning: latest is refused"),
    "topology.optimization": _TOPICS,
    "state.dir": Verdict(NONE, "state is in the checkpoint"),
    "state.memory.max.bytes": Verdict(NONE, "workers have Spark's limits"),
    "state.damaged": Verdict(NONE, "state is in the checkpoint"),
    "default.dsl.store": _IN_MEMORY,
    "rocksdb.compression": _IN_MEMORY,
    "rocksdb.block.size": _IN_MEMORY,
    "rocksdb.bloom.bits": _IN_MEMORY,
    "rocksdb.compaction": _IN_MEMORY,
    "statestore.cache.max.bytes": Verdict(DIFFERS, "every update of a table is forwarded"),
    "emit.mode": Verdict(DIFFERS, "every update of a table is forwarded"),
    "emit.interval.ms.kstreams.windowed.aggregation": _WHEN,
    "emit.interval.ms.kstreams.outer.join.spurious.results.fix": _WHEN,
    "windowstore.changelog.additional.retention.ms": _TOPICS,
    "changelog.num.partitions": _TOPICS,
    "replication.factor": _TOPICS,
    "broker.wait.timeout.ms": _CLIENTS,
    "metadata.max.age.ms": _CLIENTS,
    "restart.max.attempts": _ENGINE,
    "restart.window.ms": _ENGINE,
    "shutdown.timeout.ms": _SAME,
    "stall.timeout.ms": _ENGINE,
    "admin.listen": _ADMIN,
    "admin.token": _ADMIN,
    "admin.ssl.certificate": _ADMIN,
    "admin.ssl.key": _ADMIN,
    "admin.ssl.ca": _ADMIN,
    "admin.open": _ADMIN,
    "admin.max.connections": _ADMIN,
    "deserialization.exception.handler": _LETTERS,
    "processing.exception.handler": _LETTERS,
    "production.exception.handler": _LETTERS,
    "default.key.serde": _DEFAULT,
    "default.value.serde": _DEFAULT,
    "default.list.key.serde.inner": _NO_LISTS,
    "default.list.value.serde.inner": _NO_LISTS,
    "default.timestamp.extractor": _DEFAULT,
    "errors.dead.letter.queue.topic.name": _LETTERS,
    "errors.dead.letter.queue.headers": _LETTERS,
    "config.strict": _SAME,
    "ensure.explicit.naming": Verdict(DIFFERS, "off if it is left out: generated names reach no topic"),
}
"""By name, for all settings."""

# Values that change nothing.
_HARMLESS = {
    "default.key.serde": "bytes",
    "default.value.serde": "bytes",
    "default.timestamp.extractor": "fail_on_invalid",
    "max.timestamp.ahead.ms": "-1",
}


def pairs(settings: Settings) -> tuple[tuple[str, object], ...]:
    """Return the settings of the engines in the tasks; raise for settings that they can't have."""
    made = settings.with_defaults(DEFAULTS)
    made.check()
    for name, harmless in _HARMLESS.items():
        if name in made and str(made.get(name)).lower() != harmless:
            raise ConfigError(f"{name} is refused on Spark", next_step=SETTINGS[name].text)
    given = dict(made.pairs())
    if given.get("time.semantics") == "watermark":
        raise TopologyError(f"time.semantics=watermark: {OTHERS['time.semantics=watermark'].text}")
    if str(given.get("auto.offset.reset", "earliest")).lower() != "earliest":
        raise ConfigError("auto.offset.reset is refused on Spark", next_step=SETTINGS["auto.offset.reset"].text)
    taken = {name: value for name, value in given.items() if _for_tasks(name)}
    return tuple((taken | _EXACT).items())


def _for_tasks(name: str) -> bool:
    known = SETTINGS.get(name)
    return not name.startswith(_NOT_FOR_TASKS) and (known is None or known.what != NONE)


def refuse_exactly_once(settings: Settings) -> None:
    """Raise `ConfigError` if exactly-once was requested, which Spark's writer can't guarantee."""
    if str(settings.get("processing.guarantee", "")).lower() == "exactly_once_v2":
        raise ConfigError(
            "processing.guarantee=exactly_once_v2: Spark writes topics at least once",
            next_step="set at_least_once, and let readers leave out what comes twice "
            "(docs/guide/outgrow-one-machine.md); or write files: SparkOptions(output=FOLDER)",
        )


def without_effect(settings: Settings) -> Iterator[str]:
    """Return, for each setting that has no meaning on Spark, why."""
    for name in settings:
        verdict = SETTINGS.get(name)
        if verdict is not None and verdict.what == NONE:
            yield f"{name} has no effect on Spark: {verdict.text}"


def client(settings: Settings) -> dict[str, str]:
    """Return the properties of Kafka's client that Spark's client needs too."""
    return {name: str(settings.get(name)) for name in settings if name.startswith(_CLIENT)}
