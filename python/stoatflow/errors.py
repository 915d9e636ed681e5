"""All errors that a user can get, one class per action that the user has to take.

Takes a message, a kind, a next step and coordinates (from Rust or from the DSL); the exception's text contains them
all. Owns the table from kinds to classes; a test keeps it equal to the engine's. Imports nothing of the package, so
that Rust can import it at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

_ORDER = ("function", "node", "store", "topic", "partition", "offset", "lane", "epoch")


class StoatFlowError(Exception):
    """The base of all errors of StoatFlow.

    >>> try:
    ...     sf.StreamsBuilder().stream("my orders")
    ... except sf.StoatFlowError as error:
    ...     print(error.kind, "|", error.next_step)
    topology | use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'
    """

    default_kind: ClassVar[str] = "internal"
    default_next_step: ClassVar[str] = "report it with the log; the committed results are safe"
    exit_code: ClassVar[int] = 1
    """Exit code of the command line."""

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        next_step: str | None = None,
        coordinates: Mapping[str, object] | None = None,
    ) -> None:
        """Take what the engine or the DSL knows; missing values come from the class."""
        super().__init__(message)
        self.message = message
        self.kind: str = kind or self.default_kind
        self.next_step: str = next_step or self.default_next_step
        self.coordinates: dict[str, object] = {
            name: value for name, value in (coordinates or {}).items() if value is not None
        }
        # The last line of a traceback. Python 3.10 prints no notes.
        self.__notes__: list[str] = [self.more]

    @property
    def more(self) -> str:
        """The command that explains the error, without a network.

        >>> try:
        ...     sf.StreamsBuilder().stream("my orders")
        ... except sf.StoatFlowError as error:
        ...     print(error.more)
        more: stoatflow explain topology
        """
        return f"more: stoatflow explain {self.kind}"

    def __str__(self) -> str:
        """Return message, coordinates, and next step."""
        known = [*_ORDER, *(name for name in self.coordinates if name not in _ORDER)]
        at = ", ".join(f"{name} {self.coordinates[name]}" for name in known if name in self.coordinates)
        text = self.message.rstrip(".")
        return f"{text}{f' [{at}]' if at else ''}. Next: {self.next_step}"

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling (Spark and multiprocessing send exceptions between processes)."""
        return (_rebuild, (type(self), self.message, self.kind, self.next_step, self.coordinates))


def _rebuild(
    cls: type[StoatFlowError], message: str, kind: str, next_step: str, coordinates: dict[str, object]
) -> StoatFlowError:
    return cls(message, kind=kind, next_step=next_step, coordinates=coordinates)


class ConfigError(StoatFlowError, ValueError):
    """Settings are wrong; the message lists every problem at once.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders").to("copy")
    >>> try:
    ...     sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.server": "localhost:9092"})
    ... except sf.ConfigError as error:
    ...     print(error.message.splitlines()[1].strip())
    bootstrap.server = "localhost:9092": there is no such setting; the nearest is bootstrap.servers
    """

    default_kind = "config"
    exit_code = 2
    default_next_step = "fix the settings that the message lists"


class TopologyError(StoatFlowError, ValueError):
    """The topology is not valid; the message names the line.

    >>> try:
    ...     sf.StreamsBuilder().stream("orders").map_values(lambda key, value: value)
    ... except sf.TopologyError as error:
    ...     print(error.next_step)
    to get the key too, write map_values(..., with_key=True)
    """

    default_kind = "topology"
    exit_code = 2
    default_next_step = "fix the topology at the line that the message names"


class SerdeError(StoatFlowError):
    """A record can't be read or written.

    >>> try:
    ...     sf.Serdes.json().deserialize(b"30 EUR")
    ... except sf.SerdeError as error:
    ...     print(error.message)
    the serde 'json' can't read b'30 EUR': Extra data: line 1 column 4 (char 3)
    """

    default_kind = "serde"
    default_next_step = "fix the data, or choose the serde that it was written with"


class ProcessingError(StoatFlowError):
    """A user's function raised; the original exception is the `__cause__`.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders", key=str, value=int).map_values(lambda total: 100 // total).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     try:
    ...         driver.input("orders", str, int).pipe("ann", 0)
    ...     except sf.ProcessingError as error:
    ...         print(repr(error.__cause__), error.coordinates["topic"], error.coordinates["offset"])
    ZeroDivisionError('integer division or modulo by zero') orders 0
    """

    default_kind = "user"
    default_next_step = "fix the function that the message names, then start again: the record is read again"


