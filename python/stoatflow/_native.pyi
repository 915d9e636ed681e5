"""The boundary between the Python package and its Rust engine.

Takes plain data and tables of callables, returns handles. Only `_runtime.bridge` imports it. Every error that it raises
is a class of `stoatflow.errors`, found by its kind in `ERRORS_BY_KIND` and built as `cls(message, kind=...,
next_step=..., coordinates={...})`: `message` has no coordinates (the class adds them and the next step to its text),
`coordinates` holds only known values, under the names `function`, `node`, `store`, `topic`, `partition`, `offset`,
`lane`, `epoch`. An exception of a user's function is the `__cause__`.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

from stoatflow._admin import (
    AdminCall,
    AdminHooks,
    Counter,
    Gauge,
    Histogram,
    HistogramTimer,
    MetricRegistry,
)
from stoatflow._formats import AvroFormat, JsonSchemaFormat, ProtobufFormat
from stoatflow._processing import (
    Cancellable,
    KeyLocks,
    KeyValueStore,
    ProcessorContext,
    SessionStore,
    StoreIterator,
    TimerStore,
    TimestampedKeyValueStore,
    VersionedKeyValueStore,
    WindowStore,
)
from stoatflow._views import JsonArray, JsonObject, to_python
from stoatflow.metrics import Metrics
from stoatflow.serdes import Serde

__all__ = [
    "AdminCall",
    "AdminHooks",
    "ArrowBatch",
    "AvroFormat",
    "Cancellable",
    "Counter",
    "Driver",
    "EmbeddedBroker",
    "Engine",
    "Gauge",
    "Histogram",
    "HistogramTimer",
    "JsonArray",
    "JsonObject",
    "JsonSchemaFormat",
    "KeyLocks",
    "KeyValueStore",
    "LastResort",
    "MetricRegistry",
    "Plan",
    "ProcessorContext",
    "ProtobufFormat",
    "SessionStore",
    "StateChanges",
    "StateReader",
    "StateRows",
    "StateSnapshot",
    "StoreBatches",
    "StoreIterator",
    "TimerStore",
    "TimestampedKeyValueStore",
    "TopicReader",
    "TopicsClient",
    "TransactionalWriter",
    "VersionedKeyValueStore",
    "WindowStore",
    "WorkerClient",
    "__version__",
    "built_with",
    "check_settings",
    "compile",
    "error_kinds",
    "evaluate",
    "exit_after",
    "headers_from_bytes",
    "log_to",
    "murmur2",
    "node_kinds",
    "open_transactions",
    "plan_settings",
    "remove_orphans",
    "reset",
    "settings_schema",
    "streams_config_markdown",
    "take_log_lines",
    "to_python",
]

__version__: str

def compile(
    plan_json: bytes,
    functions: list[Callable[..., Any]],
    function_names: list[str],
    serdes: list[Serde[Any]],
    processors: list[Callable[[], Any]] = ...,
    processor_names: list[str] = ...,
    metrics: Metrics | None = None,
) -> Plan:
    """Check a plan and compile it to a physical plan.

    The plan's indices point into `functions`, `serdes` and `processors` (suppliers of processors). `serdes` holds only
    custom serdes (`serialize(value) -> bytes`, `deserialize(bytes) -> value`, never called with null). Raises
    `TopologyError`.
    """

def check_settings(pairs: list[tuple[str, object]]) -> None:
    """Raise one `ConfigError` that lists every problem. Values are str, int, float, bool or None."""

def plan_settings(pairs: list[tuple[str, object]]) -> tuple[list[str | None], bool]:
    """Configured defaults, and whether self-joins keep one store.

    The defaults are those of key serde, value serde, timestamp extractor, as names; `custom` is one written in code.
    They are followed by the serdes of the entries of lists in keys and in values.
    """

def streams_config_markdown() -> str:
    """Every name of Kafka Streams' `StreamsConfig` and how it is treated, as Markdown tables."""

def settings_schema() -> list[tuple[str, str, str | None, str]]:
    """Name, type, default and text of every setting."""

def evaluate(expression_json: str, key: object, value: object, timestamp: int) -> object:
    """Evaluate an expression for a record; a result that is no scalar is returned as JSON."""

def log_to(directives: str, to_python: bool) -> None:
    """Send log lines that pass these directives (as `RUST_LOG`, which overrides them) to Python or standard error."""

def take_log_lines(timeout_s: float) -> list[str]:
    """Return the pending log lines, each a JSON object; wait for one if there is none."""

def murmur2(key: bytes) -> int:
    """Kafka's hash of a key, made positive."""

