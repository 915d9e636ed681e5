"""The border between the package and its Rust engine, and nothing more.

Takes plain data and tables of callables, gives handles. Only `_runtime.bridge` imports it. Every error that
leaves it is a class of `stoatflow.errors`, found by its kind in `ERRORS_BY_KIND` and built as
`cls(message, kind=..., next_step=..., coordinates={...})`: `message` is the bare one (the class adds
coordinates and the next step to its text), `coordinates` holds only what is known, under the names
`function`, `node`, `store`, `topic`, `partition`, `offset`, `lane`, `epoch`. An exception of a user's
function becomes the `__cause__`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final, overload

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
from stoatflow.serdes import Serde

__all__ = [
    "ArrowBatch",
    "AvroFormat",
    "Cancellable",
    "Driver",
    "EmbeddedBroker",
    "Engine",
    "JsonArray",
    "JsonObject",
    "JsonSchemaFormat",
    "KeyLocks",
    "KeyValueStore",
    "LastResort",
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
    "log_to",
    "node_kinds",
    "open_transactions",
    "remove_orphans",
    "reset",
    "settings_schema",
    "source_defaults",
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
) -> Plan:
    """Check a plan and cut it into what will run.

    `functions`, `serdes` and `processors` (what makes them) are the tables that the plan's indices point into.
    Only custom serdes
    cross (`serialize(value) -> bytes`, `deserialize(bytes) -> value`, never called with null).
    Raises `TopologyError`.
    """

def check_settings(pairs: list[tuple[str, object]]) -> None:
    """Raise one `ConfigError` with every problem. Values are str, int, float, bool or None."""

def source_defaults(pairs: list[tuple[str, object]]) -> list[str | None]:
    """Words for the key's serde, the value's and the timestamp extractor, of what is set; `custom` is one of code."""

def streams_config_markdown() -> str:
    """Every name of Kafka Streams' `StreamsConfig` with what becomes of it, as Markdown tables."""

def settings_schema() -> list[tuple[str, str, str | None, str]]:
    """Name, type, default and text of every setting."""

def evaluate(expression_json: str, key: object, value: object, timestamp: int) -> object:
    """The value of an expression for a record, with what is no scalar as JSON."""

def log_to(directives: str, to_python: bool) -> None:
    """Send the log lines that these directives let through to Python, or to standard error.

    They are as those of `RUST_LOG`, which goes before them.
    """

def take_log_lines(timeout_s: float) -> list[str]:
    """Give the log lines that wait, each a JSON object; wait for one if there is none."""

def node_kinds() -> list[str]:
    """The tags (`op`) that a plan may hold."""

def error_kinds() -> list[tuple[str, str, str]]:
    """The name of every error kind, the action it asks for, and the class of its exceptions."""

def open_transactions(plan: Plan, pairs: list[tuple[str, object]], broker: EmbeddedBroker | None = None) -> str:
    """Give the open transactions in the topics that a plan reads, as JSON; ask the broker once."""

def remove_orphans(
    plan: Plan,
    pairs: list[tuple[str, object]],
    named: list[str],
    agree: Callable[[str], object] | None = None,
    broker: EmbeddedBroker | None = None,
) -> str:
    """Remove changelogs and local rows of stores that a plan doesn't have; give what was removed as JSON.

    `named` are topics to delete although only their names say that they are the application's. Without `agree`
    nothing is changed; otherwise it is called with the JSON once the application is fenced and before anything is
    changed, and what it raises ends it.
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
    """Rewind an application and throw its state away; give what was done as JSON.

    `to` is `earliest`, `latest`, `since` or `ago` (milliseconds), `offset`, `shift`, or `group` with its name;
    `topics` are all if empty.
    Without `agree` nothing is changed; otherwise it is called with the JSON once the application is fenced and
    before anything is changed, and what it raises ends the reset.
    """

@final
class ArrowBatch:
    """A batch of records, as columns: what `pyarrow.record_batch` and others read without a copy."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Give schema and columns, for the C data interface."""
    def __arrow_c_schema__(self) -> object:
        """Give the schema."""
    def __len__(self) -> int: ...

@final
class StoreBatches:
    """What a store holds, batch by batch. It holds a snapshot until it is gone."""

    def next(self) -> ArrowBatch | None:
        """Give the next batch; None: that was all. Raises once the application has ended."""
    def __arrow_c_schema__(self) -> object:
        """Give the schema of all batches."""

