"""Restore listeners, the progress bar, and unusable state. On the embedded broker."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.restoring import RestoreBar

KEYS = 300


class Told(sf.RestoreListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, sf.TopicPartition, str, tuple[int, ...]]] = []

    def on_restore_start(self, partition: sf.TopicPartition, store: str, start: int, end: int) -> None:
        self.calls.append(("start", partition, store, (start, end)))

    def on_batch_restored(self, partition: sf.TopicPartition, store: str, end: int, restored: int) -> None:
        self.calls.append(("batch", partition, store, (end, restored)))

    def on_restore_end(self, partition: sf.TopicPartition, store: str, total: int) -> None:
        self.calls.append(("end", partition, store, (total,)))

    def on_restore_suspended(self, partition: sf.TopicPartition, store: str, total: int) -> None:
        self.calls.append(("suspended", partition, store, (total,)))


Make = Callable[..., sf.StoatFlow]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[sf.EmbeddedBroker]:
    with sf.EmbeddedBroker(tmp_path / "broker") as made:
        made.create_topic("in", 2)
        yield made


@pytest.fixture
def make(broker: sf.EmbeddedBroker, tmp_path: Path) -> Make:
    def counting(state: str = "state", reported: sf.RestoreListener | None = None, **settings: object) -> sf.StoatFlow:
        builder = sf.StreamsBuilder()
        stored = sf.Materialized("counts", logging=settings.pop("logging", True))  # type: ignore[arg-type]
        builder.stream("in", key=str, value=str).group_by_key().count(store=stored)
        config = {"application.id": "app", "state.dir": str(tmp_path / state)} | settings
        return sf.StoatFlow(builder.build(), sf.Settings(config, environ={}), broker=broker, on_restore=reported)

    return counting


def count(app: sf.StoatFlow, broker: sf.EmbeddedBroker) -> None:
    broker.produce_many("in", [(None, f"k{n}".encode(), b"x", n) for n in range(KEYS)])
    with app:
        _until(lambda: app.metrics()["records_committed"] == KEYS)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def running(app: sf.StoatFlow) -> None:
    with app:
        _until(lambda: app.state is sf.State.RUNNING)


def test_a_listener_is_called_for_every_partition(make: Make, broker: sf.EmbeddedBroker) -> None:
    first = Told()
    count(make(reported=first), broker)
    assert first.calls == [], "there was nothing to restore"
    reported = Told()
    running(make("elsewhere", reported))
    assert {call[1] for call in reported.calls} == {sf.TopicPartition("app-counts-changelog", p) for p in (0, 1)}
    assert {call[2] for call in reported.calls} == {"counts"}
    total = 0
    for partition in {call[1] for call in reported.calls}:
        mine = [call for call in reported.calls if call[1] == partition]
        assert [call[0] for call in mine[:1] + mine[-1:]] == ["start", "end"]
        batches = [call[3] for call in mine if call[0] == "batch"]
        assert sum(records for _, records in batches) == mine[-1][3][0]
        assert batches[-1][0] == mine[0][3][1], "the last batch ends where the start said"
        total += mine[-1][3][0]
    assert total == KEYS
    again = Told()
    running(make("elsewhere", again))
    assert again.calls == [], "what is there is not read again"


def test_an_exception_of_a_listener_is_logged(
    make: Make, broker: sf.EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Told):
        def on_restore_start(self, partition: sf.TopicPartition, store: str, start: int, end: int) -> None:
            raise ValueError("on purpose")

    count(make(), broker)
    reported = Failing()
    with caplog.at_level(logging.ERROR, "stoatflow"):
        running(make("elsewhere", reported))
    assert "a restore listener failed at 'start' of counts" in caplog.text
    assert "on purpose" in caplog.text
    assert [call[0] for call in reported.calls].count("end") == 2, "the others are called"


def _damage(tmp_path: Path) -> Path:
    (current,) = (tmp_path / "state").rglob("CURRENT")
    current.write_bytes(b"nonsense")
    return current.parent


def test_damaged_state_is_refused_by_default(make: Make, broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    count(make(), broker)
    folder = _damage(tmp_path)
    with pytest.raises(sf.StateCorruptError) as caught:
        make().run()
    assert str(folder) in str(caught.value)
    assert "state.damaged = rebuild" in str(caught.value)
    assert (folder / "CURRENT").read_bytes() == b"nonsense", "nothing was touched"


def test_damaged_state_is_rebuilt_if_configured(make: Make, broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    count(make(), broker)
    _damage(tmp_path)
    reported = Told()
    running(make(reported=reported, state_damaged="rebuild"))
    assert sum(call[3][1] for call in reported.calls if call[0] == "batch") == KEYS
    after = Told()
    running(make(reported=after))
    assert after.calls == [], "the rebuilt state is whole"


def test_a_store_without_changelog_is_not_thrown_away(make: Make, broker: sf.EmbeddedBroker, tmp_path: Path) -> None:
    count(make(logging=False), broker)
    folder = _damage(tmp_path)
    tables = sorted(path.name for path in folder.iterdir())
    with pytest.raises(sf.StateCorruptError, match="no changelog has the stores counts"):
        make(logging=False, state_damaged="rebuild").run()
    assert sorted(path.name for path in folder.iterdir()) == tables


def test_the_bar() -> None:
    stream, now = io.StringIO(), iter(range(0, 100, 2))
    bar = RestoreBar(stream, lambda: next(now))
    bar.draw([])
    bar.draw([("whole", 0, 0, True)])
    assert not stream.getvalue(), "nothing to restore is no line"
    bar.draw([("a", 1_000_000, 0, False), ("b", 1_000_000, 0, False)])
    bar.draw([("a", 1_000_000, 1_000_000, True), ("b", 1_000_000, 500_000, False)])
    bar.draw([("a", 1_000_000, 1_000_000, True), ("b", 1_000_000, 1_000_000, True)])
    first, second, gone, rest = stream.getvalue().split("\r")
    assert "  0% 0 of 2,000,000 records, 0 of 2 stores" in first
    assert "#####" in second
    assert " 75% 1,500,000 of 2,000,000 records, 1 of 2 stores, 750,000/s, 1 s left" in second
    assert (gone.strip(), rest) == ("", "")
    assert len(gone) == len(second)
