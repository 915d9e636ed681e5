"""Transactions that the broker aborts, or handles by other rules, under a running application; with both clients.

Whatever ends a transaction, the application continues by itself or ends with an error that has a name, and a new
start continues: every update appears once. `STOATFLOW_TEST_TRANSACTION_FAULTS=all` tries everything (4 minutes).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker import wire_admin
from broker.fault_proxy import Api, FaultProxy
from broker.kafka_broker import KafkaBroker
from broker.kafka_since import KAFKA_4, is_kafka_since
from broker.maven_jars import kafka_version
from confluent_kafka import Producer
from counting import PATIENCE_S, by_hand, check_every_update, lines, make, table, until, until_consumed, until_running
from processes import Process
from topics import KafkaTopics
from transactions import CONTROL, batches_of

import stoatflow as sf

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

CLIENTS = {
    "native": {},
    "librdkafka": {"kafka.client": "librdkafka", "producer.linger.ms": 1, "consumer.fetch.wait.max.ms": 50},
}
# More than a busy machine takes for a transaction: only the one of the stopped process must be lost.
TIMEOUT_S = 4.0
# Less than the five seconds after which an idle application commits.
EXPIRY_S = 4.0
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
FORGETFUL = {
    "transactional.id.expiration.ms": str(int(EXPIRY_S * 1000)),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "producer.id.expiration.ms": str(int(EXPIRY_S * 1000)),
    "producer.id.expiration.check.interval.ms": "200",
}
LATE_ENDS = 6
ALL = os.environ.get("STOATFLOW_TEST_TRANSACTION_FAULTS") == "all"
# Two commits that follow one another: they have different transactional ids.
STALLS = [f"commit.before-commit=stop@{hit}" for hit in (2, 3)] + (["epoch.send=stop@2"] if ALL else [])
TRIED = ["native", "librdkafka"] if ALL else ["native"]


def tried(client: str, version: int) -> ParameterSet:
    """A parameter: a client, and the version of transactions."""
    return pytest.param(client, version, marks=KAFKA_4 if version == 2 else ())


NEWEST = tried("native", 2 if is_kafka_since("4.0") else 1)
BOTH = [tried(client, version) for client in CLIENTS for version in (1, 2)]
SENTENCE = re.compile(r"errors\.(Fenced|UnknownOutcome)Error: .{20,}")
CONCURRENT = 51
# The requests that follow the end of a transaction.
NEXT = (Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.INIT_PRODUCER_ID)
SEQUENCE, EPOCH, STATE, MAPPING, UNKNOWN_PRODUCER, FENCED, ABORTABLE = 45, 47, 48, 49, 59, 90, 120
OVER = {
    Api.PRODUCE: (SEQUENCE, EPOCH, STATE, UNKNOWN_PRODUCER, ABORTABLE),
    Api.TXN_OFFSET_COMMIT: (EPOCH, STATE, MAPPING, ABORTABLE),
    Api.END_TXN: (EPOCH, STATE, MAPPING, FENCED, ABORTABLE),
}
APP = """
import json, sys
from pathlib import Path
from counting import make