def node_kinds() -> list[str]:
    """The tags (`op`) that a plan may hold."""

def error_kinds() -> list[tuple[str, str, str]]:
    """Name of every error kind, the action that it asks for, and its exception class."""

def open_transactions(plan: Plan, pairs: list[tuple[str, object]], broker: EmbeddedBroker | None = None) -> str:
    """Ask the broker once for the open transactions in the topics that a plan reads; return them as JSON."""

def remove_orphans(
    plan: Plan,
    pairs: list[tuple[str, object]],
    named: list[str],
    agree: Callable[[str], object] | None = None,
    broker: EmbeddedBroker | None = None,
) -> str:
    """Remove changelogs and local rows of stores that the plan doesn't have; return what was removed as JSON.

    `named` are topics to delete although only their names tell that they belong to the application. Without `agree`
    nothing is changed. Otherwise `agree` is called with the JSON once the application is fenced and before anything is
    changed; if it raises, nothing is changed.
    """

def reset(
    plan: Plan,
    pairs: list[tuple[str, object]],
    to: str,
    of: int | str,
    topics: list[str],
    agree: Callable[[str], object] | None = None,
    broker: EmbeddedBroker | None = None,
) -> str:
    """Rewind an application and delete its state; return what was done as JSON.

    `to` is `earliest`, `latest`, `since` or `ago` (milliseconds), `offset`, `shift`, or `group` with its name; empty
    `topics` means all. Without `agree` nothing is changed. Otherwise `agree` is called with the JSON once the
    application is fenced and before anything is changed; if it raises, the reset ends.
    """

@final
class ArrowBatch:
    """A batch of records as Arrow columns; `pyarrow.record_batch` and others read it without a copy."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return schema and columns, for the C data interface."""
    def __arrow_c_schema__(self) -> object:
        """Return the schema."""
    def __len__(self) -> int: ...

@final
class StoreBatches:
    """The rows of a store, batch by batch. Holds a snapshot of the store until it is dropped."""

    def next(self) -> ArrowBatch | None:
        """Return the next batch; `None` after the last one. Raises once the application has ended."""
    def __arrow_c_schema__(self) -> object:
        """Return the schema of all batches."""

@final
class Plan:
    """A checked plan with its functions."""

    @property
    def description(self) -> str:
        """The text of Kafka Streams' `topology.describe()`."""
    @property
    def physical_json(self) -> str:
        """The physical plan as JSON (`stores` has name, key and value serde)."""
    def check_names(self) -> None:
        """Raise `TopologyError` for stores whose names were generated, with the argument to add for each."""
    def with_handlers(self, handlers_json: str, functions: list[Callable[..., Any]], function_names: list[str]) -> Plan:
        """Return the plan with an application's handlers; their callables are numbered from 0."""

@final
class EmbeddedBroker:
    """Topics in a directory, or in a temporary one that `close` removes."""

    def __new__(cls, path: str | None = None) -> EmbeddedBroker: ...
    @property
    def path(self) -> str:
        """Path of the directory."""
    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; one that exists with the same number of partitions stays as it is."""
    def topics(self) -> list[tuple[str, int]]:
        """Name and number of partitions of each topic, by name."""
    def produce_many(self, topic: str, records: Sequence[tuple[int | None, bytes | None, bytes | None, int]]) -> int:
        """Append (partition or None, key, value, timestamp); return how many. Raises `MissingTopicError`."""
    def fetch(
        self, topic: str, partition: int, offset: int, max_records: int
    ) -> list[tuple[int, bytes | None, bytes | None, int]]:
        """Return committed records (offset, key, value, timestamp), starting at an offset."""
    def end_offsets(self, topic: str) -> list[int]:
        """Offset of the next committed record of each partition."""
    def close(self) -> None:
        """Release the directory; may be called more than once."""

def built_with() -> list[tuple[str, str]]:
    """Names and versions of what the native module is built with."""

def exit_after(code: int, seconds: float) -> None:
    """End the process after this many seconds, in any case."""

@final
class LastResort:
    """Ends the process when a function holds the interpreter and Python can't run its signal handler."""

    def __new__(cls, engine: Engine) -> LastResort:
        """Start watching this engine; lives as long as the main thread waits for the engine."""
    def fileno(self) -> int:
        """The descriptor for `signal.set_wakeup_fd`."""
    def close(self) -> None:
        """Stop watching: the main thread runs again."""

