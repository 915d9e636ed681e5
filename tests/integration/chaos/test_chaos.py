"""Everything the DSL has, under all faults: committed readers see the result of an undisturbed run.

`STOATFLOW_TEST_CHAOS_KILLS=40` kills more often, `STOATFLOW_TEST_CHAOS_SEED=7` uses another seed. A failure prints
its seed; to repeat it: `python tests/integration/chaos/run.py --seed SEED --kills KILLS`. The long run is `make
chaos`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from broker.fault_proxy import FaultProxy
from broker.kafka_broker import KafkaBroker
from broker.noise import ACTIONS, Noise
from topics import KafkaTopics, Row
from transactions import CONTROL, HEAD, TRANSACTIONAL, Transaction, committed, mixed

from chaos import alarms, bank
from chaos.application import INPUTS, OUTPUTS
from chaos.checks import Found, at_least, describe, exact, same, same_counts, steps
from chaos.faults import OTHERS, PLACES, Kind, schedule
from chaos.harness import BROKER, KAFKA, LIBRDKAFKA, NATIVE, SENTENCE, Chaos
from chaos.inputs import Inputs, long
from chaos.run import report

KILLS = int(os.environ.get("STOATFLOW_TEST_CHAOS_KILLS", "12"))
SEED = int(os.environ.get("STOATFLOW_TEST_CHAOS_SEED", "1"))
INTERNAL = ("words", "sums", "sums-final-store", "closed", "sessions", "totals", "since", "readings",
            "readings-final-store", "users", "people", "cities", "orders", "products", "named", "accounts", "alarms",
            "alarms-asked", "snooze")  # fmt: skip
WINDOWED = ("sums", "closed", "sessions", "readings")


class Environment(NamedTuple):
    """A broker that may be stopped, behind a proxy that damages requests."""

    broker: KafkaBroker
    noise: Noise


@pytest.fixture(scope="module")
def own() -> Iterator[Environment]:
    with FaultProxy(SEED) as proxy, KafkaBroker(settings=BROKER, proxied=proxy.port, version=KAFKA) as broker:
        proxy.connect(broker.behind_proxy)
        yield Environment(broker, Noise(proxy))


def reported(chaos: Chaos, kills: int) -> str:
    """How to repeat the run."""
    again = f"run.py --seed {chaos.seed} --kills {kills} --guarantee {chaos.guarantee}"
    return f"\n{report(chaos)}\nagain: python tests/integration/chaos/{again}"


def test_a_run_without_faults_and_a_rerun_without_state(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """The check itself, topics and their settings; and a restore of everything emits nothing again."""
    chaos = Chaos(kafka, name, tmp_path / "state", SEED, "exactly_once_v2")
    chaos.run()
    wrong = exact(Found(kafka, name), chaos.inputs)
    assert not wrong, describe(wrong) + reported(chaos, 0)
    mine = {topic.removeprefix(f"{name}-") for topic in kafka.topics() if topic.startswith(f"{name}-")}
    changelogs = {topic.removesuffix("-changelog") for topic in mine if topic.endswith("-changelog")}
    assert changelogs >= {*INTERNAL, "clocks"}
    for store in changelogs:
        policy = set(kafka.config(f"{name}-{store}-changelog")["cleanup.policy"].split(","))
        assert policy == ({"compact", "delete"} if is_windowed(store) else {"compact"}), store
    retention = {store: int(kafka.config(f"{name}-{store}-changelog")["retention.ms"]) for store in WINDOWED}
    day = 24 * 3_600_000
    assert retention["closed"] == 2 * day  # the configured retention plus a day, as in Kafka Streams
    assert retention["sums"] == 15_000 + day
    # Outputs that depend on the wall clock are emitted at every start.
    still = OUTPUTS.keys() - {"beats", "rung"}
    before = {topic: kafka.ends(f"{name}-{topic}") for topic in still}
    chaos.wipe()
    chaos.finish()
    assert {topic: kafka.ends(f"{name}-{topic}") for topic in still} == before
    assert {topic: kafka.committed(name, f"{name}-{topic}") for topic in INPUTS} == {
        topic: kafka.ends(f"{name}-{topic}") for topic in INPUTS
    }


def is_windowed(store: str) -> bool:
    """Whether its changelog is one of windows (the two of a stream join have their own names)."""
    return store in WINDOWED or (store.startswith(("pairs", "meetings")) and "shared" not in store)


def test_exactly_once(own: Environment, name: str, tmp_path: Path) -> None:
    """Kills at every named place and at random moments, and every other fault, including those of the broker.

    All of it through a proxy that damages requests, with both clients in turn.
    """
    broker, noise = own
    chaos = Chaos(
        KafkaTopics(broker.bootstrap), name, tmp_path / "state", SEED, "exactly_once_v2", kills=KILLS, others=True,
        broker=broker, noise=noise, clients=[NATIVE, LIBRDKAFKA],
    )  # fmt: skip
    chaos.run()
    wrong = [*chaos.violations, *exact(Found(chaos.kafka, name), chaos.inputs)]
    assert not wrong, describe(wrong) + reported(chaos, KILLS)
    assert chaos.kills >= KILLS
    assert chaos.clients.keys() == {NATIVE, LIBRDKAFKA}
    noise.off()
    assert sum(noise.struck.values()) > 50, noise.struck
    assert chaos.places.keys() == set(PLACES), reported(chaos, KILLS)


def test_at_least_once(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    chaos = Chaos(kafka, name, tmp_path / "state", SEED + 2, "at_least_once", kills=KILLS // 3)
    chaos.run()
    wrong = [*chaos.violations, *at_least(Found(kafka, name), chaos.inputs)]
    assert not wrong, describe(wrong) + reported(chaos, KILLS // 3)


def test_the_checks_detect_faults() -> None:
    """A check that can't fail proves nothing."""
    assert steps("it", {"a": [1, 2]}, {"a": 2}) == []
    broken: list[list[int | None]] = [[1], [1, 1, 2], [2, 1], [1, 2, 3], [1, None]]
    assert all(steps("it", {"a": one}, {"a": 2}) for one in broken)
    assert steps("it", {}, {"a": 1})
    assert same("it", {"a": 1}, {"a": 1}) == []
    assert same("it", {"a": 1}, {"b": 1})
    assert same_counts("it", Counter("aab"), Counter("aab")) == []
    assert "1 of 3 lost" in same_counts("it", Counter("ab"), Counter("aab"))[0]
    assert "1 too many" in same_counts("it", Counter("aabb"), Counter("aab"))[0]