@final
class Plan:
    """A checked plan with its functions."""

    @property
    def description(self) -> str:
        """The text of Kafka Streams' `topology.describe()`."""
    @property
    def physical_json(self) -> str:
        """What will run, as JSON (`stores` say name, key and value serde)."""
    def check_names(self) -> None:
        """Raise `TopologyError` for stores whose names were generated, with the argument to add for each."""
    def with_handlers(self, handlers_json: str, functions: list[Callable[..., Any]], function_names: list[str]) -> Plan:
        """The same with an application's handlers; their callables are numbered from 0."""

@final
class EmbeddedBroker:
    """Topics in a directory, or in a temporary one that `close` removes."""

    def __new__(cls, path: str | None = None) -> EmbeddedBroker: ...
    @property
    def path(self) -> str:
        """The directory."""
    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; one that exists with as many partitions stays as it is."""
    def topics(self) -> list[tuple[str, int]]:
        """Name and number of partitions, by name."""
    def produce_many(self, topic: str, records: Sequence[tuple[int | None, bytes | None, bytes | None, int]]) -> int:
        """Append (partition, key, value, timestamp); without a partition the key decides (murmur2).

        Gives how many. Raises `MissingTopicError`.
        """
    def fetch(
        self, topic: str, partition: int, offset: int, max_records: int
    ) -> list[tuple[int, bytes | None, bytes | None, int]]:
        """Committed records (offset, key, value, timestamp) from an offset on."""
    def end_offsets(self, topic: str) -> list[int]:
        """Where the next committed record of each partition will stand."""
    def close(self) -> None:
        """Let go of the directory; more than once is allowed."""

def built_with() -> list[tuple[str, str]]:
    """What the native half is built with: names and versions."""

def exit_after(code: int, seconds: float) -> None:
    """End the process then, whatever happens meanwhile."""

@final
class LastResort:
    """Ends the process where a function keeps the interpreter and Python can't."""

    def __new__(cls, engine: Engine) -> LastResort:
        """For as long as the main thread waits for this engine."""
    def fileno(self) -> int:
        """Where `signal.set_wakeup_fd` is to write."""
    def close(self) -> None:
        """The main thread is back."""

@final
class StateSnapshot:
    """One commit."""

    @property
    def epoch(self) -> int:
        """Its number in this run; 0: what earlier runs have left."""
    def positions(self) -> list[tuple[str, int, int]]:
        """Topic, partition and the next offset to read."""
    def reader(self, store: str) -> StateReader:
        """Read a store of it."""
    def close(self) -> None:
        """Let it go; more than once is allowed."""

@final
class StateReader:
    """A store of a snapshot."""

    @property
    def kind(self) -> str:
        """What kind of store it is."""
    def get(self, of: Any) -> tuple[Any, int] | None:
        """Value and time of a key."""
    def get_many(self, of: list[Any]) -> list[tuple[Any, int] | None]:
        """Value and time of each of these keys."""
    def rows(self, lo: Any = None, hi: Any = None, prefix: Any = None, reverse: bool = False) -> StateRows:
        """Entries in the order of the keys' bytes."""
    def count(self, lo: Any = None, hi: Any = None, prefix: Any = None) -> int:
        """How many keys there are."""
    def find(
        self, query_json: bytes, cursor: bytes | None = None
    ) -> tuple[list[tuple[Any, Any, int]], bytes | None, tuple[str, str | None, int, bool, int, int]]:
        """A page of rows that meet a condition, where the next one begins, and how they were found."""
    def explain(self, query_json: bytes) -> tuple[str, str | None, int, bool, int, int]:
        """How rows would be found."""
    def window(self, of: Any, start: int) -> tuple[Any, int] | None:
        """Value and time of one window."""
    def windows(self, lo: Any, hi: Any, frm: int, to: int, reverse: bool) -> list[tuple[Any, Any, int]]:
        """Windows of some keys that start within both times."""
    def sessions(
        self, lo: Any, hi: Any, earliest_end: int, latest_start: int, reverse: bool
    ) -> list[tuple[Any, Any, int]]:
        """Sessions of some keys that end at or after one time and start at or before another."""
    def version(self, of: Any, as_of: int | None = None) -> tuple[Any, int, int | None] | None:
        """The version of a key that holds, or held at a time."""
    def history(self, of: Any, frm: int, to: int) -> list[tuple[Any, int, int | None]]:
        """The versions of a key that held at some time within both, the oldest first."""

