"""Work of lanes at the end of a commit, once they agree on stream time, is not repeated after a restart.

Lane 0 stores the times of all lanes with the commit. The work of other lanes after that agreement belongs to it too.
"""

from __future__ import annotations

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

PASSES = "emit.interval.ms.kstreams.windowed.aggregation"
KEYS = [f"key-{at}" for at in range(8)]
LANES = [2, 3, 4, 5, 8, 16]


def on_close(windows: sf.TimeWindows) -> sf.Topology:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int).group_by(lambda key, value: f"{key}-new", key=str, value=int)
    counts = windows_of(stream, windows).count(store=sf.Materialized("counts", retention="1d"))
    counts.to_stream().map(lambda window, count: (window.key, count), name="plain").to("out", key=str, value=int)
    return builder.build()


def windows_of(stream: sf.KGroupedStream[str, int], windows: sf.TimeWindows) -> sf.TimeWindowedKStream[str, int]:
    return stream.windowed_by(windows).emit_strategy(sf.EmitStrategy.on_window_close())


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("settings", [{}, {PASSES: 0}, {PASSES: 1_000}], ids=["", "0", "1000"])
def test_windows_closed_by_idleness_are_emitted_once_despite_crashes(lanes: int, settings: dict[str, object]) -> None:
    windows = sf.TimeWindows("60s", grace="0s", close_when_idle="30s")
    with TopologyTestDriver(on_close(windows), settings, lanes=lanes) as driver:
        output, given = driver.output("out", str, int), []
        for key in KEYS:
            driver.input("in", str, int).pipe(key, 1, timestamp=10_000)
        for _ in range(4):
            driver.advance("30s")
            given += output.read_key_values_to_list()
            driver.crash()
            driver.restart()
            given += output.read_key_values_to_list()
        assert sorted(given) == [(f"{key}-new", 1) for key in KEYS]


@pytest.mark.parametrize("lanes", LANES)
def test_windows_emitted_at_a_start_are_emitted_once(lanes: int) -> None:
    """A record closes a window before the next pass is due. The next start makes the pass, without a record."""
    topology = on_close(sf.TimeWindows("10s", grace="0s"))
    with TopologyTestDriver(topology, {PASSES: 600_000}, lanes=lanes) as driver:
        output = driver.output("out", str, int)
        for at in (1_000, 2_000, 15_000):
            driver.input("in", str, int).pipe("key", 1, timestamp=at)
        found = [output.read_key_values_to_list()]
        for _ in range(3):
            driver.restart()
            driver.advance("10s")
            found.append(output.read_key_values_to_list())
        assert found == [[], [("key-new", 2)], [], []]


class Raises(sf.ContextualProcessor[str, int, str, int]):
    """A timer that requests a watermark."""

    def init(self, context: sf.ProcessorContext[str, int]) -> None:
        super().init(context)
        self.timers: sf.TimerStore[str] = context.state_store("timers")

    def process(self, record: sf.Record[str, int]) -> None:
        self.timers.register(self.context.system_time_ms + 1_000, domain="processing")

    def on_timer(self, timer: sf.Timer[str]) -> None:
        self.context.advance_watermark(50_000)


@pytest.mark.parametrize("key", KEYS)
def test_a_watermark_advanced_by_a_timer_survives_the_timer(key: str) -> None:
    """The timer is deleted with the commit, so the request must be part of it."""
    builder = sf.StreamsBuilder()
    builder.add_state_store(sf.Stores.timers("timers", key=str))
    source = builder.stream("in", key=str, value=int, watermark=sf.Watermark.bounded("20s"))
    source.process(Raises, stores=["timers"], name="raises").to("out", key=str, value=int)
    settings = {"time.semantics": "watermark"}
    with TopologyTestDriver(builder.build(), settings, lanes=4) as driver:
        driver.input("in", str, int).pipe(key, 1, timestamp=10_000)
        driver.advance("1s")
        driver.crash()
        driver.restart()
        driver.barrier()
        assert driver.watermark == 50_000
