"""Global tables are complete before anything reads them; patterns don't match the engine's own topics."""

from __future__ import annotations

import re
from typing import Any

import stoatflow as sf
from stoatflow import PunctuationType, Record
from stoatflow.testing import TopologyTestDriver

NAMES = {"ensure.explicit.naming": "false"}


def test_processors_begin_when_global_tables_are_complete() -> None:
    seen: list[object] = []

    class Looks(sf.ContextualProcessor[str, str, str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.rates = context.state_store("rates")
            seen.append(("init", self.rate()))
            context.schedule("1s", PunctuationType.WALL_CLOCK_TIME, self.tell)

        def rate(self) -> str | None:
            found = self.rates.get("eur")
            return found and str(found.value)

        def process(self, record: Record[str, str]) -> None:
            seen.append(("process", self.rate()))

        def tell(self, _time: int) -> None:
            seen.append(("punctuate", self.rate()))

    builder = sf.StreamsBuilder()
    builder.global_table("fx", store="rates", key=str, value=str)
    builder.stream("in", key=str, value=str).process(Looks, name="looks")
    with TopologyTestDriver(builder.build(), NAMES) as driver:
        driver.input("fx", str, str).pipe("eur", "1.1", timestamp=1)
        driver.input("in", str, str).pipe("x", "1", timestamp=2)
        assert seen == [("init", None), ("process", "1.1")]
        for lanes in (1, 3):
            seen.clear()
            driver.crash()
            driver.restart(lanes=lanes)
            driver.advance("1s")
            assert seen == [("init", "1.1")] * lanes + [("punctuate", "1.1")], lanes


def test_time_advances_only_when_global_tables_are_complete() -> None:
    """A source that waits for a global table is not idle."""
    builder = sf.StreamsBuilder()
    builder.global_table("fx", store="rates", key=str, value=str)
    windows = sf.TimeWindows("10s", grace="0s", close_when_idle="1s")
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows).count(store="counts")
    counts.to_stream(lambda window, _count: window.key).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), NAMES) as driver:
        source = driver.input("in", str, str)
        driver.input("fx", str, str).pipe("eur", "1.1", timestamp=1)
        source.pipe("x", "1", timestamp=1_000)
        driver.crash()
        driver.restart(lanes=2)
        source.pipe("x", "2", timestamp=2_000)
        assert driver.output("out", str, int).read_values_to_list() == [1, 2]


def test_a_pattern_never_matches_internal_topics() -> None:
    builder = sf.StreamsBuilder()
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
    counts.count(store="counts").to_stream(lambda window, _count: window.key).to("spare", key=str, value=int)
    builder.stream(re.compile("spare|.*changelog.*"), key=str, value=int).to("out")
    with TopologyTestDriver(builder.build(), NAMES) as driver:
        source = driver.input("in", str, str)
        source.pipe("a", "1", timestamp=1)
        driver.crash()
        driver.restart(lanes=1)
        source.pipe("a", "2", timestamp=2)
        assert driver.output("out", str, int).read_values_to_list() == [1, 2]
