"""What a user or a machine can get wrong: each has its own error class and a next step; nothing is half done."""

from __future__ import annotations

import inspect
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from counting import PATIENCE_S, check_every_update, consume, lines, make, until, until_consumed, updates
from processes import Process, word_count
from topics import KafkaTopics

import stoatflow as sf


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that refuses connections: its port is bound, so that no server of another test gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def failure(app: sf.StoatFlow) -> sf.StoatFlowError:
    """Start it and return the error that ends it."""
    app.start()
    try:
        with pytest.raises(sf.StoatFlowError) as raised:
            assert app.wait(PATIENCE_S), "it should have failed"
        assert str(app.state) == "ERROR"
        assert app.error is raised.value
        assert raised.value.next_step in str(raised.value)
        return raised.value
    finally:
        app.close()


# -- settings


def own_topics(kafka: KafkaTopics, name: str) -> set[str]:
    """The topics of this test: a broker creates internal topics of its own on demand."""
    return {topic for topic in kafka.topics() if topic.startswith(name)}


def test_all_wrong_settings_in_one_message_and_nothing_started(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    before = own_topics(kafka, name)
    wrong = {
        "STOATFLOW_PROCESSING_GUARANTE": "exactly_once_v2",
        "STOATFLOW_COMMIT_INTERVAL_MS": "soon",
        "STOATFLOW_BATCH_MAX_RECORDS": "0",
    }
    with Process(word_count(kafka.address, name, tmp_path / "state", "--lanes", 0), wrong) as child:
        assert child.wait() == 2, child.reported()
        output = child.errors
    assert "Traceback" not in output
    for part in (
        "processing.guarante",
        "processing.guarantee",
        "commit.interval.ms",
        "soon",
        "lanes.count",
        "batch.max.records",
    ):
        assert part in output, f"{part} is not in: {output}"
    assert "STOATFLOW_COMMIT_INTERVAL_MS" in output, output  # where the value came from
    assert own_topics(kafka, name) == before
    assert not (tmp_path / "state").exists()


def test_wrong_settings_raise_before_anything_exists(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    with pytest.raises(sf.ConfigError) as raised:
        make(
            kafka.address, name, tmp_path / "state", lanes_cuont=3, commit_interval_ms=-1, producer_transactional_id="x"
        )
    message = str(raised.value)
    assert "lanes.count" in message
    assert "commit.interval.ms" in message
    assert "transactional.id" in message
    assert not (tmp_path / "state").exists()
    assert f"{name}-counts-changelog" not in kafka.topics()


# -- the broker


def test_an_absent_broker_is_named_and_tried_for_its_budget(
    nobody: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    # More than one attempt, each of which takes three seconds, or longer on a busy machine.
    error = failure(make(nobody, name, tmp_path, broker_wait_timeout_ms=8000))
    took = time.monotonic() - began
    assert isinstance(error, sf.BrokerUnavailableError)
    assert nobody in str(error)
    assert "broker.wait.timeout.ms" in error.next_step
    assert 8.0 <= took < 40.0
    again = [line for line in capfd.readouterr().err.splitlines() if "trying again" in line]
    assert again
    assert all("Connection refused" in line and "Next: " not in line for line in again), again


def test_the_command_line_ends_with_the_next_step(nobody: str, name: str, tmp_path: Path) -> None:
    budget = {"STOATFLOW_BROKER_WAIT_TIMEOUT_MS": "1500"}
    with Process(word_count(nobody, name, tmp_path), budget) as child:
        assert child.wait() == 1, child.reported()
        output = child.errors
    assert f"no broker answered at {nobody}" in output, output
    assert "Next: " in output
    assert "Traceback" not in output


def test_a_broker_that_starts_late_is_reached(name: str, tmp_path: Path) -> None:
    """The wait budget is for exactly this: the application starts before its broker."""
    with KafkaBroker(tmp_path / "kafka") as broker:
        topics = KafkaTopics(broker.bootstrap)
        topics.create(f"{name}-in")
        topics.create(f"{name}-out")
        given = lines(1, 300)
        topics.write(f"{name}-in", given)
        broker.stop()
        app = make(broker.bootstrap, name, tmp_path / "state", broker_wait_timeout_ms=90_000)
        with app:
            assert not app.wait(0.5)
            assert str(app.state) == "STARTING"
            broker.start()
            until_consumed_from(app, topics, name)
        check_every_update(topics.read(f"{name}-out"), given)


def until_consumed_from(app: sf.StoatFlow, topics: KafkaTopics, name: str) -> None:
    """Like `until_consumed`, but without a client of the engine that may still be reconnecting."""
    began = time.monotonic()
    while topics.committed(name, f"{name}-in") != topics.ends(f"{name}-in"):
        assert not app.wait(0.05)
        assert time.monotonic() - began < PATIENCE_S


def test_a_missing_source_topic_is_named(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-out")
    error = failure(make(kafka.address, name, tmp_path))
    assert isinstance(error, sf.MissingTopicError)
    assert f"{name}-in" in str(error)
    assert kafka.address in str(error)
    assert f"{name}-counts-changelog" not in kafka.topics()


def test_a_missing_output_topic_is_named(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in")
    kafka.write(f"{name}-in", ["a"])
    error = failure(make(kafka.address, name, tmp_path))
    assert isinstance(error, sf.MissingTopicError)
    assert f"{name}-out" in str(error)
    assert sum(offset for offset in kafka.committed(name, f"{name}-in").values() if offset > 0) == 0


# -- permissions


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaBroker]:
    """A broker with ACLs: everything is allowed except what a test denies."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:nobody",
        "allow.everyone.if.no.acl.found": "true",
    }
    with KafkaBroker(settings=settings) as broker:
        yield broker


@pytest.mark.parametrize(
    ("kind", "operation", "named"),
    [
        (ResourceType.TOPIC, AclOperation.READ, "-in"),
        (ResourceType.TOPIC, AclOperation.WRITE, "-out"),
        (ResourceType.GROUP, AclOperation.READ, ""),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, ""),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, "~2"),
    ],
    ids=["read-input", "write-output", "group", "transactional-id", "second-transactional-id"],
)
def test_a_missing_permission_is_named(
    guarded: KafkaBroker, name: str, tmp_path: Path, kind: ResourceType, operation: AclOperation, named: str
) -> None:
    topics = KafkaTopics(guarded.bootstrap)
    topics.create(f"{name}-in")
    topics.create(f"{name}-out")
    topics.write(f"{name}-in", ["a b"])
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap, "log_level": 0})
    denied = AclBinding(
        kind, f"{name}{named}", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY
    )
    for done in admin.create_acls([denied]).values():
        done.result(60)
    asked = AclBindingFilter(
        kind, f"{name}{named}", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY
    )
    # The controller has it; the broker learns of it asynchronously.
    until(lambda: bool(admin.describe_acls(asked).result(60)), "the broker knows it")
    error = failure(make(guarded.bootstrap, name, tmp_path, broker_wait_timeout_ms=15_000))
    assert isinstance(error, sf.AuthorizationError), repr(error)
    assert guarded.bootstrap in str(error)
    assert "grant" in error.next_step
    if named:
        assert f"{name}{named}" in str(error)


# -- the state on disk


def counted(address: str, name: str, state: Path, key: type) -> sf.StoatFlow:
    """Counts by length of the line, under a key of this type."""
    builder = sf.StreamsBuilder()
    read = builder.stream(f"{name}-in", key=bytes, value=str)
    make_key = (lambda _, line: len(line)) if key is int else (lambda _, line: str(len(line)))
    grouped = read.group_by(make_key, key=key, value=str)
    grouped.count(store="counts").to_stream().to(f"{name}-out", key=key, value=int)
    config = {"application.id": name, "bootstrap.servers": address, "state.dir": state}
    return sf.StoatFlow(builder.build(), config)


def test_a_store_of_other_serdes_is_refused(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    kafka.write(f"{name}-in", ["a", "bb", "cc"])
    consume(counted(kafka.address, name, tmp_path, str))
    written = kafka.read(f"{name}-out")
    kafka.write(f"{name}-in", ["a"])
    error = failure(counted(kafka.address, name, tmp_path, int))
    assert isinstance(error, sf.IncompatibleStateError), repr(error)
    assert "counts" in str(error)
    assert kafka.read(f"{name}-out") == written
    # The application that wrote it continues as before.
    consume(counted(kafka.address, name, tmp_path, str))
    assert updates(kafka.read(f"{name}-out"))["1"][-1] == 2


def test_a_state_directory_that_is_a_file(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Root may write anywhere, so a file in its place simulates a directory that can't be written."""
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    (tmp_path / "state").write_text("in the way")
    error = failure(make(kafka.address, name, tmp_path / "state"))
    assert str(tmp_path / "state") in str(error)
    assert not isinstance(error, sf.InternalError | sf.StateCorruptError), repr(error)
    assert (tmp_path / "state").read_text() == "in the way"


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from stoatflow.cli import main
sys.exit(main(sys.argv[1:]))
"""


# A small disk that only the child sees, if the kernel permits it to a user.
SMALL_DISK = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=600k tmpfs "$0" && exec "$@"')


def disks() -> list[str]:
    """Ways to run out of space on this machine: always a limit on file sizes, usually a small disk."""
    if shutil.which("unshare") is None:
        return ["limit"]
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([*SMALL_DISK, folder, "true"], check=False, capture_output=True)
    return ["limit", "disk"] if tried.returncode == 0 else ["limit"]


@pytest.mark.parametrize("kind", disks())
def test_a_disk_that_fills_up(kafka: KafkaTopics, name: str, tmp_path: Path, kind: str) -> None:
    """The error says what and where; nothing counted is lost or doubled."""
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    given = [f"k{n} k{n + 1} k{n + 2} k{n + 3}" for n in range(0, 60_000, 4)]
    kafka.write(f"{name}-in", given)
    state = tmp_path / "state"
    arguments = word_count(kafka.address, name, state)
    slow = {"STOATFLOW_COMMIT_INTERVAL_MS": "20", "STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB"}
    if kind == "disk":
        state.mkdir()
        process = Process(arguments, slow, under=[*SMALL_DISK, state])
    else:
        process = Process(["-c", LIMITED, *arguments[2:]], slow)
    with process as child:
        assert child.wait() == 1, child.reported()
        output = child.errors
    assert "Traceback" not in output, output
    assert str(state) in output
    assert "Next: free space on that disk" in output or kind == "limit"
    assert "Next: " in output
    shutil.rmtree(state)
    consume(make(kafka.address, name, state))
    check_every_update(kafka.read(f"{name}-out"), given)


# -- the user's own code


class UnluckyError(Exception):
    """Raised by the function of the test."""


def explode(line: str) -> str:
    if line == "bad":
        raise UnluckyError("no luck with " + line)
    return line


def exploding(address: str, name: str, state: Path) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    read = builder.stream(f"{name}-in", key=bytes, value=str)
    read.map_values(explode).to(f"{name}-out", key=bytes, value=str)
    # The whole input falls into one epoch, although one partition may be read long before the other: the
    # good records before the bad one are in the aborted transaction.
    config = {"application.id": name, "bootstrap.servers": address, "state.dir": state, "commit.interval.ms": 50_000}
    return sf.StoatFlow(builder.build(), config | {"commit.min.interval.ms": 50_000, "lanes.count": 2})


def test_a_user_exception_names_line_and_record(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    kafka.write(f"{name}-in", ["good"] * 10 + ["good", "bad"])  # round-robin: the last one is partition 1, offset 5
    app = exploding(kafka.address, name, tmp_path)
    error = failure(app)
    assert isinstance(error, sf.ProcessingError)
    assert isinstance(error.__cause__, UnluckyError)
    assert error.__cause__.args == ("no luck with bad",)
    message = str(error)
    assert "test_bad_input.py" in message
    raising = inspect.getsourcelines(explode)[1]
    assert any(f"test_bad_input.py:{n}" in message for n in (raising, raising + 2)), message
    assert error.coordinates["topic"] == f"{name}-in"
    assert error.coordinates["partition"] == 1
    assert error.coordinates["offset"] == 5
    assert kafka.read(f"{name}-out") == []
    assert all(offset <= 0 for offset in kafka.committed(name, f"{name}-in").values())
    assert [str(s) for s in app.states][-1] == "ERROR"
    # The same again: the record is still there, and is still reported.
    assert failure(exploding(kafka.address, name, tmp_path)).coordinates["offset"] == 5


def test_stopping_a_failed_application_logs_nothing(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    kafka.write(f"{name}-in", ["bad"])
    app = exploding(kafka.address, name, tmp_path)
    with pytest.raises(sf.ProcessingError):
        app.run()
    assert app.close()
    assert app.close()
    with pytest.raises(sf.ProcessingError), exploding(kafka.address, name, tmp_path) as again:
        until_consumed(again)