@final
class StateRows:
    """Entries of a store, read page by page."""

    def __iter__(self) -> StateRows: ...
    def __next__(self) -> tuple[Any, Any, int]: ...
    def close(self) -> None:
        """Forget the rest."""

@final
class StateChanges:
    """A store that is followed."""

    def next(self) -> tuple[int, list[tuple[str, int, int]], bool, bool, list[tuple[Any, Any, int]]] | None:
        """Epoch, positions, of the snapshot? last of its commit? rows; `None`: nothing now, or no more."""
    def is_over(self) -> bool:
        """Has it ended, once `next` gives nothing?"""
    def wait(self, seconds: float) -> None:
        """Wait until `next` may have something, at most this long."""
    def fileno(self) -> int:
        """Give the descriptor to wait for."""
    def wake_later(self) -> bool:
        """Make it readable when `next` may have something; false: it may already."""
    def close(self) -> None:
        """End it; more than once is allowed."""

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
        """`listener(new, old)` hears of every change of state, from a thread of the engine.

        `on_restore(step, store, topic, partition, first, second)` hears of changelog partitions: `start` with the
        first offset and the end, `batch` with position and records, `end` and `suspended` with all records.
        `uncaught(error)` says `REPLACE_THREAD` or another word about an error that would end the application.
        With `broker` the engine runs on this open broker; `bootstrap.servers` may then be left out.
        `origins`: where settings came from, as `Settings.origin` says it.
        """
    def start(self) -> None:
        """Start in the background; returns at once, also if the broker is far away."""
    def request_stop(self, within_s: float | None = None) -> None:
        """Drain, commit and stop, or give up after `within_s`; returns at once. Also after the end."""
    def shutdown_timeout_s(self) -> float:
        """`shutdown.timeout.ms`, in seconds."""
    def has_left_behind(self) -> bool:
        """Has it ended while a thread of it goes on? The interpreter must not be finalized under that one."""
    def abort(self) -> None:
        """Stop without the last commit; returns at once. Also after the end."""
    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait, with the interpreter detached, until the engine has stopped.

        False if it still runs after the time. Raises the error it failed with, at every call.
        """
    def clean_up(self) -> None:
        """Remove the local state of an application that is not running. Raises `StateLockedError`."""
    def pause(self) -> None:
        """Stop reading: what was read is committed. Returns at once; the state says PAUSED when all is committed."""
    def resume(self) -> None:
        """Read on; returns at once."""
    def is_paused(self) -> bool:
        """Is nothing to be read?"""
    def state(self) -> str:
        """CREATED, STARTING, RESTORING, RUNNING, PAUSED, STOPPING, STOPPED or ERROR."""
    def lag(self) -> int:
        """Records of the source topics that are not committed yet."""
    def positions(self) -> list[tuple[str, int, int, int]]:
        """Of each source partition: topic, number, committed position, end."""
    def metrics_json(self) -> str:
        """All metrics as a JSON object."""
    def restore_progress(self) -> list[tuple[str, int, int, bool]]:
        """Give all stores that have a changelog: name, records to read, records read, has it caught up."""
    def hint(self, node: str, function: str, text: str) -> None:
        """Log a hint about a function of a node (INFO, `stoatflow::hint`)."""
    def snapshot(
        self, store: str | None = None, at_least: list[tuple[str, int, int]] = ..., timeout_s: float = 0.0
    ) -> StateSnapshot:
        """Take one commit of a store, or of all; wait until input before these positions is committed."""
    def follow(
        self,
        store: str,
        at_least: tuple[list[tuple[str, int, int]], float],
        given: tuple[bool, int],
        keys: tuple[Any, Any, Any],
        query_json: bytes,
    ) -> StateChanges:
        """Follow a store; `given`: does it begin with a snapshot, how many bytes may wait."""
    def store_kind(self, name: str) -> str:
        """Say what kind of store this is."""
    def parked(self, name: str) -> list[tuple[Any, Any, int, int, int, int | None, str, str]]:
        """What an offload has parked: key, value, timestamp, since, attempt, due, state, correlation."""
    def store_batches(self, name: str, schema: str | None, max_rows: int) -> StoreBatches:
        """What a store holds, as of the last commit; `schema`: the columns of its values, as JSON."""
    def activity_json(self, thread: int) -> str | None:
        """What a thread (`threading.get_ident()`) is doing for the application, as JSON; `None` if it is none of its.

        Lane, epoch, function, node, topic, partition, offset: `None` where it isn't known.
        """
    def admin_url(self) -> str | None:
        """Where the admin port answers, if it is on and open."""

@final
class Driver:
    """The engine on an embedded broker, with a virtual clock and a barrier after each record.

    Its topics have one partition. Every method that moves the engine raises the error it failed with.
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
    def hold(self) -> None:
        """From now on records are processed without a barrier; neighbours of one topic in batches."""
    def release(self) -> None:
        """Commit what was piped since `hold`; nothing to do after a crash."""
    def drain(self, topic: str) -> list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]:
        """Committed records that the topology wrote to a topic since the last call: key, value, timestamp, headers.

        Records that `pipe` put there are not among them.
        """
    def advance_wall_clock(self, ms: int) -> None:
        """Move the virtual clock and run what falls due."""
    def advance_watermark(self, to: int) -> None:
        """Raise the application's watermark, and commit."""
    def watermark(self) -> int:
        """The application's watermark of the last commit; -1: none yet."""
    def barrier(self) -> None:
        """Commit now."""
    def crash(self) -> None:
        """End as by SIGKILL: what isn't committed is gone. `restart` is the only way on."""
    def restart(self, lanes: int) -> None:
        """Recover from what is committed, with this many lanes (after a crash or a clean stop)."""
    def store_scan(
        self, name: str, from_key: bytes | None, to_key: bytes | None, limit: int | None
    ) -> list[tuple[bytes, bytes, int]]:
        """Committed entries (key, value, timestamp) in the order of key bytes, both ends included."""
    def store_rows(self, name: str) -> list[tuple[bytes, tuple[int, int] | None, bytes, int]]:
        """Everything that a store shows (key, window, value, timestamp), by key bytes, then window."""
    def version(self, name: str, key: bytes, as_of: int | None) -> tuple[bytes, int] | None:
        """What a versioned store holds for a key, or held at a time: value, since when."""
    def parked(self, name: str) -> list[tuple[Any, Any, int, int, int, int | None, str, str]]:
        """What an offload has parked: key, value, timestamp, since, attempt, due, state, correlation."""
    def store_batches(self, name: str, schema: str | None, max_rows: int) -> StoreBatches:
        """What a store holds, as of the last commit; `schema`: the columns of its values, as JSON."""
    def metrics_json(self) -> str:
        """All metrics as a JSON object, since the driver was made or restarted."""
    def produced_topics(self) -> list[str]:
        """Topics that the topology wrote to, by name."""
    def close(self) -> None:
        """Stop cleanly and remove everything; more than once is allowed."""

