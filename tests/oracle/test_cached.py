"""Each recorded topology with record caching, the default of both: the engine must do what Kafka Streams does.

The vectors are recorded without a cache, to have every update. With one, both commit after each input, and emit the
updates held until then: the last one of each key, with its headers. Kafka Streams' test driver also commits after
each record from an internal topic; of these updates too, the last one of each key is compared.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from conformance import runner
from conformance.kafka_streams import Oracle
from conformance.runner import Case
from oracle.beside import EXCHANGES, KNOWN
from oracle.test_new_inputs import ROUNDS, SEED, Mixer, topologies

CACHE = 10 * 1024 * 1024
Records = list[dict[str, Any]]


DIFFERS = {
    "tt_self_join": "what two tables told in one commit is joined once (docs/adr/0007, 11)",
    "session_reduce_no_grace": "rows beyond the retention are found until the cache is written (docs/adr/0007, 24)",
    "on_window_close_default_retention": "the same",
}
"""Entries may only be removed."""


def last_of_each(records: Records) -> Records:
    """The last update of each key for each input, in order."""
    last: dict[str, int] = {}
    for at, record in enumerate(records):
        last[json.dumps([record["i"], record["key"], record.get("window")])] = at
    return [records[at] for at in sorted(last.values())]


def has_topics_within(case: Case) -> bool:
    """Whether Kafka Streams has internal topics."""
    return any(step["op"] in EXCHANGES or "fk_fn" in step for step in case.steps())


def same_rows(got: list[Any], wanted: list[Any], name: str) -> None:
    """Kafka Streams also shows expired windows, until the cache is written to the store again."""
    ours, theirs = runner.lines(got), runner.lines(wanted)
    windowed = any(isinstance(row[1], dict) and len(row) == 3 for row in wanted)
    assert ours == ([row for row in theirs if row in ours] if windowed else theirs), name


def engine_does_cached(case: Case, wanted: dict[str, Any]) -> None:
    """Run it on the engine, and compare with Kafka Streams' result."""
    asked = replace(case, data=case.data | {name: wanted[name] for name in ("outputs", "stores", "store_timestamps")})
    found = vars(runner.run(asked, runner.build(asked)))
    for topic, records in wanted["outputs"].items():
        ours, theirs = found["outputs"][topic], records
        if has_topics_within(case):
            ours, theirs = last_of_each(ours), last_of_each(theirs)
        assert runner.same_per_key(ours) == runner.same_per_key(theirs), topic
    for name, rows in wanted["stores"].items():
        same_rows(found["stores"][name], rows, name)


@pytest.mark.parametrize(("case", "recorded"), [one for one in topologies() if one.id not in DIFFERS])
def test_a_recorded_topology_does_the_same_with_a_cache(
    case: Case, recorded: list[dict[str, Any]], oracle: Oracle
) -> None:
    config = case.data["config"] | {"cache_max_bytes": CACHE}
    for number in range(ROUNDS):
        seed = f"{SEED}-cached-{number}-{case.topology_name}"
        data = case.data | {"inputs": Mixer(recorded, seed).inputs(), "name": seed, "config": config}
        data.pop("versioned_lookups", None)
        mixed = replace(case, data=data)
        if not any(known(mixed) for known in KNOWN):
            engine_does_cached(mixed, oracle.replay(data))
