"""Faults of single requests on a real broker, through a proxy, with both clients: every update once, whatever is lost.

Each fault occurs alone first, during the work; then all kinds of them at random, from a seed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.fault_proxy import Api, FaultProxy, Rule
from broker.kafka_broker import KafkaBroker
from broker.noise import NO_COORDINATOR, NOT_COORDINATOR, REFUSED
from counting import PATIENCE_S, check_every_update, lines, make, until, until_consumed, until_running
from topics import KafkaTopics

import stoatflow as sf

CLIENTS = {
    "own": {},
    "librdkafka": {"kafka.client": "librdkafka", "producer.linger.ms": 1, "consumer.fetch.wait.max.ms": 50},
}
SHORT = ["own", pytest.param("librdkafka", marks=pytest.mark.long)]
ACTIONS = ["disconnect before", "disconnect after", "delay"]
WRITING = [Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN, Api.ADD_OFFSETS_TO_TXN, Api.ADD_PARTITIONS_TO_TXN]
NEWER = [Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN]
"""In the second version of transactions, partitions are not added before records are sent."""
READING = [Api.FETCH, Api.LIST_OFFSETS, Api.METADATA]
TRIES = 4


class Environment:
    """A broker behind a proxy."""

    def __init__(self, proxy: FaultProxy, broker: KafkaBroker) -> None:
        self.proxy = proxy
        self.kafka = KafkaTopics(broker.bootstrap)


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    with FaultProxy(seed=7) as proxy, KafkaBroker(proxied=proxy.port) as broker:
        proxy.connect(broker.behind_proxy)
        yield Environment(proxy, broker)


def prepared(environment: Environment, name: str) -> None:
    environment.proxy.clear()
    environment.kafka.create(f"{name}-in", 2)
    environment.kafka.create(f"{name}-out", 2)


@pytest.mark.parametrize("client", SHORT)
def test_each_fault_alone(environment: Environment, name: str, tmp_path: Path, client: str) -> None:
    prepared(environment, name)
    given = lines(1, 40)
    environment.kafka.write(f"{name}-in", given)
    app = make(environment.proxy.address, name, tmp_path, **CLIENTS[client])
    struck = []
    with app:
        until_consumed(app)
        for api in (*WRITING, *READING):
            for action in ACTIONS:
                rule = environment.proxy.inject(api, action, delay_s=0.4)
                more = lines(len(given), 20)
                given += more
                environment.kafka.write(f"{name}-in", more)
                began = time.monotonic()
                # Not every client sends all of these requests repeatedly.
                while not rule.struck and time.monotonic() - began < 1.5:
                    time.sleep(0.02)
                until_consumed(app)
                if rule.struck:
                    struck.append((api, action))
                environment.proxy.clear()
        asked = [api for api in WRITING if client == "librdkafka" or api in NEWER]
        for api in asked:
            for code in REFUSED[api]:
                rule = environment.proxy.inject(api, "error", code=code)
                more = lines(len(given), 20)
                given += more
                connections = environment.proxy.connections
                environment.kafka.write(f"{name}-in", more)
                until(lambda rule=rule: rule.struck > 0, f"{api.name} gets {code}")  # type: ignore[misc]
                until_consumed(app)
                # A client that can't parse a response closes the connection. librdkafka also reconnects to a
                # coordinator that has moved, and the engine replaces it after an EndTxn whose outcome is
                # unknown.
                may_reconnect = code == NOT_COORDINATOR or (client == "librdkafka" and api is Api.END_TXN)
                assert may_reconnect or environment.proxy.connections == connections, (api, code)
    check_every_update(environment.kafka.read(f"{name}-out"), given)
    for api in (Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN, Api.FETCH):
        assert [action for of, action in struck if of == api] == ACTIONS, (api, struck)


@pytest.mark.parametrize("client", SHORT)
def test_faults_at_random(environment: Environment, name: str, tmp_path: Path, client: str) -> None:
    prepared(environment, name)
    given = lines(2, 200)
    environment.kafka.write(f"{name}-in", given)
    app = make(environment.proxy.address, name, tmp_path, **CLIENTS[client])
    with app:
        until_consumed(app)
        rules = [environment.proxy.inject(api, "disconnect after", probability=0.01) for api in (*WRITING, *READING)]
        rules += [environment.proxy.inject(api, "disconnect before", probability=0.01) for api in WRITING]
        rules += [environment.proxy.inject(None, "delay", probability=0.02, delay_s=0.2)]
        began, round_ = time.monotonic(), 0
        # The busier the machine, the fewer requests there are in a round.
        while round_ < 40 or sum(rule.struck for rule in rules) <= 10:
            assert time.monotonic() - began < PATIENCE_S, "there were too few requests"
            more = lines(100 + round_, 25)
            given += more
            environment.kafka.write(f"{name}-in", more)
            time.sleep(0.1)
            round_ += 1
        environment.proxy.clear()
        until_consumed(app)
    check_every_update(environment.kafka.read(f"{name}-out"), given)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_start_through_faults(environment: Environment, name: str, tmp_path: Path, client: str) -> None:
    """Requests of a start are retried."""
    prepared(environment, name)
    given = lines(3, 60)
    environment.kafka.write(f"{name}-in", given)
    for api in (Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.OFFSET_FETCH, Api.LIST_OFFSETS):
        for action in ("disconnect before", "disconnect after"):
            environment.proxy.inject(api, action)
            app = make(environment.proxy.address, name, tmp_path, **CLIENTS[client])
            with app:
                until_consumed(app)
            environment.proxy.clear()
    check_every_update(environment.kafka.read(f"{name}-out"), given)


def test_librdkafka_restarts_after_a_commit_without_a_response(
    environment: Environment, name: str, tmp_path: Path
) -> None:
    """It has sent EndTxn again, with the same epoch: the first one must not end a later transaction."""
    prepared(environment, name)
    given = lines(4, 40)
    environment.kafka.write(f"{name}-in", given)
    app = make(environment.proxy.address, name, tmp_path, **CLIENTS["librdkafka"])
    with app:
        until_consumed(app)
        for number in range(2):
            rule = environment.proxy.inject(Api.END_TXN, "disconnect after")
            until_struck(environment, name, given, rule)
            # Every second transaction has the same transactional id.
            for _ in range(3):
                more = lines(len(given), 5)
                given += more
                environment.kafka.write(f"{name}-in", more)
                until_consumed(app)
            assert app.metrics()["restarts"] > number
    check_every_update(environment.kafka.read(f"{name}-out"), given)


def test_a_commit_without_a_response_is_not_rolled_back(environment: Environment, name: str, tmp_path: Path) -> None:
    """The old instance commits, its answer is lost, and a new one starts before its next transaction."""
    prepared(environment, name)
    given = lines(11, 40)
    environment.kafka.write(f"{name}-in", given)
    older = make(environment.proxy.address, name, tmp_path / "older", **CLIENTS["librdkafka"])
    newer = make(environment.kafka.address, name, tmp_path / "newer")
    with contextlib.ExitStack() as running:
        with pytest.raises(sf.FencedError, match="another instance"), older:  # noqa: PT012 (one moment of its life)
            until_consumed(older)
            # Once for each transactional id, in any order.
            for _ in range(2):
                until_struck(environment, name, given, environment.proxy.inject(Api.END_TXN, "disconnect after"))
                until_consumed(older)
            running.enter_context(newer)
            until_consumed(newer)
            given += (more := lines(12, 40))
            environment.kafka.write(f"{name}-in", more)
            until(lambda: older.wait(0.05), "it ends")
        given += (more := lines(13, 40))
        environment.kafka.write(f"{name}-in", more)
        until_consumed(newer)
    check_every_update(environment.kafka.read(f"{name}-out"), given)


def until_struck(environment: Environment, name: str, given: list[str], rule: Rule) -> None:
    began = time.monotonic()
    while not rule.struck:
        assert time.monotonic() - began < PATIENCE_S, f"no request {rule.api} came"
        more = lines(len(given), 5)
        given += more
        environment.kafka.write(f"{name}-in", more)
        time.sleep(0.1)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_disconnected_instance_is_fenced_by_its_successor(
    environment: Environment, name: str, tmp_path: Path, client: str
) -> None:
    """It restarts by itself once the broker responds again, and must not roll the work back."""
    prepared(environment, name)
    given = lines(5, 40)
    environment.kafka.write(f"{name}-in", given)
    settings = {"commit.timeout.ms": 2000, "transaction.timeout.ms": 2000}
    older = make(environment.proxy.address, name, tmp_path / "older", **CLIENTS[client], **settings)
    newer = make(environment.kafka.address, name, tmp_path / "newer")
    with contextlib.ExitStack() as running:
        with pytest.raises(sf.FencedError, match="another instance"), older:  # noqa: PT012 (one moment of its life)
            until_consumed(older)
            environment.proxy.inject(None, "disconnect before", probability=1.0)
            given += (more := lines(6, 40))
            environment.kafka.write(f"{name}-in", more)
            until(lambda: older.metrics()["restarts"] > 0, "it restarts by itself")
            running.enter_context(newer)
            until_consumed(newer)
            environment.proxy.clear()
            until(lambda: older.wait(0.05), "it ends")
        given += (more := lines(7, 40))
        environment.kafka.write(f"{name}-in", more)
        until_consumed(newer)
    check_every_update(environment.kafka.read(f"{name}-out"), given)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.TXN_OFFSET_COMMIT])
def test_the_coordinator_of_the_group_is_gone(
    environment: Environment, name: str, tmp_path: Path, client: str, api: Api
) -> None:
    """Adding offsets has a deadline (librdkafka 5511); the application continues when the coordinator is back."""
    prepared(environment, name)
    given = lines(8, 40)
    environment.kafka.write(f"{name}-in", given)
    app = make(environment.proxy.address, name, tmp_path, **CLIENTS[client], **{"commit.timeout.ms": 2000})
    with app:
        until_consumed(app)
        before = app.metrics()["restarts"]
        environment.proxy.inject(Api.TXN_OFFSET_COMMIT, "error", code=NOT_COORDINATOR)
        gone = environment.proxy.inject(api, "black hole", probability=1.0)
        given += (more := lines(9, 40))
        environment.kafka.write(f"{name}-in", more)
        took = until(lambda: app.metrics()["restarts"] > before, "the commit fails")
        # Two seconds, plus what a busy machine takes: far less than any client's own timeout.
        assert took < 25
        assert gone.struck
        environment.proxy.clear()
        until_consumed(app)
    check_every_update(environment.kafka.read(f"{name}-out"), given)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_first_start_before_there_is_a_coordinator(
    environment: Environment, name: str, tmp_path: Path, client: str
) -> None:
    """A new cluster creates its offsets topic on the first request; librdkafka retries three times only."""
    prepared(environment, name)
    environment.kafka.write(f"{name}-in", given := lines(18, 40))
    none = environment.proxy.inject(Api.FIND_COORDINATOR, "error", probability=1.0, code=NO_COORDINATOR)
    with make(environment.proxy.address, name, tmp_path, **CLIENTS[client]) as app:
        until(lambda: none.struck >= 5, "it asks again")
        environment.proxy.clear()
        until_running(app)
        until_consumed(app)
        assert app.metrics()["restarts"] == 0
    check_every_update(environment.kafka.read(f"{name}-out"), given)


def test_the_steps_of_a_commit_share_its_timeout(environment: Environment, name: str, tmp_path: Path) -> None:
    """Each step alone would be in time. Of six seconds, three are reserved for the end of the transaction."""
    prepared(environment, name)
    given = lines(14, 40)
    environment.kafka.write(f"{name}-in", given)
    app = make(environment.proxy.address, name, tmp_path, **{"commit.timeout.ms": 6000})
    with app:
        until_consumed(app)
        before = app.metrics()["restarts"]
        slow = [
            environment.proxy.inject(api, "delay", probability=1.0, delay_s=delay_s)
            for api, delay_s in ((Api.PRODUCE, 0.6), (Api.TXN_OFFSET_COMMIT, 2.7))
        ]
        given += (more := lines(15, 40))
        environment.kafka.write(f"{name}-in", more)
        until(lambda: app.metrics()["restarts"] > before, "the commit is aborted")
        assert all(rule.struck for rule in slow)
        environment.proxy.clear()
        until_consumed(app)
    check_every_update(environment.kafka.read(f"{name}-out"), given)


@pytest.mark.parametrize("api", [Api.FETCH, Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN])
def test_a_lost_request_takes_its_timeout(environment: Environment, name: str, tmp_path: Path, api: Api) -> None:
    prepared(environment, name)
    given = lines(10, 40)
    environment.kafka.write(f"{name}-in", given)
    app = make(environment.proxy.address, name, tmp_path, **{"request.timeout.ms": 2500})
    with app:
        until_consumed(app)
        # A single long wait may be the machine's fault, since other tests share it; a wrong timeout is long
        # every time.
        for _ in range(TRIES):
            environment.proxy.clear()
            until_struck(environment, name, given, environment.proxy.inject(api, "black hole"))
            began = time.monotonic()
            until_consumed(app)
            if (took := time.monotonic() - began) < 7:
                break
        # Without that setting it would be ten seconds.
        assert took < 7
        assert app.metrics()["restarts"] == 0
    check_every_update(environment.kafka.read(f"{name}-out"), given)
