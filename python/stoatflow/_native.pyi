"""The border between the package and its Rust engine, and nothing more.

Takes plain data and tables of callables, gives handles. Only `_bridge` imports it. Every error that
leaves it is a class of `stoatflow.errors`, found by its kind in `ERRORS_BY_KIND` and built as
`cls(message, kind=..., next_step=..., coordinates={...})`: `message` is the bare one (the class adds
coordinates and the next step to its text), `coordinates` holds only what is known, under the names
`function`, `node`, `store`, `topic`, `partition`, `offset`, `lane`, `epoch`. An exception of a user's
function becomes the `__cause__`.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

from stoatflow.serdes import Serde

__all__ = [
    "Driver",
    "EmbeddedBroker",
    "Engine",
    "Plan",
    "__version__",
    "check_settings",
    "compile",
    "error_kinds",
    "node_kinds",
    "settings_schema",
]

__version__: str

def compile(
    plan_json: bytes,
    functions: list[Callable[..., Any]],
    function_names: list[str],
    serdes: list[Serde[Any]],
) -> Plan:
    """Check a plan and cut it into what will run.

    `functions` and `serdes` are the tables that the plan's indices point into. Only custom serdes
    cross (`serialize(value) -> bytes`, `deserialize(bytes) -> value`, never called with null).
    Raises `TopologyError`.
    """

def check_settings(pairs: list[tuple[str, object]]) -> None:
    """Raise one `ConfigError` with every problem. Values are str, int, float, bool or None."""

def settings_schema() -> list[tuple[str, str, str | None, str]]:
    """Name, type, default and text of every setting."""

def node_kinds() -> list[str]:
    """The tags (`op`) that a plan may hold."""

def error_kinds() -> list[tuple[str, str]]:
    """The name of every error kind and the action it asks for."""

@final
class Plan:
    """A checked plan with its functions."""

    @property
    def description(self) -> str:
        """The text of Kafka Streams' `topology.describe()`."""
    @property
    def physical_json(self) -> str:
        """What will run, as JSON (`stores` say name, key and value serde)."""

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

@final
class Engine:
    """One run of one application. Its constructor checks everything and starts nothing."""

    def __new__(
        cls,
        plan: Plan,
        pairs: list[tuple[str, object]],
        broker: EmbeddedBroker | None = None,
        listener: Callable[[str, str], None] | None = None,
    ) -> Engine:
        """`listener(new, old)` hears of every change of state, from a thread of the engine.

        With `broker` the engine runs on this open broker; `bootstrap.servers` may then be left out.
        """
    def start(self) -> None:
        """Start in the background; returns at once, also if the broker is far away."""
    def request_stop(self) -> None:
        """Drain, commit and stop; returns at once. Also after the end."""
    def abort(self) -> None:
        """Stop without the last commit; returns at once. Also after the end."""
    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait, with the interpreter detached, until the engine has stopped.

        False if it still runs after the time. Raises the error it failed with, at every call.
        """
    def state(self) -> str:
        """CREATED, STARTING, RESTORING, RUNNING, STOPPING, STOPPED or ERROR."""
    def lag(self) -> int:
        """Records of the source topics that are not committed yet."""
    def metrics_json(self) -> str:
        """All metrics as a JSON object."""
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
    def produced_topics(self) -> list[str]:
        """Topics that the topology wrote to, by name."""
    def close(self) -> None:
        """Stop cleanly and remove everything; more than once is allowed."""
