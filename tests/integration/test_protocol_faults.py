"""Faults of single requests on a real broker, through a proxy, for both clients: every update once, whatever is lost.

Each fault comes alone first, in the middle of the work; then all kinds of them at random, from a seed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.fault_proxy import Api, FaultProxy
from broker.kafka_broker import KafkaBroker
from broker.noise import NOT_COORDINATOR, REFUSED
from counting import check_every_update, lines, make, until, until_consumed
from topics import KafkaTopics

CLIENTS = {
    "own": {},
    "librdkafka": {"kafka.client": "librdkafka", "producer.linger.ms": 1, "consumer.fetch.wait.max.ms": 50},
}
ACTIONS = ["disconnect before", "disconnect after", "delay"]
WRITING = [Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN, Api.ADD_OFFSETS_TO_TXN, Api.ADD_PARTITIONS_TO_TXN]
NEWER = [Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN]
"""With the second version of transactions nothing is added before it is sent."""
READING = [Api.FETCH, Api.LIST_OFFSETS, Api.METADATA]


class Stand:
    """A broker behind a proxy."""

    def __init__(self, proxy: FaultProxy, broker: KafkaBroker) -> None:
        self.proxy = proxy
        self.kafka = KafkaTopics(broker.bootstrap)


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with FaultProxy(seed=7) as proxy, KafkaBroker(proxied=proxy.port) as broker:
        proxy.connect(broker.behind_proxy)
        yield Stand(proxy, broker)


def prepared(stand: Stand, name: str) -> None:
    stand.proxy.clear()
    stand.kafka.create(f"{name}-in", 2)
    stand.kafka.create(f"{name}-out", 2)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_fault_alone(stand: Stand, name: str, tmp_path: Path, client: str) -> None:
    prepared(stand, name)
    given = lines(1, 40)
    stand.kafka.write(f"{name}-in", given)
    app = make(stand.proxy.address, name, tmp_path, **CLIENTS[client])
    struck = []
    with app:
        until_consumed(app)
        for api in (*WRITING, *READING):
            for action in ACTIONS:
                rule = stand.proxy.inject(api, action, delay_s=0.4)
                more = lines(len(given), 20)
                given += more
                stand.kafka.write(f"{name}-in", more)
                began = time.monotonic()
                # Not every client asks all of this again and again.
                while not rule.struck and time.monotonic() - began < 1.5:
                    time.sleep(0.02)
                until_consumed(app)
                if rule.struck:
                    struck.append((api, action))
                stand.proxy.clear()
        asked = [api for api in WRITING if client == "librdkafka" or api in NEWER]
        for api in asked:
            for code in REFUSED[api]:
                rule = stand.proxy.inject(api, "error", code=code)
                more = lines(len(given), 20)
                given += more
                connections = stand.proxy.connections
                stand.kafka.write(f"{name}-in", more)
                until(lambda rule=rule: rule.struck > 0, f"{api.name} gets {code}")  # type: ignore[misc]
                until_consumed(app)
                # A client that can't read an answer hangs up; librdkafka connects to a coordinator once more.
                assert code == NOT_COORDINATOR or stand.proxy.connections == connections, (api, code)
    check_every_update(stand.kafka.read(f"{name}-out"), given)
    for api in (Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN, Api.FETCH):
        assert [action for of, action in struck if of == api] == ACTIONS, (api, struck)


@pytest.mark.parametrize("client", CLIENTS)
def test_faults_at_random(stand: Stand, name: str, tmp_path: Path, client: str) -> None:
    prepared(stand, name)
    given = lines(2, 200)
    stand.kafka.write(f"{name}-in", given)
    app = make(stand.proxy.address, name, tmp_path, **CLIENTS[client])
    with app:
        until_consumed(app)
        rules = [stand.proxy.inject(api, "disconnect after", probability=0.01) for api in (*WRITING, *READING)]
        rules += [stand.proxy.inject(api, "disconnect before", probability=0.01) for api in WRITING]
        rules += [stand.proxy.inject(None, "delay", probability=0.02, delay_s=0.2)]
        for round_ in range(40):
            more = lines(100 + round_, 25)
            given += more
            stand.kafka.write(f"{name}-in", more)
            time.sleep(0.1)
        assert sum(rule.struck for rule in rules) > 10
        stand.proxy.clear()
        until_consumed(app)
    check_every_update(stand.kafka.read(f"{name}-out"), given)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_start_through_faults(stand: Stand, name: str, tmp_path: Path, client: str) -> None:
    """What is asked at a start is asked again."""
    prepared(stand, name)
    given = lines(3, 60)
    stand.kafka.write(f"{name}-in", given)
    for api in (Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.OFFSET_FETCH, Api.LIST_OFFSETS):
        for action in ("disconnect before", "disconnect after"):
            stand.proxy.inject(api, action)
            app = make(stand.proxy.address, name, tmp_path, **CLIENTS[client])
            with app:
                until_consumed(app)
            stand.proxy.clear()
    check_every_update(stand.kafka.read(f"{name}-out"), given)