class BrokerUnavailableError(StoatFlowError):
    """The broker did not answer for as long as the configuration allows.

    >>> registry = sf.SchemaRegistry("http://localhost:8080", timeout="100ms")
    >>> try:
    ...     registry.latest("orders-value")
    ... except sf.BrokerUnavailableError as error:
    ...     print(error.message)
    the schema registry http://localhost:8080 gave no answer within 0.1 s ([Errno 111] Connection refused)
    """

    default_kind = "unavailable"
    default_next_step = "check bootstrap.servers, the broker and the network, then start again"


class FencedError(StoatFlowError):
    """Another instance of the application took over."""

    default_kind = "fenced"
    exit_code = 4
    default_next_step = (
        "nothing if another instance with the same application.id runs now; "
        "if none does, this process stood still for longer than transaction.timeout.ms: start it again"
    )


class MissingTopicError(StoatFlowError):
    """A topic doesn't exist.

    >>> with sf.EmbeddedBroker() as broker:
    ...     try:
    ...         broker.produce("orders", "ann", "30")
    ...     except sf.MissingTopicError as error:
    ...         print(error.message)
    topic 'orders' does not exist at embedded:
    """

    default_kind = "missing_topic"
    default_next_step = "create the topic, or fix its name in the topology"


class AuthorizationError(StoatFlowError):
    """The broker refuses this user.

    >>> registry = sf.SchemaRegistry("http://localhost:8081", user="ann", password="guessed")
    >>> try:
    ...     registry.latest("orders-value")
    ... except sf.AuthorizationError as error:
    ...     print(error.message)
    the schema registry http://localhost:8081 refuses this client (401: Unauthorized)
    """

    default_kind = "unauthorized"
    default_next_step = "grant the broker permission that the message names"


class StateCorruptError(StoatFlowError):
    """The local state is damaged; `state.damaged` says whether it is rebuilt from the changelog.

    >>> from pathlib import Path
    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app", "state.dir": "here"}, broker=broker) as app:
    ...         app.wait_until("RUNNING")
    ...     _ = next(Path("here").rglob("CURRENT")).write_text("damaged")
    ...     try: sf.StoatFlow(builder.build(), {"application.id": "app", "state.dir": "here"}, broker=broker).run()
    ...     except sf.StateCorruptError as error: print(error.kind)
    state_corrupt
    """

    default_kind = "state_corrupt"
    default_next_step = "delete the state directory; it is rebuilt from the changelog topics"


class IncompatibleStateError(StoatFlowError):
    """The local state was written by another format or another topology.

    >>> def app(serde):
    ...     builder = sf.StreamsBuilder()
    ...     builder.table("users", key=str, value=serde, store="users")
    ...     return sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     with app(str) as before: before.wait_until("RUNNING")
    ...     try: app(int).run()
    ...     except sf.IncompatibleStateError as error: print(error.message.partition(",")[0])
    the store 'users' on disk has the format 'key-value-timestamped-1:string:string'
    """

    default_kind = "incompatible"
    default_next_step = "use the version that wrote the state, or delete it and let it be rebuilt"


class StateLockedError(StoatFlowError):
    """The local state is in use by another process.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until("RUNNING")
    ...         try: sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker).clean_up()
    ...         except sf.StateLockedError as error: print(error.next_step)
    stop the other process, or give this one another state.dir
    """

    default_kind = "state_locked"
    default_next_step = "stop the other process, or give this one another state.dir"


class DiskFullError(StoatFlowError):
    """No space is left for the local state."""

    default_kind = "disk_full"
    default_next_step = "free space on the disk of state.dir, then start again"


class UnknownOutcomeError(StoatFlowError):
    """Whether the last commit happened is unknown; recovery finds it out."""

    default_kind = "unknown_outcome"
    default_next_step = "start again: recovery reads the true outcome from the broker"


class StalledError(StoatFlowError):
    """The application stopped committing, or a function did not return when the application had to end."""

    default_kind = "stalled"
    exit_code = 3
    default_next_step = (
        "fix the function that the message names, or give what it waits for a timeout, "
        "then start again: the record is read again"
    )


class ChangesLostError(StoatFlowError):
    """A follower of a store was too slow, or the application was restarted: later changes are missing."""

    default_kind = "changes_lost"
    default_next_step = "follow the store again: it begins with a snapshot, which replaces what was read before"


class InternalError(StoatFlowError):
    """A bug of StoatFlow."""


ERRORS_BY_KIND: dict[str, type[StoatFlowError]] = {
    cls.default_kind: cls
    for cls in (
        ConfigError,
        TopologyError,
        SerdeError,
        ProcessingError,
        BrokerUnavailableError,
        FencedError,
        MissingTopicError,
        AuthorizationError,
        StateCorruptError,
        IncompatibleStateError,
        StateLockedError,
        DiskFullError,
        UnknownOutcomeError,
        StalledError,
        ChangesLostError,
        InternalError,
    )
}