@final
class TopicsClient:
    """The way to the topics of a broker, through the engine's client: what there is, by position; a writer."""

    def __new__(cls, pairs: list[tuple[str, object]], broker: EmbeddedBroker | None = None) -> TopicsClient: ...
    @property
    def address(self) -> str:
        """Where it is."""
    def topic(self, name: str) -> tuple[int, str | None] | None:
        """Give the number of partitions and the topic's id, if it has one; `None` if there is no such topic."""
    def ranges(self, topic: str, partitions: int) -> list[tuple[int, int]]:
        """Give the first offset and the end of each partition, as a `read_committed` reader sees it."""
    def keeps_latest(self, topic: str) -> bool:
        """Does a record stay until another one of its key comes?"""
    def create_topic(self, name: str, partitions: int, config: list[tuple[str, str]]) -> None:
        """Make a topic with the broker's default of replicas; one that is there stays as it is."""
    def read(self, topic: str, partition: int, begin: int, until: int) -> TopicReader:
        """Give a reader of the committed records of a partition, from one offset up to another."""
    def writer(self, transactional_id: str) -> TransactionalWriter:
        """Open a writer in transactions; it fences an older one with this id, and ends what that one left open."""

@final
class TopicReader:
    """Reads one partition from an offset up to another."""

    def next(self, most: int) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
        """Give the next records (offset, timestamp, key, value, headers), at most so many; none at the end."""