@final
class StateSnapshot:
    """A snapshot of the stores as of one commit."""

    @property
    def epoch(self) -> int:
        """Number of the commit's epoch in this run; 0: the state that earlier runs left."""
    def positions(self) -> list[tuple[str, int, int]]:
        """Topic, partition and the next offset to read, for each input partition."""
    def reader(self, store: str, headers: bool = False) -> StateReader:
        """Return a reader of one store. With `headers`, values are lists of their headers, as bytes, and themselves."""
    def close(self) -> None:
        """Release the snapshot; may be called more than once."""

@final
class StateReader:
    """Reads one store of a snapshot."""

    @property
    def kind(self) -> str:
        """The kind of the store."""
    def get(self, of: Any) -> tuple[Any, int] | None:
        """Return value and time of a key."""
    def get_many(self, of: list[Any]) -> list[tuple[Any, int] | None]:
        """Return value and time of each of these keys."""
    def rows(self, lo: Any = None, hi: Any = None, prefix: Any = None, reverse: bool = False) -> StateRows:
        """Return entries in the order of the keys' bytes."""
    def count(self, lo: Any = None, hi: Any = None, prefix: Any = None) -> int:
        """Count the keys."""
    def find(
        self, query_json: bytes, cursor: bytes | None = None
    ) -> tuple[list[tuple[Any, Any, int]], bytes | None, tuple[str, str | None, int, bool, bool, int, int]]:
        """Return a page of rows that meet a condition, the cursor of the next page, and how the rows were found."""
    def explain(self, query_json: bytes) -> tuple[str, str | None, int, bool, bool, int, int]:
        """Return how rows would be found."""
    def window(self, of: Any, start: int) -> tuple[Any, int] | None:
        """Return value and time of one window."""
    def windows(self, lo: Any, hi: Any, frm: int, to: int, reverse: bool) -> list[tuple[Any, Any, int]]:
        """Return the windows of some keys that start between both times."""
    def sessions(
        self, lo: Any, hi: Any, earliest_end: int, latest_start: int, reverse: bool
    ) -> list[tuple[Any, Any, int]]:
        """Return the sessions of some keys that end at or after one time and start at or before another."""
    def version(self, of: Any, as_of: int | None = None) -> tuple[Any, int, int | None] | None:
        """Return the version of a key that is valid now, or was valid at a time."""
    def history(self, of: Any, frm: int, to: int) -> list[tuple[Any, int, int | None]]:
        """Return the versions of a key that were valid at some time between both, the oldest first."""

@final
class StateRows:
    """Entries of a store, read page by page."""

    def __iter__(self) -> StateRows: ...
    def __next__(self) -> tuple[Any, Any, int]: ...
    def close(self) -> None:
        """Drop the rows not read yet."""

@final
class StateChanges:
    """Follows the changes of a store, commit by commit."""

    def next(self) -> tuple[int, list[tuple[str, int, int]], bool, bool, list[tuple[Any, Any, int]]] | None:
        """Return epoch, positions, part of the snapshot, last of its commit, rows; `None`: nothing now, or the end."""
    def is_over(self) -> bool:
        """Whether it has ended, once `next` returns `None`."""
    def wait(self, seconds: float) -> None:
        """Wait until `next` may have something, at most this long."""
    def fileno(self) -> int:
        """Return the descriptor to wait for."""
    def wake_later(self) -> bool:
        """Make the descriptor readable when `next` may have something; false if it may have something already."""
    def close(self) -> None:
        """End it; may be called more than once."""

