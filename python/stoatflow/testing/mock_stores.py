"""The stores of a `MockProcessorContext`: the engine's own, in a hidden `TopologyTestDriver`.

Takes stores made by `Stores`; returns them as objects that can be used at any time. Raises errors of a store in the
test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from stoatflow._runtime import bridge
from stoatflow.builder import StreamsBuilder
from stoatflow.processor import Processor
from stoatflow.record import Record
from stoatflow.stores import StoreBuilder
from stoatflow.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from stoatflow.testing.mock import MockProcessorContext

_CLASSES: dict[str, type] = {
    "key_value": bridge.KeyValueStore,
    "timestamped_key_value": bridge.TimestampedKeyValueStore,
    "window": bridge.WindowStore,
    "session": bridge.SessionStore,
    "versioned": bridge.VersionedKeyValueStore,
}


class MockStores:
    """A driver whose only processor runs, at each record, a given function with a store."""

    def __init__(self) -> None:
        """Start without stores."""
        self.builders: dict[str, StoreBuilder[Any, Any]] = {}
        self.task: Callable[[Any], None] | None = None
        self._driver: TopologyTestDriver | None = None
        self._pipe: Callable[[int], None] | None = None
        self._closed = False

    def add(self, store: StoreBuilder[Any, Any]) -> None:
        """Add a store, before one is used."""
        if not isinstance(store, StoreBuilder):
            raise TypeError(f"a store comes from Stores, not {store!r}. Next: pass Stores.key_value(...)")
        if self._driver is not None:
            raise RuntimeError(f"the store '{store.name}' comes too late. Next: add all stores before one is used")
        self.builders[store.name] = store

    def store(self, name: str, context: MockProcessorContext) -> MockStore:
        """Return a store that was added."""
        if name not in self.builders:
            known = ", ".join(self.builders) or "none"
            raise LookupError(
                f"no store is named '{name}' here (there are: {known}). Next: give it to MockProcessorContext(...)"
            )
        return MockStore(self, name, _CLASSES[self.builders[name].kind.type], context)

    def run(self, name: str, act: Callable[[Any], Any], time: int) -> Any:
        """Call a function with the store, within a call of the processor."""
        given: list[Any] = []
        raised: list[Exception] = []

        def task(context: Any) -> None:
            try:
                given.append(act(context.state_store(name)))
            except Exception as error:
                # The error is the caller's, and must not end the engine.
                raised.append(error)

        pipe = self._started()
        self.task = task
        try:
            pipe(max(0, time))
        finally:
            self.task = None
        if raised:
            raise raised[0]
        return given[0]

    def close(self) -> None:
        """Remove the stores."""
        self._closed = True
        if self._driver is not None:
            self._driver.close()

    def _started(self) -> Callable[[int], None]:
        if self._closed:
            raise RuntimeError("the context is closed, and its stores are gone. Next: use it within its `with`")
        if self._pipe is None:
            stores = self

            class RunsTask(Processor[bytes, bytes, Any, Any]):
                """Runs the pending function."""

                def init(self, context: Any) -> None:
                    self.context = context

                def process(self, record: Record[bytes, bytes]) -> None:  # noqa: ARG002
                    if stores.task is not None:
                        stores.task(self.context)

            builder = StreamsBuilder()
            for store in self.builders.values():
                builder.add_state_store(store)
            builder.stream("tasks").process(RunsTask, stores=list(self.builders))
            self._driver = TopologyTestDriver(builder.build())
            topic = self._driver.input("tasks")
            self._pipe = lambda time: topic.pipe(b"", timestamp=time)
        return self._pipe


class MockStore:
    """A store that can be used at any time: each use is one call of the processor."""

    def __init__(self, stores: MockStores, name: str, cls: type, context: MockProcessorContext) -> None:
        """Created by `MockStores.store`."""
        self.name = name
        self._stores = stores
        self._cls = cls
        self._context = context

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_") or not hasattr(self._cls, method):
            raise AttributeError(f"{self._cls.__name__} '{self.name}' has no {method!r}")
        return lambda *given, **named: self._run(lambda store: getattr(store, method)(*given, **named))

    def __getitem__(self, key: Any) -> Any:
        return self._run(lambda store: store[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._run(lambda store: store.__setitem__(key, value))

    def __delitem__(self, key: Any) -> None:
        self._run(lambda store: store.__delitem__(key))

    def __contains__(self, key: Any) -> bool:
        return bool(self._run(lambda store: key in store))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._run(list))

    def __repr__(self) -> str:
        return f"<{self._cls.__name__} '{self.name}' of a MockProcessorContext>"

    def _run(self, act: Callable[[Any], Any]) -> Any:
        return self._stores.run(self.name, act, self._context.stream_time_ms)