def test_the_bank_check_detects_faults() -> None:
    """A torn transaction, a duplicated transfer, a lost transfer."""
    inputs = Inputs(5)
    inputs.round()
    balances: Counter[str] = Counter()
    rows: list[Row] = []
    transactions: list[Transaction] = []
    for given in inputs.of("transfers"):
        for account, amount in bank.transfer(given.value):
            balances[account] += amount
            rows.append(Row(0, len(rows), account.encode(), long(balances[account])))
        transactions.append(Transaction(len(rows) - 2, len(rows) - 1))
    assert bank.wrong(rows, transactions, inputs) == []
    assert len(bank.cuts(rows, transactions)) == len(rows) // 2
    torn = [Transaction(0, 0), Transaction(1, 1), *transactions[1:]]
    assert "1 committed cuts" in bank.wrong(rows, torn, inputs)[0]
    late = [transactions[0]._replace(last=transactions[1].first), *transactions[1:]]
    assert "are mixed" in bank.wrong(rows, late, inputs)[1]
    assert "but rows of" in bank.wrong(rows[:-2], transactions, inputs)[0]
    assert "lost" in bank.wrong(rows[:-2], transactions[:-1], inputs)[0]
    at = len(rows)
    again = [*rows, *(row._replace(offset=at + n) for n, row in enumerate(rows[-2:]))]
    assert "too many {0: 1}" in bank.wrong(again, [*transactions, Transaction(at, at + 1)], inputs)[0]