@final
class Engine:
    """One run of one application. Its constructor checks everything and starts nothing."""

    def __new__(
        cls,
        plan: Plan,
        pairs: list[tuple[str, object]],
        broker: EmbeddedBroker | None = None,
        listener: Callable[[str, str], None] | None = None,
        on_restore: Callable[[str, str, str, int, int, int], None] | None = None,
        uncaught: Callable[[BaseException], str] | None = None,
        origins: list[tuple[str, str]] = ...,
    ) -> Engine:
        """`listener(new, old)` is called at every change of state, in a thread of the engine.

        `on_restore(step, store, topic, partition, first, second)` is called for changelog partitions: `start` with the
        first offset and the end, `batch` with position and records, `end` and `suspended` with all records.
        `uncaught(error)` returns `REPLACE_THREAD` or another response to an error that would end the application. With
        `broker` the engine runs on this open broker; `bootstrap.servers` may then be left out. `origins`: where
        settings come from, as `Settings.origin` returns it.
        """
    def start(self) -> None:
        """Start in the background; returns at once, even if the broker can't be reached."""
    def request_stop(self, within_s: float | None = None) -> None:
        """Drain, commit and stop, or give up after `within_s`; returns at once. May be called after the end."""
    def shutdown_timeout_s(self) -> float:
        """`shutdown.timeout.ms`, in seconds."""
    def has_left_behind(self) -> bool:
        """Whether it has ended but left a thread running. The interpreter must not be finalized meanwhile."""
    def abort(self) -> None:
        """Stop without a last commit; returns at once. May be called after the end."""
    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait, with the interpreter detached, until the engine has stopped.

        Returns False if it still runs after the timeout. Raises the error that it failed with, at every call.
        """
    def clean_up(self) -> None:
        """Remove the local state of an application that is not running. Raises `StateLockedError`."""
    def pause(self) -> None:
        """Stop reading; what was read is committed. Returns at once; the state becomes PAUSED when all is committed."""
    def resume(self) -> None:
        """Read again; returns at once."""
    def is_paused(self) -> bool:
        """Whether reading is paused."""
    def state(self) -> str:
        """CREATED, STARTING, RESTORING, RUNNING, PAUSED, STOPPING, STOPPED or ERROR."""
    def lag(self) -> int:
        """Number of records of the source topics that are not committed yet."""
    def positions(self) -> list[tuple[str, int, int, int]]:
        """Topic, partition, committed position and end of each source partition."""
    def metrics_json(self) -> str:
        """All metrics as a JSON object."""
    def restore_progress(self) -> list[tuple[str, int, int, bool]]:
        """Return all stores with a changelog: name, records to read, records read, and whether it has caught up."""
    def hint(self, node: str, function: str, text: str) -> None:
        """Log a hint about a function of a node (INFO, `stoatflow::hint`)."""
    def snapshot(
        self, store: str | None = None, at_least: list[tuple[str, int, int]] = ..., timeout_s: float = 0.0
    ) -> StateSnapshot:
        """Return a snapshot of a store, or of all; first wait until input before these positions is committed."""
    def follow(
        self,
        store: str,
        at_least: tuple[list[tuple[str, int, int]], float],
        given: tuple[bool, int],
        keys: tuple[Any, Any, Any],
        query_json: bytes,
    ) -> StateChanges:
        """Follow a store; `given`: whether it begins with a snapshot, and how many bytes may wait to be read."""
    def store_kind(self, name: str) -> str:
        """Return the kind of a store."""
    def parked(self, name: str) -> list[tuple[Any, Any, int, int, int, int | None, str, str]]:
        """Records that an offload has parked: key, value, timestamp, since, attempt, due, state, correlation."""
    def store_batches(self, name: str, schema: str | None, max_rows: int) -> StoreBatches:
        """Read a store as of the last commit; `schema` holds the columns of its values, as JSON."""
    def activity_json(self, thread: int) -> str | None:
        """What a thread (`threading.get_ident()`) of the application is doing, as JSON; `None` for other threads.

        Lane, epoch, function, node, topic, partition, offset: `None` where unknown.
        """
    def admin_url(self) -> str | None:
        """URL of the admin port, if it is enabled and open."""

@final
class Driver:
    """The engine on an embedded broker, with a virtual clock and a barrier after each record.

    Its topics have one partition. Every method that runs the engine raises the error that it failed with.
    """

    def __new__(cls, plan: Plan, pairs: list[tuple[str, object]], lanes: int, start_ms: int) -> Driver: ...
    def pipe(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        """Append one record and run until nothing is left to do."""
    def pipe_all(self, records: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Like `pipe` for each record of partition 0: topic, then key, value, timestamp and headers."""
    def hold(self) -> None:
        """Process records without a barrier from now on; neighbours of one topic in batches."""
    def release(self) -> None:
        """Commit what was piped since `hold`; does nothing after a crash."""
    def drain(self, topic: str) -> list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]:
        """Committed records that the topology wrote to a topic since the last call: key, value, timestamp, headers.

        Records that `pipe` put there are not among them.
        """
    def advance_wall_clock(self, ms: int) -> None:
        """Advance the virtual clock and run what is due."""
    def advance_watermark(self, to: int) -> None:
        """Raise the application's watermark, and commit."""
    def watermark(self) -> int:
        """The application's watermark as of the last commit; -1 if it has none."""
    def barrier(self) -> None:
        """Commit now."""
    def crash(self) -> None:
        """End as if killed by SIGKILL: what isn't committed is lost. Only `restart` may follow."""
    def restart(self, lanes: int) -> None:
        """Recover from what is committed, with this many lanes (after a crash or a clean stop)."""
    def store_scan(
        self, name: str, from_key: bytes | None, to_key: bytes | None, limit: int | None
    ) -> list[tuple[bytes, bytes, int]]:
        """Committed entries (key, value, timestamp) in the order of key bytes, both ends included."""
    def store_headers(self, name: str, key: bytes) -> tuple[tuple[str, bytes | None], ...] | None:
        """The headers of a key's value; `None` without a value."""
    def store_rows(self, name: str) -> list[tuple[bytes, tuple[int, int] | None, bytes, int]]:
        """All rows of a store (key, window, value, timestamp), by key bytes, then window."""
    def version(self, name: str, key: bytes, as_of: int | None) -> tuple[bytes, int] | None:
        """The version of a key that is valid now, or was at a time: value, and since when."""
    def parked(self, name: str) -> list[tuple[Any, Any, int, int, int, int | None, str, str]]:
        """Records that an offload has parked: key, value, timestamp, since, attempt, due, state, correlation."""
    def store_batches(self, name: str, schema: str | None, max_rows: int) -> StoreBatches:
        """Read a store as of the last commit; `schema` holds the columns of its values, as JSON."""
    def metrics_json(self) -> str:
        """All metrics as a JSON object, since the driver was created or restarted."""
    def produced_topics(self) -> list[str]:
        """Names of the topics that the topology wrote to."""
    def close(self) -> None:
        """Stop cleanly and remove all files; may be called more than once."""

