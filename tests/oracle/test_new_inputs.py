"""Each recorded topology with inputs that were not recorded: the engine must do what Kafka Streams does.

The inputs are made from the recorded ones: other orders, other pairs of key and value, other distances in time,
including equal and out-of-order timestamps. `STOATFLOW_TEST_RANDOM_EXAMPLES` makes more of them, others each time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from conformance import runner
from conformance.kafka_streams import Oracle
from conformance.runner import Case
from oracle.beside import KNOWN, engine_does
from semantics.random_cases import EXAMPLES

ROUNDS = max(2, int(EXAMPLES or 0) // 100)
SEED = random.SystemRandom().randrange(1_000_000) if EXAMPLES else 1
_STEPS_MS = (0, 0, 1, 1, 2, 3, 5, 10)
_OFF_MS = (0, 0, 1, -1, 2, -2, 5)


def topologies() -> Iterator[Any]:
    """Each recorded topology once, with the inputs of all its runs; except those in `not_yet.txt`."""
    lines = (runner.HERE / "not_yet.txt").read_text("utf-8").splitlines()
    waiting = {line.partition(":")[0] for line in lines if not line.startswith("#")}
    for place, runs in groupby(runner.cases(), key=lambda case: case.place):
        cases = list(runs)
        if place not in waiting:
            recorded = [event for case in cases for event in case.data["inputs"]]
            yield pytest.param(cases[0], recorded, id=cases[0].topology_name)


class Mixer:
    """Draws inputs from recorded ones."""

    def __init__(self, recorded: list[dict[str, Any]], seed: str) -> None:
        self._dice = random.Random(seed)  # noqa: S311  # no secret
        self._records = [event for event in recorded if "topic" in event]
        self._others = [event for event in recorded if "topic" not in event]
        times = sorted({event["timestamp"] for event in self._records})
        self._times, self._now = times, times[0]
        self._span = times[-1] - times[0] + 1

    def inputs(self) -> list[dict[str, Any]]:
        """Between 5 and 45 events."""
        place = self._dice.choice((self._onwards, self._late, self._anywhere, self._crowded))
        return [self._event(place) for _ in range(self._dice.randint(5, 45))]

    def _event(self, place: Any) -> dict[str, Any]:
        dice = self._dice
        if self._others and dice.random() < 0.12:
            return dict(dice.choice(self._others))
        event = dict(dice.choice(self._records))
        alike = [record for record in self._records if record["topic"] == event["topic"]]
        if dice.random() < 0.5:
            event["value"] = dice.choice(alike)["value"]
        if dice.random() < 0.3:
            event["key"] = dice.choice(alike)["key"]
        self._now += dice.choice((*_STEPS_MS, self._span // 20, self._span // 5))
        return event | {"timestamp": max(0, place())}

    def _onwards(self) -> int:
        return self._now

    def _late(self) -> int:
        return self._now - self._dice.choice((0, 0, *_STEPS_MS[2:], self._span // 10, self._span // 4))

    def _anywhere(self) -> int:
        return int(self._dice.choice(self._times) + self._dice.choice(_OFF_MS))

    def _crowded(self) -> int:
        return int(self._dice.choice(self._times[:6]))


@pytest.mark.parametrize(("case", "recorded"), list(topologies()))
def test_a_recorded_topology_does_the_same_with_other_inputs(
    case: Case, recorded: list[dict[str, Any]], oracle: Oracle
) -> None:
    for number in range(ROUNDS):
        seed = f"{SEED}-{number}-{case.topology_name}"
        data = case.data | {"inputs": Mixer(recorded, seed).inputs(), "name": f"{case.topology_name}/{seed}"}
        data.pop("versioned_lookups", None)
        mixed = replace(case, data=data)
        if not any(known(mixed) for known in KNOWN):
            engine_does(mixed, oracle.replay(data))
