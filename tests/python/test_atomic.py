"""Atomic across lanes: `compute` and related methods, and sections with `context.locks`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from concurrency import frequent_thread_switches, until
from stoatflow import EmbeddedBroker, Record, State, StoatFlow, Stores, ValueAndTimestamp
from stoatflow.testing import MockProcessorContext, TopologyTestDriver

Step = Callable[[Any, Any], Any]


def play(store: sf.StoreBuilder[Any, Any], *steps: Step, crash: bool = False, lanes: int = 2) -> list[Any]:
    """Run a step of (store, context) per record, an epoch each; returns the results of the steps, and the store."""
    given: list[Any] = []

    class Plays(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            given.append(steps[int(record.value or 0)](self.context.state_store(store.name), self.context))

    builder = sf.StreamsBuilder()
    builder.add_state_store(store)
    builder.stream("in", key=str, value=str).process(Plays, stores=[store.name])
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        topic = driver.input("in", str, str)
        for at in range(len(steps)):
            topic.pipe("k", str(at), timestamp=at)
            if crash:
                driver.crash()
                driver.restart(lanes=2)
        given.append(driver.store(store.name).all())
    return given


NUMBERS = Stores.persistent_key_value("s", key=str, value=int)


@pytest.mark.parametrize("kind", [Stores.persistent_key_value, Stores.in_memory_key_value])
@pytest.mark.parametrize("crash", [False, True])
def test_atomic_methods_return_the_current_value(kind: Any, crash: bool) -> None:
    calls: list[Any] = []

    def seen(*arguments: Any) -> int:
        calls.append(arguments)
        return len(calls)

    given = play(
        kind("s", key=str, value=int),
        lambda s, _: (s.compute("a", seen), s.compute("a", seen), s["a"]),
        lambda s, _: (s.compute_if_absent("a", seen), s.compute_if_absent("b", seen), s["b"]),
        lambda s, _: (s.compute_if_present("b", seen), s.compute_if_present("z", seen)),
        lambda s, _: (s.merge("c", 7, seen), s.merge("c", 8, seen)),
        lambda s, _: (s.put_if_absent("d", 1), s.put_if_absent("d", 2), s.delete("d"), s.delete("d")),
        lambda s, _: (s.compute("a", lambda _k, _v: None), s.compute_if_absent("e", lambda _k: None)),
        lambda s, _: (s.merge("c", 1, lambda _old, _new: None), s.compute_if_present("b", lambda _k, v: v + 10)),
        crash=crash,
    )
    assert calls == [("a", None), ("a", 1), ("b",), ("b", 3), (7, 8)]
    assert given == [(1, 2, 2), (2, 3, 3), (4, None), (7, 5), (None, 1, 1, None), (None, None), (None, 14), {"b": 14}]


def test_a_store_with_times() -> None:
    later = ValueAndTimestamp(5, 77)
    given = play(
        Stores.persistent_timestamped_key_value("s", key=str, value=int),
        lambda s, _: s.compute("a", lambda _k, v: later if v is None else v),
        lambda s, _: s.merge(
            "a", ValueAndTimestamp(1, 3), lambda old, new: ValueAndTimestamp(old.value + new.value, 9)
        ),
        lambda s, _: (s["a"], s.delete("a")),
    )
    assert given == [later, ValueAndTimestamp(6, 9), (ValueAndTimestamp(6, 9), ValueAndTimestamp(6, 9)), {}]


def test_a_computed_value_is_written_before_it_changes() -> None:
    """A value that is changed in place after the call is unchanged in the store."""

    def adds(store: Any, _: Any) -> Any:
        made = store.compute("a", lambda _k, v: [*(v or []), 1])
        made.append("more")
        return list(store["a"])

    assert play(Stores.persistent_key_value("s", key=str, value=sf.Serdes.json()), adds, adds)[:2] == [[1], [1, 1]]


def test_a_function_that_raises_changes_nothing() -> None:
    def fails(store: Any, _: Any) -> str:
        store["a"] = 1
        with pytest.raises(ZeroDivisionError):
            store.compute("a", lambda _k, _v: 1 // 0)
        with pytest.raises(sf.SerdeError):
            store.compute("a", lambda _k, _v: "no number")
        return str(store["a"])

    # The lock is free again.
    given = play(NUMBERS, fails, lambda s, _: s.merge("a", 2, lambda old, new: old + new))
    assert given == ["1", 3, {"a": 3}]


def refused(step: Step, *, needs: str) -> None:
    """A step that must fail its record with an error that says what to do."""
    with pytest.raises(sf.StoatFlowError) as caught:
        play(NUMBERS, step)
    assert needs in str(caught.value), caught.value


def test_forbidden_calls_inside_compute() -> None:
    def puts(store: Any, _: Any) -> None:
        store.compute("a", lambda _k, _v: store.put("a", 1))

    def nests(store: Any, _: Any) -> None:
        store.compute("a", lambda _k, _v: store.merge("b", 1, max))

    def locks(store: Any, context: Any) -> None:
        def inner(_key: str, _value: int) -> int:
            with context.locks((store, "b")):
                return 1

        store.compute("a", inner)

    refused(puts, needs="wrote the key itself [store s]. Next: return the value instead")
    refused(nests, needs="merge() was called in the function of compute(), which has its key locked")
    refused(locks, needs="locks were asked for while others are held")
    # Other keys may be read and put, and records forwarded.
    given = play(NUMBERS, lambda s, _: s.compute("a", lambda _k, _v: s.put("b", 2) or s["b"] + 1))
    assert given == [3, {"a": 3, "b": 2}]


def test_sections() -> None:
    def section(store: Any, context: Any) -> Any:
        with context.locks((store, "a"), ("s", "b"), "audit") as locks:
            store["a"] = store.get("a", 0) - 1
            store.merge("b", 1, lambda old, new: old + new)
            store["unlocked"] = 1
            return repr(locks)

    text = "<KeyLocks of the key 'a' of the store 's', the key 'b' of the store 's', 'audit'>"
    assert play(NUMBERS, section, section) == [text, text, {"a": -2, "b": 2, "unlocked": 1}]


def test_sections_that_are_refused() -> None:
    def outside(store: Any, context: Any) -> None:
        with context.locks((store, "a")):
            store.delete("b")

    def nested(store: Any, context: Any) -> None:
        with context.locks((store, "a")), context.locks((store, "b")):
            pass

    def kept(store: Any, context: Any) -> None:
        context.locks((store, "a")).__enter__()

    refused(
        outside, needs="delete() was called for the key 'b' of 's', which the section has not locked. Next: name it"
    )
    refused(nested, needs="locks were asked for while others are held. Next: name all names and keys in one")
    refused(kept, needs="locks were still held when process() returned: they are held within one call, never over")
    refused(lambda _, c: c.locks(("other", "a")), needs="not connected to a store 'other'. Next: it is connected to: s")
    refused(lambda _, c: c.locks(), needs="locks() needs at least one name or pair")
    refused(lambda _, c: c.locks(b"a"), needs="locks() takes names and pairs (store, key), not b'a'")


def test_an_error_in_a_section_frees_it() -> None:
    def raises(store: Any, context: Any) -> str:
        with pytest.raises(KeyError), context.locks((store, "a")):
            raise KeyError
        return "free"

    assert play(NUMBERS, raises, lambda s, _: s.merge("a", 1, max))[:2] == ["free", 1]


def test_a_table_can_only_be_read() -> None:
    class Reads(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.state_store("t").compute(record.key, lambda _k, _v: None)

    builder = sf.StreamsBuilder()
    builder.table("rows", key=str, value=str, store="t")
    builder.stream("in", key=str, value=str).process(Reads, stores=["t"])
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.StoatFlowError, match="may only read it"):
        driver.input("in", str, str).pipe("k", "v")


def test_stages_that_share_a_store_are_refused() -> None:
    """A transformer of a table may be in another stage than a processor, and so in another epoch."""

    class Adds(sf.ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            store = self.context.state_store("s")
            with pytest.raises(sf.StoatFlowError, match="used in several stages"):
                self.context.locks((store, "all"))
            assert store.put_if_absent("all", 1) == store.delete("all") == 0
            store.merge("all", 1, lambda old, new: old + new)

    class Keeps(sf.ValueTransformer[str, int, int]):
        def init(self, context: Any) -> None:
            self.store = context.state_store("s")

        def transform(self, key: str, value: int | None) -> int | None:
            self.store.put("all", 0)
            return value

    builder = sf.StreamsBuilder()
    builder.add_state_store(NUMBERS)
    rows = builder.table("rows", key=str, value=int, store="t")
    rows.transform_values(Keeps, stores=["s"], store=sf.Materialized("kept", value=int))
    other = builder.stream("in", key=str, value=int).select_key(lambda _key, value: str(value))
    other.repartition(key=str, value=int, name="again").process(Adds, stores=["s"])
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("rows", str, int).pipe("k", 1)
        with pytest.raises(sf.StoatFlowError, match="used in several stages"):
            driver.input("in", str, int).pipe("k", 1)


def test_a_processor_alone() -> None:
    with MockProcessorContext(NUMBERS) as context:
        store = context.state_store("s")
        with context.locks((store, "a"), "name", timeout="1s"):
            assert store.merge("a", 2, max) == 2
        assert store.compute("a", lambda _k, v: v + 1) == 3
        with pytest.raises(RuntimeError, match="while others are held"), context.locks("a"), context.locks("b"):
            pass
        with pytest.raises(TypeError, match="names and pairs"), context.locks(3):  # type: ignore[arg-type]
            pass
        with pytest.raises(TypeError, match="at least one"), context.locks():
            pass


# Many lanes ----------------------------------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as made:
        made.create_topic("in", 8)
        yield made


def application(broker: EmbeddedBroker, topology: sf.Topology, folder: Path, lanes: int) -> StoatFlow:
    given = {"application.id": "app", "state.dir": str(folder / "state"), "lanes.count": lanes}
    return StoatFlow(topology, sf.Settings(given, environ={}), broker=broker)


def balances(broker: EmbeddedBroker, topic: str = "app-accounts-changelog") -> dict[str, int]:
    """The final balances of the accounts, from their changelog."""
    rows = {row.key: row.value for row in broker.read(topic)}
    return {(key or b"").decode(): int.from_bytes(value or b"", "big", signed=True) for key, value in rows.items()}


ACCOUNTS = Stores.persistent_key_value("accounts", key=str, value=int)
RECORDS = 6_000


def added(had: int | None, amount: int) -> int:
    """Yield to other lanes between reading and writing."""
    time.sleep(0)
    return (had or 0) + amount


def ways() -> dict[str, Callable[[Any, Any, str, int], None]]:
    def compute(store: Any, _: Any, key: str, amount: int) -> None:
        store.compute(key, lambda _k, had: added(had, amount))

    def merge(store: Any, _: Any, key: str, amount: int) -> None:
        store.merge(key, amount, added)

    def absent_or_present(store: Any, _: Any, key: str, amount: int) -> None:
        store.compute_if_absent(key, lambda _k: 0)
        store.compute_if_present(key, lambda _k, had: added(had, amount))

    def section(store: Any, context: Any, key: str, amount: int) -> None:
        with context.locks((store, key)):
            store.put(key, added(store.get(key), amount))

    return {"compute": compute, "merge": merge, "absent_or_present": absent_or_present, "section": section}


@pytest.mark.parametrize("way", ways())
def test_64_lanes_on_4_keys(broker: EmbeddedBroker, tmp_path: Path, way: str) -> None:
    """Every lane adds to the same four accounts; nothing is lost, over many commits."""
    act = ways()[way]

    class Adds(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.accounts = context.state_store("accounts")

        def process(self, record: Record[str, int]) -> None:
            assert record.value is not None
            act(self.accounts, self.context, f"account-{record.value % 4}", record.value)

    builder = sf.StreamsBuilder()
    builder.add_state_store(ACCOUNTS)
    builder.stream("in", key=str, value=int).process(Adds, stores=["accounts"])
    records = ((None, b"k%d" % (at % 500), at.to_bytes(8, "big"), at) for at in range(RECORDS))
    broker.produce_many("in", records)
    with frequent_thread_switches(), application(broker, builder.build(), tmp_path, 64) as app:
        until(lambda: app.state is State.ERROR or app.lag() == 0)
        assert not app.wait(0)
    wanted = {f"account-{n}": sum(at for at in range(RECORDS) if at % 4 == n) for n in range(4)}
    assert balances(broker) == wanted


def test_a_lock_timeout_names_the_holder(broker: EmbeddedBroker, tmp_path: Path) -> None:
    inside, reported = threading.Event(), threading.Event()
    errors: list[str] = []

    class Holds(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.state_store("accounts")
            if record.value == "holds":
                with self.context.locks((store, "ann")):
                    inside.set()
                    assert reported.wait(30)
                return
            assert inside.wait(30)
            try:
                with self.context.locks("x", (store, "ann"), timeout="50ms"):
                    pass
            except sf.StoatFlowError as error:
                errors.append(str(error))
            reported.set()
            # Now the lock becomes free.
            store.merge("ann", 1, max)

    builder = sf.StreamsBuilder()
    builder.add_state_store(ACCOUNTS)
    builder.stream("in", key=str, value=str).process(Holds, stores=["accounts"], name="holds")
    with application(broker, builder.build(), tmp_path, 64) as app:
        until(lambda: app.state is State.RUNNING)
        broker.produce_many("in", [(3, b"first", b"holds", 1), (3, b"second", b"waits", 2)])
        until(lambda: app.state is State.ERROR or app.lag() == 0)
        assert not app.wait(0)
    assert balances(broker) == {"ann": 1}
    (error,) = errors
    assert "the lock of the key 'ann' of the store 'accounts' was not free within 50 ms: lane " in error
    assert "holds it, in the node 'holds', for the record in-3 at 0" in error
    assert "Next: keep sections short" in error


def test_locks_taken_in_any_order_never_wait_for_each_other(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Transfers in both directions between three accounts, in all lanes: the sum stays zero."""

    class Moves(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.accounts = context.state_store("accounts")

        def process(self, record: Record[str, int]) -> None:
            n = record.value or 0
            source, target = f"account-{n % 3}", f"account-{(n + 1 + n // 3 % 2) % 3}"
            with self.context.locks((self.accounts, source), (self.accounts, target)):
                self.accounts.put(source, added(self.accounts.get(source), -n))
                self.accounts.put(target, added(self.accounts.get(target), n))

    builder = sf.StreamsBuilder()
    builder.add_state_store(ACCOUNTS)
    builder.stream("in", key=str, value=int).process(Moves, stores=["accounts"])
    broker.produce_many("in", ((None, b"k%d" % at, at.to_bytes(8, "big"), at) for at in range(RECORDS)))
    with frequent_thread_switches(), application(broker, builder.build(), tmp_path, 16) as app:
        until(lambda: app.state is State.ERROR or app.lag() == 0)
        assert not app.wait(0)
    wanted = dict.fromkeys((f"account-{n}" for n in range(3)), 0)
    for n in range(RECORDS):
        wanted[f"account-{n % 3}"] -= n
        wanted[f"account-{(n + 1 + n // 3 % 2) % 3}"] += n
    assert balances(broker) == wanted
    assert sum(wanted.values()) == 0