@final
class TopicsClient:
    """Topics of a broker, through the engine's client: their partitions, records by offset, and a writer."""

    def __new__(cls, pairs: list[tuple[str, object]], broker: EmbeddedBroker | None = None) -> TopicsClient: ...
    @property
    def address(self) -> str:
        """The broker's address."""
    def topic(self, name: str) -> tuple[int, str | None] | None:
        """Return the number of partitions and the topic's id, if it has one; `None` if there is no such topic."""
    def ranges(self, topic: str, partitions: int) -> list[tuple[int, int]]:
        """Return the first offset and the end of each partition, as a `read_committed` reader sees it."""
    def keeps_latest(self, topic: str) -> bool:
        """Whether the topic keeps the latest record of each key (compaction)."""
    def create_topic(self, name: str, partitions: int, config: list[tuple[str, str]]) -> None:
        """Create a topic with the broker's default replication; an existing one stays as it is."""
    def read(self, topic: str, partition: int, begin: int, until: int) -> TopicReader:
        """Return a reader of the committed records of a partition, from one offset up to another."""
    def writer(self, transactional_id: str) -> TransactionalWriter:
        """Open a transactional writer; it fences an older one with this id, and aborts its open transaction."""

@final
class TopicReader:
    """Reads one partition from an offset up to another."""

    def next(self, most: int) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
        """Return at most `most` records (offset, timestamp, key, value, headers); none at the end."""

@final
class TransactionalWriter:
    """Writes in transactions: `begin`, `send` any number of times, `flush`, `commit` or `abort`."""

    def begin(self) -> None:
        """Begin a transaction."""
    def send(
        self,
        records: list[tuple[str, int | None, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    ) -> None:
        """Queue records (topic, partition or None, key, value, timestamp, headers) to be sent."""
    def flush(self) -> None:
        """Wait until all queued records are acknowledged."""
    def commit(self) -> bool:
        """Commit; false if the broker has aborted it instead."""
    def abort(self) -> None:
        """Abort the transaction."""

@final
class WorkerClient:
    """The topics of a worker: reads requests, sends answers, commits the offsets of answered requests.

    The group is `application.id`. A worker reads the partitions whose number modulo `shares` is `share`. A newer worker
    of the same group, requests and share takes over, and this one fails with `FencedError`.
    """

    def __new__(
        cls,
        pairs: list[tuple[str, object]],
        requests: str,
        responses: str,
        share: int,
        shares: int,
        broker: EmbeddedBroker | None = None,
    ) -> WorkerClient: ...
    def partitions(self) -> list[int]:
        """Return the partitions that the worker reads."""
    def poll(
        self, most: int, timeout_s: float
    ) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
        """Return up to `most` requests (partition, offset, key, value, headers); wait for the first one."""
    def answer(
        self, answers: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
    ) -> list[tuple[int, str]]:
        """Queue answers (key, value, headers); they are sent in the background.

        Returns the indexes of answers that can't be sent, such as one that is too large, each with the reason.
        """
    def commit(self, positions: list[tuple[int, int]]) -> None:
        """Wait until all answers are acknowledged, then commit positions (partition, next offset)."""
    def close(self) -> None:
        """Close the clients; may be called more than once."""

def headers_from_bytes(data: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that a reader with headers returns beside a value."""
