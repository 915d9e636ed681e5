"""Partitions whose times are minutes apart: StoatFlow's results equal those of Kafka Streams on the same broker.

The same keys, including windows, each with the same values and timestamps in the same order; and the same final
stores; with 1, 4 and 16 lanes. Results that differ between runs of Kafka Streams itself are left out: the order in
which its tasks run determines the order in which records meet after a repartition topic.
`STOATFLOW_TEST_SKEW_CASES=200` runs more cases, others each time; `STOATFLOW_TEST_SKEW_SEED` repeats them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from topics import KafkaTopics

from skew import on_broker
from skew.cases import EXPIRY, SkewCase, at_other_times, drawn, two_partitions_ten_minutes_apart
from skew.comparing import Tally, compare, lines, shown_key
from skew.inputs import murmur2, partition_of
from skew.on_broker import Result
from skew.streams import KafkaStreams

_ASKED = os.environ.get("STOATFLOW_TEST_SKEW_CASES")
# Each kind, with and without an exchange, in a minute and a half.
NUMBERS = range(int(_ASKED)) if _ASKED else (0, 1, 2, 3, 4, 5, 23, 28, 30)
EXPIRIES = range(0, len(NUMBERS), 4) if _ASKED else (0, 3)
SEED = int(os.environ.get("STOATFLOW_TEST_SKEW_SEED") or (random.SystemRandom().randrange(1_000_000) if _ASKED else 1))
EVERYBODY = (*on_broker.STREAMS, *on_broker.LANES)
ONE_LANE = (*on_broker.STREAMS, "lanes-1")
MOST_LEFT_OUT = 0.4
"""Of the keys after exchanges of several partitions."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    """The keys left out in all cases without a deterministic order."""
    return Tally()


def test_keys_belong_to_the_partition_of_kafkas_clients() -> None:
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    assert {text: murmur2(text.encode()) for text in hashes} == {t: h % (1 << 32) for t, h in hashes.items()}


@pytest.fixture(scope="module")
def ten_minutes(
    kafka: KafkaTopics, jvm: KafkaStreams, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SkewCase, dict[str, Result]]:
    """A case, and the results of all applications."""
    case = two_partitions_ten_minutes_apart()
    return case, on_broker.run(case, kafka, jvm, "ten-minutes", tmp_path_factory.mktemp("ten-minutes"), EVERYBODY)


def test_a_partition_ten_minutes_behind_loses_nothing(ten_minutes: tuple[SkewCase, dict[str, Result]]) -> None:
    case, results = ten_minutes
    assert len(case.inputs) == 400
    counted = {
        # Stores drop windows that are over; the last count of each is in the output.
        one: sum(int.from_bytes(updates[-1][0] or b"", "big") for updates in result.outputs.values())
        for one, result in results.items()
    }
    assert counted == dict.fromkeys(EVERYBODY, 400)
    found = compare(case, results)
    assert not found.uncertain
    reported = lines(found.wrong)
    assert not reported, reported


def test_a_partition_ten_minutes_behind_keeps_its_own_last_window(
    ten_minutes: tuple[SkewCase, dict[str, Result]],
) -> None:
    reported = lines(compare(*ten_minutes).wrong_stores)
    assert not reported, reported


def _moved(case: SkewCase, results: dict[str, Result]) -> dict[str, str]:
    """Keys in another partition than with Kafka Streams. The set of keys is compared elsewhere."""
    wanted = results["streams-1"].partitions
    assert len(set(wanted.values())) > 1
    return {
        f"{one}: {shown_key(case, key)}": f"in {at}, Kafka Streams in {wanted[key]}"
        for one, result in results.items()
        for key, at in result.partitions.items()
        if wanted.get(key, at) != at
    }


def test_windows_of_a_key_are_in_the_partition_of_the_key(ten_minutes: tuple[SkewCase, dict[str, Result]]) -> None:
    moved = _moved(*ten_minutes)
    assert not moved


def test_sessions_of_a_key_are_in_the_partition_of_the_key(
    kafka: KafkaTopics, jvm: KafkaStreams, name: str, tmp_path: Path
) -> None:
    case = drawn(1, 42)
    assert case.kind == "session aggregate, each, grace 0 ms"
    moved = _moved(case, on_broker.run(case, kafka, jvm, name, tmp_path, ("streams-1", "lanes-1")))
    assert not moved


CASES = [*(drawn(SEED, number) for number in NUMBERS), *(drawn(SEED, number, EXPIRY) for number in EXPIRIES)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_skewed_partitions_do_what_they_do_in_kafka_streams(
    case: SkewCase, kafka: KafkaTopics, jvm: KafkaStreams, name: str, tmp_path: Path, tally: Tally
) -> None:
    assert all(one.partition == partition_of(one.key, case.partitions) for one in case.inputs)
    # Rows without a partner are emitted in passes over all keys of a task: one lane can make these, and
    # several emit immediately what is over (docs/adr/0006). tests/conformance/test_lanes.py shows that
    # these agree.
    in_passes = case.kind.startswith(("left_join of streams", "outer_join of streams"))
    results = on_broker.run(case, kafka, jvm, name, tmp_path, ONE_LANE if in_passes else EVERYBODY)
    found = compare(case, results)
    if case.is_certain:
        assert not found.uncertain, f"{case}: Kafka Streams differs from itself\n" + "\n".join(found.uncertain)
    elif lines(found.wrong) or lines(found.wrong_stores):
        # Twice the same may be chance, or due to the order in which everything was written.
        for number, other in enumerate(at_other_times(case)):
            more = on_broker.run(other, kafka, jvm, f"{name}-again-{number}", tmp_path, ["streams-2"])
            results[f"streams-again-{number}"] = more["streams-2"]
        found = compare(case, results)
    if not case.is_certain:
        tally.count(found.outputs)
        tally.count(found.stores)
    reported = lines(found.wrong) + lines(found.wrong_stores)
    assert not reported, f"{case}{reported}"


def test_few_cases_were_skipped(tally: Tally) -> None:
    """Otherwise the cases say little about exchanges: most results must be equal in each run of Kafka Streams."""
    assert tally.share <= MOST_LEFT_OUT, f"{tally.left_out} of {tally.all} keys and rows"
