"""`stoatflow dlq` on real Kafka: every dead letter is replayed once, whatever kills the replay or runs beside it."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from broker.wire_admin import Operation, Resource
from counting import consume
from processes import Process
from topics import KafkaTopics, Row

import stoatflow as sf
from stoatflow._runtime import bridge
from stoatflow.cli import main
from stoatflow.dlq.replay import Replay
from stoatflow.dlq.selection import Selection
from stoatflow.dlq.topic import DeadLetterTopic

LETTERS = 2_200
"""Five transactions."""
CHILD = Path(__file__).with_name("replaying.py")


def dlq(kafka: KafkaTopics, *arguments: str) -> int:
    return main(["dlq", *arguments, "--bootstrap", kafka.address])


def write(kafka: KafkaTopics, name: str, count: int, *, begin: int = 0) -> None:
    """Dead letters of records of three partitions, in two partitions, in transactions, so with markers among them."""
    client = bridge.TopicsClient([("application.id", "test"), ("bootstrap.servers", kafka.address)])
    writer = client.writer(f"{name}-by-hand")
    letters = [
        (
            f"{name}-bad",
            n % 2,
            b"k%d" % n,
            b"v%d" % n,
            1_769_860_800_000 + n,
            [
                ("trace", b"%d" % n),
                ("__stoatflow.errors.application", b"shop"),
                ("__stoatflow.errors.exception", b"ValueError" if n % 4 else b"KeyError"),
                ("__stoatflow.errors.topic", f"{name}-in".encode()),
                ("__stoatflow.errors.partition", b"%d" % (n % 3)),
                ("__stoatflow.errors.offset", b"%d" % n),
            ],
        )
        for n in range(begin, begin + count)
    ]
    for at in range(0, count, 130):
        writer.begin()
        writer.send(letters[at : at + 130])
        assert writer.commit()
    # The last commit is acknowledged before its markers are written: until then neither readers nor a
    # replay see its letters.
    assert kafka.count(f"{name}-bad") >= count


def prepare(kafka: KafkaTopics, name: str, count: int = LETTERS) -> None:
    kafka.create(f"{name}-in", 3)
    kafka.create(f"{name}-bad", 2)
    write(kafka, name, count)


def check(rows: list[Row], name: str, numbers: range | set[int]) -> None:
    """Checks that each of these letters is back once, where it came from, unchanged, with its mark."""
    found = Counter(row.value for row in rows)
    assert found == Counter(b"v%d" % n for n in numbers), [value for value, times in found.items() if times > 1][:8]
    for row in rows:
        assert row.value is not None
        n = int(row.value[1:])
        assert (row.partition, row.key) == (n % 3, b"k%d" % n)
        headers = dict(row.headers)
        assert row.headers[0] == ("trace", b"%d" % n)
        assert not any(reported.startswith("__stoatflow.errors.") for reported in headers)
        assert headers["__stoatflow.replay.topic"].decode() == f"{name}-bad"
        assert headers["__stoatflow.replay.partition"] == b"%d" % (n % 2)


def test_a_fixed_application_gets_its_records(
    kafka: KafkaTopics, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("in", "out", "bad"):
        kafka.create(f"{name}-{topic}", 2)

    def app(number: Any) -> sf.StoatFlow:
        builder = sf.StreamsBuilder()
        lines = builder.stream(f"{name}-in", key=str, value=str)
        numbers = lines.map_values(number, name="parse", on_error=sf.DLQ(f"{name}-bad"))
        numbers.to(f"{name}-out", key=str, value=int)
        settings = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": str(tmp_path)}
        return sf.StoatFlow(builder.build(), settings)

    kafka.write(f"{name}-in", ["1", "2", "three", "4", "three", "6"])
    consume(app(int))
    assert dlq(kafka, "list", f"{name}-bad", "--json") == 0
    (cause,) = json.loads(capsys.readouterr().out)["causes"]
    assert (cause["count"], cause["node"], cause["exception"]) == (2, "parse", "ValueError")
    assert cause["source_topic"] == f"{name}-in"
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 0
    assert kafka.config(f"{name}-bad-replayed")["cleanup.policy"] == "compact"
    consume(app(lambda text: 3 if text == "three" else int(text)))
    assert sorted(row.value[-1] for row in kafka.read(f"{name}-out") if row.value) == [1, 2, 3, 3, 4, 6]
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 0
    assert kafka.count(f"{name}-in") == 8
    assert dlq(kafka, "list", f"{name}-bad", "--json") == 0
    printed = capsys.readouterr().out.partition("\nthere is nothing to replay\n")[2]
    assert json.loads(printed)["causes"][0]["replayed"] == 2


def test_a_replay_killed_at_each_step(kafka: KafkaTopics, name: str) -> None:
    prepare(kafka, name)
    command = ["dlq", "replay", f"{name}-bad", "--yes", "--bootstrap", kafka.address]
    # The moment, the commit, and the number of letters committed afterwards.
    for moment, number, letters in [("before", 1, 0), ("after", 1, 500), ("before", 2, 1000), ("after", 2, 2000)]:
        with Process([CHILD, moment, number, *command]) as child:
            assert child.wait() == -signal.SIGKILL, child.reported()
        # The next replay ends the open transaction, and its hidden records become visible.
        if moment == "after":
            assert kafka.count(f"{name}-in") == letters
    with Process([CHILD, "after", 99, *command]) as child:
        assert child.wait() == 0, child.reported()
    check(kafka.read(f"{name}-in"), name, range(LETTERS))
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 0
    assert kafka.count(f"{name}-in") == LETTERS


def test_a_replay_killed_at_random_times(kafka: KafkaTopics, name: str) -> None:
    """Also within the client, where no test can stop; the moments above cover what must fail."""
    prepare(kafka, name)
    rng = random.Random(11)
    command = ["-m", "stoatflow", "dlq", "replay", f"{name}-bad", "--yes", "--bootstrap", kafka.address]
    for _ in range(2):
        with Process(command) as child:
            child.until(lambda child=child: child.code is not None or " of " in child.errors, "it has begun")
            time.sleep(rng.uniform(0.0, 0.03))
            child.signal(signal.SIGKILL)
            child.wait()
    with Process(command) as child:
        assert child.wait() == 0, child.reported()
    check(kafka.read(f"{name}-in"), name, range(LETTERS))


def test_two_concurrent_replays(kafka: KafkaTopics, name: str) -> None:
    """The second one takes over, knows what the first one has done, and does the rest."""
    prepare(kafka, name, 1_100)

    def replay() -> Replay:
        client = bridge.TopicsClient([("application.id", "test"), ("bootstrap.servers", kafka.address)])
        return Replay(client, DeadLetterTopic(client, f"{name}-bad"), Selection())

    first, second = replay(), replay()
    both = []

    def take_over(_: int) -> None:
        both.append(second.make(lambda _: None))

    with pytest.raises(sf.FencedError, match=r"replay of .* has begun: this one stopped after 500 dead letters"):
        first.make(take_over)
    assert both == [600]
    check(kafka.read(f"{name}-in"), name, range(1_100))


def test_a_partial_replay_and_then_the_rest(kafka: KafkaTopics, name: str) -> None:
    prepare(kafka, name, 400)
    assert dlq(kafka, "replay", f"{name}-bad", "--yes", "--cause", "KeyError") == 0
    check(kafka.read(f"{name}-in"), name, set(range(0, 400, 4)))
    write(kafka, name, 50, begin=400)
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 0
    check(kafka.read(f"{name}-in"), name, range(450))


def test_marks_are_of_one_topic_and_do_not_expire(
    kafka: KafkaTopics, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(kafka, name, 10)
    kafka.create(f"{name}-bad-replayed", 1, {"cleanup.policy": "delete"})
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 2
    assert f"Next: set cleanup.policy=compact on '{name}-bad-replayed'" in capsys.readouterr().err
    assert kafka.count(f"{name}-in") == 0
    kafka.delete([f"{name}-bad-replayed"])
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 0
    # If the topic is created again, its offsets mean other letters.
    kafka.delete([f"{name}-bad"])
    kafka.create(f"{name}-bad", 2)
    write(kafka, name, 10, begin=10)
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 0
    check(kafka.read(f"{name}-in"), name, range(20))
    # Marks that have expired anyway are noticed.
    kafka.configure(f"{name}-bad-replayed", cleanup_policy="compact,delete")
    kafka.empty(f"{name}-bad-replayed")
    capsys.readouterr()
    assert dlq(kafka, "replay", f"{name}-bad", "--yes") == 1
    assert "marks of what was replayed are gone" in capsys.readouterr().err
    assert kafka.count(f"{name}-in") == 20


@pytest.mark.xdist_group("secured")
def test_each_missing_permission_is_named(
    secured: KafkaCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The permissions in docs/guide/dead-letters.md are sufficient, through TLS and SCRAM."""
    kafka = KafkaTopics(secured.bootstrap(), replicas=3)
    secured.create_topic(f"{name}-in", 3)
    secured.create_topic(f"{name}-bad", 2)
    write(kafka, name, 10)
    config = tmp_path / "shop.json"
    config.write_text(json.dumps(secured.client("SASL_SSL_SCRAM", DENIED)), "utf-8")
    bad, marks = f"{name}-bad", f"{name}-bad-replayed"

    def refused(action: str) -> str:
        capsys.readouterr()
        assert main(["dlq", action, bad, "--config", str(config), *(["--yes"] if action == "replay" else [])]) == 1
        return capsys.readouterr().err

    assert f"on the topic '{bad}'" in refused("list")
    secured.grant(DENIED, Resource.TOPIC, bad, Operation.READ)
    assert main(["dlq", "list", bad, "--config", str(config)]) == 0, "enough to look"
    reported = capsys.readouterr()
    assert "10 dead letters" in reported.out
    assert "which letters were replayed is not known" in reported.err
    secured.grant(DENIED, Resource.TOPIC, marks, Operation.READ, Operation.WRITE)
    assert f"on the topic '{name}-in'" in refused("replay")
    secured.grant(DENIED, Resource.TOPIC, f"{name}-in", Operation.WRITE)
    assert f"or grant this user Create on '{marks}'" in refused("replay")
    secured.grant(DENIED, Resource.TOPIC, marks, Operation.CREATE)
    assert f"Write on the transactional ids that begin with stoatflow-dlq-{bad}" in refused("replay")
    secured.grant(DENIED, Resource.TRANSACTIONAL_ID, f"stoatflow-dlq-{bad}", Operation.WRITE, prefixed=True)
    assert main(["dlq", "replay", bad, "--config", str(config), "--yes"]) == 0
    check(kafka.read(f"{name}-in"), name, range(10))