make(sys.argv[1], sys.argv[2], Path(sys.argv[3]), **json.loads(sys.argv[4])).run()
"""


class Environment:
    """A broker with short timeouts, behind a proxy."""

    def __init__(self, proxy: FaultProxy, broker: KafkaBroker) -> None:
        self.proxy, self.broker = proxy, broker
        self.kafka = KafkaTopics(broker.bootstrap)

    def version(self, number: int) -> None:
        """From now on, transactions have this version. Those of brokers before 4.0 are like version 1."""
        if number == 1 and kafka_version() < "4":
            return
        host, port = self.broker.bootstrap.rsplit(":", 1)
        wire_admin.transaction_version(host, int(port), number)


@contextlib.contextmanager
def running_environment(settings: Mapping[str, str]) -> Iterator[Environment]:
    with FaultProxy() as proxy, KafkaBroker(settings=settings, proxied=proxy.port) as broker:
        proxy.connect(broker.behind_proxy)
        yield Environment(proxy, broker)


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    with running_environment(BROKER) as made:
        yield made


@pytest.fixture
def forgetful() -> Iterator[Environment]:
    """Expires ids within seconds, so it is not shared: a slow application of another test would lose its own."""
    with running_environment(BROKER | FORGETFUL) as made:
        yield made


@pytest.fixture
def kafka(environment: Environment, name: str) -> Iterator[KafkaTopics]:
    for topic in ("in", "out"):
        environment.kafka.create(f"{name}-{topic}", 2)
    yield environment.kafka
    environment.proxy.clear()


def app(environment: Environment, name: str, state: Path, client: str, **more: object) -> sf.StoatFlow:
    return make(environment.proxy.address, name, state, **CLIENTS[client], **more)


def is_done(kafka: KafkaTopics, name: str, feed: Feed) -> bool:
    """Whether the last count of each word is there."""
    return table(kafka.read(f"{name}-out")) == by_hand(feed.given)


class Feed:
    """Writes lines, and remembers all of them."""

    def __init__(self, kafka: KafkaTopics, name: str) -> None:
        self._kafka, self._name = kafka, name
        self.given: list[str] = []

    def more(self, count: int = 20) -> None:
        some = lines(len(self.given), count)
        self._kafka.write(f"{self._name}-in", some)
        self.given += some

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """A line every few milliseconds, so that transactions follow each other closely."""
        over = threading.Event()
        exact = {"linger.ms": 0, "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self._kafka.address, "log_level": 0, **exact})

        def write() -> None:
            while not over.wait(0.002):
                (line,) = lines(len(self.given), 1)
                producer.produce(f"{self._name}-in", line.encode())
                producer.poll(0)
                self.given.append(line)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            assert producer.flush(30) == 0

    def check(self) -> None:
        check_every_update(self._kafka.read(f"{self._name}-out"), self.given)

    def writers(self) -> list[tuple[int, int]]:
        """Producer id and epoch of each batch of the output, in order."""
        found = batches_of(self._kafka.address, f"{self._name}-out")
        return [(batch.producer, batch.epoch) for batch in found if not batch.attributes & CONTROL]


def work_until_it_stops(child: Process, feed: Feed) -> None:
    began = time.monotonic()
    while not child.is_stopped:
        assert child.code is None and time.monotonic() - began < PATIENCE_S, child.reported()  # noqa: PT018
        feed.more(2)
        time.sleep(0.05)


@pytest.mark.parametrize(("client", "version"), BOTH if ALL else [NEWEST, tried("librdkafka", 1)])
def test_a_process_frozen_beyond_the_transaction_timeout(
    environment: Environment, kafka: KafkaTopics, name: str, tmp_path: Path, client: str, version: int
) -> None:
    """KAFKA-19690, 20785: the broker's error for a transaction that it has ended depends on the version.

    The native client tells such an end from a takeover, and the application goes on.
    """
    environment.version(version)
    feed, settings = Feed(kafka, name), {**CLIENTS[client], "transaction.timeout.ms": int(TIMEOUT_S * 1000)}
    feed.more(60)
    arguments = ["-c", APP, environment.proxy.address, name, tmp_path, json.dumps(settings)]
    for stall in STALLS:
        with Process(arguments, {"STOATFLOW_FAILPOINTS": stall}) as child:
            work_until_it_stops(child, feed)
            time.sleep(TIMEOUT_S + 1.0)
            child.signal(signal.SIGCONT)
            feed.more()
            child.until(lambda: child.code is not None or is_done(kafka, name, feed), "it goes on or ends")
            if child.code is None:
                child.signal(signal.SIGTERM)
                assert child.wait() == 0, child.reported()
            else:
                assert client == "librdkafka" and SENTENCE.search(child.errors), child.reported()  # noqa: PT018
    with app(environment, name, tmp_path, client) as last:
        until_consumed(last)
    feed.check()


@pytest.mark.parametrize(("client", "version"), BOTH if ALL else BOTH[:3])
def test_the_end_of_a_transaction_that_arrives_late(
    environment: Environment, kafka: KafkaTopics, name: str, tmp_path: Path, client: str, version: int
) -> None:
    """Its client has disconnected and retried, and may be in the middle of the next one (Jepsen 2024, KIP-890)."""
    environment.version(version)
    feed = Feed(kafka, name)
    ends: Counter[str] = Counter()
    began = time.monotonic()

    def is_enough() -> bool:
        return ends["late"] >= LATE_ENDS or time.monotonic() - began > PATIENCE_S

    with feed.steady():
        while not is_enough():
            try:
                with app(environment, name, tmp_path, client) as running:
                    until_running(running)
                    while not is_enough():
                        rule = environment.proxy.inject(Api.END_TXN, "late", delay_s=0.03)
                        running.wait(0.15)
                        ends["late"] += rule.struck
                        environment.proxy.clear()
            except (sf.FencedError, sf.UnknownOutcomeError, sf.BrokerUnavailableError) as error:  # noqa: PERF203
                ends[type(error).__name__] += 1
    with app(environment, name, tmp_path, client) as last:
        until_consumed(last)
    feed.check()
    assert ends["late"] >= LATE_ENDS, ends


@KAFKA_4
@pytest.mark.parametrize("client", CLIENTS)
def test_broker_errors_for_an_unknown_transaction(
    environment: Environment, kafka: KafkaTopics, name: str, tmp_path: Path, client: str
) -> None:
    """Each error code for an ended transaction, in response to each request of a transaction."""
    environment.version(2)
    feed = Feed(kafka, name)
    ended = []
    for api, codes in OVER.items():
        for code in codes if ALL else codes[1:3]:
            try:
                with app(environment, name, tmp_path, client) as running:
                    until_running(running)
                    rule = environment.proxy.inject(api, "error", code=code)
                    feed.more()
                    until_consumed(running)
            except (sf.FencedError, sf.UnknownOutcomeError, sf.BrokerUnavailableError) as error:
                # The last one: its offsets wait for the transaction that it has left open.
                ended.append((api.name, code, type(error).__name__))
            assert rule.struck, (api, code)
            environment.proxy.clear()
    with app(environment, name, tmp_path, client) as last:
        until_consumed(last)
    feed.check()
    if client == "native":
        # It checks whether it has been fenced, and continues.
        assert not ended


@KAFKA_4
def test_a_coordinator_that_does_not_end_a_transaction(
    environment: Environment, kafka: KafkaTopics, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """KAFKA-19999: the broker answers CONCURRENT_TRANSACTIONS to each request of the next transaction.

    The log says so and what to look at, and the application continues when that is over.
    """
    environment.version(2)
    feed, output = Feed(kafka, name), ""
    feed.more()

    def is_reported() -> bool:
        nonlocal output
        output += capfd.readouterr().err
        return "can't do it now (ConcurrentTransactions)" in output and "find-hanging" in output

    budget = {"commit.timeout.ms": 4000, "broker.wait.timeout.ms": 4000}
    with app(environment, name, tmp_path, "native", **budget) as running:
        until_consumed(running)
        rules = [environment.proxy.inject(api, "error", code=CONCURRENT, probability=1.0) for api in NEXT]
        feed.more()
        until(is_reported, "it is told")
        assert sum(rule.struck for rule in rules) > 1
        environment.proxy.clear()
        until_consumed(running)
    feed.check()


@KAFKA_4
@pytest.mark.parametrize("client", TRIED)
def test_the_version_of_transactions_changes_under_a_running_application(
    environment: Environment, kafka: KafkaTopics, name: str, tmp_path: Path, client: str
) -> None:
    """KAFKA-18227. A client learns of it when it connects: in the middle of each kind of request."""
    environment.version(1)
    feed = Feed(kafka, name)
    feed.more()
    used = {}
    with app(environment, name, tmp_path, client) as running:
        until_consumed(running)
        for version in (2, 1, 2):
            environment.version(version)
            for api in (Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN):
                environment.proxy.inject(api, "disconnect after")
            feed.more()
            until_consumed(running)
            feed.more()
            environment.proxy.cut()
            until_consumed(running)
            before = len(feed.writers())
            for _ in range(6):
                feed.more(5)
                until_consumed(running)
            used[version] = feed.writers()[before:]
        assert not running.metrics()["restarts"], "nothing of it ends a transaction"
    feed.check()
    if client == "native":
        # Only in the second version does each transaction have its own epoch. In the first one, each of the
        # two ids takes another epoch after an end that was cut off.
        assert len(set(used[1])) <= 4, used
        assert len(set(used[2])) >= 6, used


@KAFKA_4
@pytest.mark.parametrize("client", TRIED)
def test_transactional_ids_that_expired(forgetful: Environment, name: str, tmp_path: Path, client: str) -> None:
    """While the application idles, and while it is stopped."""
    for topic in ("in", "out"):
        forgetful.kafka.create(f"{name}-{topic}", 2)
    forgetful.version(2)
    feed = Feed(forgetful.kafka, name)
    seen: set[int] = set()

    def new_writers() -> set[int]:
        fresh = {producer for producer, _ in feed.writers()} - seen
        seen.update(fresh)
        return fresh

    def work(running: sf.StoatFlow) -> bool:
        """Whether it works, and writes with an id that was not seen yet."""
        feed.more()
        until_consumed(running)
        return bool(new_writers())

    def work_anew() -> bool:
        with app(forgetful, name, tmp_path, client) as again:
            return work(again)

    def until_forgotten(works: Callable[[], bool]) -> None:
        """Each use of an id restarts its expiry, and a slow broker expires it later."""
        for _ in range(4):
            time.sleep(EXPIRY_S + 2.0)
            if works():
                return
        pytest.fail("the broker has forgotten nothing")

    with app(forgetful, name, tmp_path, client) as running:
        assert work(running)
        until_forgotten(lambda: work(running))
    until_forgotten(work_anew)
    feed.check()