def test_transactions_are_derived_from_their_batches() -> None:
    """Two alternating producers: markers among the records of the next transaction, an abort, an open transaction."""

    def batch(first: int, count: int, producer: int, attributes: int, records: bytes = b"") -> bytes:
        numbers = (first, HEAD.size - 12 + len(records), 0, 2, 0, attributes, count - 1, 0, 0, producer, 0, 0, count)
        return HEAD.pack(*numbers) + records

    def marker(first: int, producer: int, kind: int) -> bytes:
        return batch(first, 1, producer, TRANSACTIONAL | CONTROL, b"\0\0\0\0\x08" + bytes([0, 0, 0, kind]))

    log = [
        batch(0, 3, 7, TRANSACTIONAL),
        batch(3, 2, 8, TRANSACTIONAL),
        marker(5, 7, 1),
        batch(6, 2, 8, TRANSACTIONAL),
        batch(8, 1, 7, TRANSACTIONAL),
        marker(9, 8, 1),
        batch(10, 4, 7, TRANSACTIONAL),
        marker(14, 7, 0),
        batch(15, 1, 9, 0),
        batch(16, 1, 7, TRANSACTIONAL),
    ]
    whole = b"".join(log)
    wanted = [Transaction(0, 2), Transaction(3, 7)]
    assert committed(lambda at: whole if at < 17 else b"") == wanted
    # A fetch is limited in bytes: the last batch may be cut short, the first one begin too early.
    starts = [0, 3, 5, 6, 8, 9, 10, 14, 15, 16, 17]

    def piece(at: int) -> bytes:
        of = max(n for n, start in enumerate(starts) if start <= at)
        return b"".join(log[max(0, of - 1) : of + 1]) + b"".join(log[of + 1 : of + 2])[:-1]

    assert committed(piece) == wanted
    assert mixed(wanted) == []
    assert mixed([Transaction(0, 3), Transaction(3, 4)]) == [(Transaction(0, 3), Transaction(3, 4))]


def test_the_alarm_check_detects_faults() -> None:
    """One that never fired, one that fired twice, one that was not requested; a missing tick, an additional tick."""
    asked = {("a", 10), ("b", 10), ("b", 20)}
    rung = Counter([("a", 10), ("b", 10)])
    assert alarms.wrong("it", rung, asked, {("b", 20)}) == []
    assert "1 of 3 never rang" in alarms.wrong("it", rung, asked, set())[0]
    assert "rang twice" in alarms.wrong("it", rung + Counter([("a", 10)]), asked, {("b", 20)})[0]
    assert "rang twice" in alarms.wrong("it", rung + Counter([("c", 10)]), asked, {("b", 20)})[0]
    assert "rang twice" in alarms.wrong("it", rung + Counter([("b", 20)]), asked, {("b", 20)})[0]
    assert alarms.gaps([5, 10, 15], 5) == []
    assert all(alarms.gaps(times, 5) for times in ([5, 15], [5, 5, 10], []))
    row = Row(0, 0, b"\x01" + (2**63 + 70).to_bytes(8, "big") + b"w1", b"")
    assert alarms.pending([row]) == {("w1", 70)}
    assert alarms.pending([row, row._replace(value=None)]) == set()


def test_a_schedule_has_every_fault_and_is_fixed_by_its_seed() -> None:
    for seed in range(20):
        faults = schedule(seed, 12, others=True, broker=True)
        assert faults == schedule(seed, 12, others=True, broker=True)
        assert sum(fault.is_kill for fault in faults) == 12
        met = {fault.where for fault in faults if fault.kind in {Kind.KILL_AT, Kind.ERROR_AT}}
        assert met == set(PLACES)
        assert {fault.kind for fault in faults} >= set(OTHERS)
    many = schedule(1, 200, others=True, broker=True, wire=True)
    assert {fault.where for fault in many if fault.kind is Kind.WIRE} == set(ACTIONS)
    assert sum(fault.is_kill for fault in many) == 200
    assert {fault.where for fault in many if fault.kind is Kind.KILL_AT} == set(PLACES)
    assert any(fault.kind is Kind.KILL for fault in many)
    page = (Path(__file__).parents[3] / "docs" / "explain" / "exactly-once.md").read_text(encoding="utf-8")
    assert all(f"| `{place}` |" in page for place in PLACES)


def test_an_error_exit_is_distinguished_from_a_crash() -> None:
    assert SENTENCE.findall("stoatflow.errors.DiskFullError: the disk of state.dir is full. Next: free space") == [
        "DiskFullError"
    ]
    assert SENTENCE.findall("Segmentation fault") == []
    assert SENTENCE.findall("KeyError: 'x'") == []


def test_a_seed_reproduces_the_run() -> None:
    one, two, other = Inputs(5), Inputs(5), Inputs(6)
    for inputs in (one, two, other):
        inputs.round()
        inputs.closing()
    assert [row[:4] for row in one.rows] == [row[:4] for row in two.rows] != [row[:4] for row in other.rows]