@final
class TransactionalWriter:
    """Writes in transactions: `begin`, `send` as often as need be, `flush`, `commit` or `abort`."""

    def begin(self) -> None:
        """Begin a transaction."""
    def send(
        self,
        records: list[tuple[str, int | None, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    ) -> None:
        """Hand records over (topic, partition or None, key, value, timestamp, headers)."""
    def flush(self) -> None:
        """Wait until all of them are acknowledged."""
    def commit(self) -> bool:
        """Commit; false if the broker has aborted it instead."""
    def abort(self) -> None:
        """End the transaction as one that never was."""

@final
class WorkerClient:
    """The topics of a worker: requests come, answers go, and what is answered is committed.

    The group is `application.id`. A worker reads the partitions whose number leaves `share` when divided by `shares`;
    a newer one of the same group, requests and share takes over, and this one fails with `FencedError`.
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
        """Give the partitions that it reads."""
    def poll(
        self, most: int, timeout_s: float
    ) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
        """Give up to `most` requests (partition, offset, key, value, headers); waits for the first one."""
    def answer(
        self, answers: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
    ) -> list[tuple[int, str]]:
        """Hand answers over (key, value, headers); they go out in the background.

        Give the places of those that can't go, as one that is too large, each with the reason.
        """
    def commit(self, positions: list[tuple[int, int]]) -> None:
        """Wait until all answers are acknowledged, then commit positions (partition, next offset)."""
    def close(self) -> None:
        """Let go of the topics; more than once is allowed."""

def to_python(value: Any) -> Any:
    """Give plain dicts and lists for views, also within dicts, lists and tuples; all else as it is."""

@final
class JsonObject(Mapping[str, Any]):
    """A JSON object, or a record with a schema, as functions see it: members are decoded when they are read.

    It never changes.
    """

    @staticmethod
    def parse(text: str | bytes) -> JsonObject:
        """Give the view of a text, as the engine would; for tests of functions."""
    def to_dict(self) -> dict[str, Any]:
        """Give plain dicts and lists of all of it."""
    def copy(self) -> dict[str, Any]:
        """Give a dict of its members; what is nested stays a view."""
    def get(self, key: str, default: Any = None, /) -> Any:
        """Give the value of a member, or `default`."""
    def __getitem__(self, key: str, /) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __copy__(self) -> dict[str, Any]: ...
    def __deepcopy__(self, memo: Any) -> dict[str, Any]: ...
    def __reversed__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __or__(self, other: Mapping[str, Any], /) -> JsonObject: ...
    def __ror__(self, other: Mapping[str, Any], /) -> JsonObject: ...
    __hash__: None  # type: ignore[assignment]  # as a dict

@final
class JsonArray(Sequence[Any]):
    """A JSON array, or a list with a schema, as functions see it: items are decoded when they are read.

    It never changes.
    """

    @staticmethod
    def parse(text: str | bytes) -> JsonArray:
        """Give the view of a text, as the engine would; for tests of functions."""
    def to_list(self) -> list[Any]:
        """Give plain dicts and lists of all of it."""
    def copy(self) -> list[Any]:
        """Give a list of its items; what is nested stays a view."""
    def count(self, value: Any, /) -> int:
        """Count the items that equal this one."""
    def __copy__(self) -> list[Any]: ...
    def __deepcopy__(self, memo: Any) -> list[Any]: ...
    @overload
    def __getitem__(self, at: int, /) -> Any: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[Any]: ...
    def __len__(self) -> int: ...
    def __add__(self, other: list[Any] | JsonArray, /) -> list[Any]: ...
    def __radd__(self, other: list[Any], /) -> list[Any]: ...
    def __mul__(self, times: int, /) -> list[Any]: ...
    def __rmul__(self, times: int, /) -> list[Any]: ...
    def __lt__(self, other: list[Any] | JsonArray, /) -> bool: ...
    def __le__(self, other: list[Any] | JsonArray, /) -> bool: ...
    def __gt__(self, other: list[Any] | JsonArray, /) -> bool: ...
    def __ge__(self, other: list[Any] | JsonArray, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]  # as a list
