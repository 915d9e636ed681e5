"""Each usual failure: caused on a real broker, observed from outside, and healed if possible.

Takes an environment (a broker behind a proxy) and an empty folder; returns what was seen. Fails if something is missing
that an operator needs: a reason at `/health/ready`, a metric, a log line, a finding, an exit code.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from broker.fault_proxy import Api, FaultProxy
from broker.kafka_broker import KafkaBroker
from chaos.disk import small
from confluent_kafka import Producer
from topics import KafkaTopics

from failure_modes.failing import Application, Document

PATIENCE_S = 120.0
Metric = tuple[str, dict[str, str]]
AWAY: list[Metric] = [("stoatflow_not_ready", {"reason": "broker_away"}), ("stoatflow_restarts_total", {})]


@dataclass
class Finding:
    """A finding of the doctor; the console shows the same."""

    severity: str
    code: str
    message: str
    next_step: str
    page: str


@dataclass
class Seen:
    """What an operator sees of a failure."""

    endpoints: list[tuple[str, str]] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    end: str = ""
    next_step: str = ""


class Environment:
    """A broker behind a proxy, and topics for one application."""

    def __init__(self, proxy: FaultProxy, broker: KafkaBroker, name: str, folder: Path) -> None:
        self.proxy, self.broker, self.name, self.folder = proxy, broker, name, folder
        self.kafka = KafkaTopics(broker.bootstrap)
        proxy.clear()
        for topic in ("in", "documents", "out", "bad"):
            self.kafka.create(f"{name}-{topic}")

    def application(self, *, at: str = "first", under: Sequence[object] = (), **settings: object) -> Application:
        """An application that is not started yet."""
        return Application(self.folder / at, self.name, self.proxy.address, under=under, **settings)

    def write(self, *values: str, topic: str = "in") -> None:
        """Records with one key."""
        self.kafka.write(f"{self.name}-{topic}", values, key="k")

    def fill(self, keys: int) -> None:
        """A record for each of this many keys."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "log_level": 0})
        for key in range(keys):
            producer.produce(f"{self.name}-in", b"1", b"key-%d" % key)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    @contextlib.contextmanager
    def broker_down(self) -> Iterator[None]:
        """Kill the broker, and start it again."""
        self.broker.kill()
        try:
            yield
        finally:
            self.broker.start()

    def until_counted(self, app: Application, count: int) -> None:
        """Wait until there are this many results."""
        app.process.until(lambda: self.kafka.count(f"{self.name}-out") == count, f"{count} results", PATIENCE_S)


def plain(text: object) -> str:
    """A text without the parts that differ between runs: addresses, numbers, folders."""
    output = re.sub(r"/[\w./-]*/(app\.py)", r"\1", str(text))
    output = re.sub(r"127\.0\.0\.1:\d+", "BROKER", output)
    output = re.sub(r"\btest-[a-z-]+-\d+(?= )", "APPLICATION", output)
    output = re.sub(r"/\S*/state\b\S*", "STATE", output)
    output = re.sub(r"\b[a-z]+(-[a-z]+)*-\d+-(in|out|bad|documents|sums-changelog)\b", r"\2", output)
    return re.sub(r"\d+(\.\d+)?(?= (ms|s|times)\b)|(?<=producer )\d+", "N", output)


def look(app: Application, seen: Seen, *, metrics: Sequence[Metric] = (), findings: Sequence[str] = ()) -> None:
    """The application's own reports while it runs."""
    for name, labels in metrics:
        found = app.metric(name, **labels)
        assert found, f"{name} {labels}: {found}"
        shown = ",".join(f'{key}="{plain(value)}"' for key, value in labels.items())
        seen.metrics.append(f"{name}{{{shown}}}" if shown else name)
    for path in ("health/live", "health/ready"):
        code, output = app.document(path)
        reason = f", `{output['reason']}`" if "reason" in output else ""
        seen.endpoints.append((f"/{path}", f"{code}{reason}"))
    (_, doctor) = app.document("doctor")
    reported = {str(one["code"]): one for one in cast("list[Document]", doctor["findings"])}
    for code in findings:
        assert code in reported, f"the doctor doesn't tell {code}: {sorted(reported)}"
        one = reported[code]
        words = (str(one["severity"]), code, plain(one["message"]), plain(one["next_step"]))
        seen.findings.append(Finding(*words, str(one["page"])))


def hear(app: Application, seen: Seen, level: str, message: str, **fields: str) -> Document:
    """A line of the application's log."""

    def lines() -> list[Document]:
        return [
            line
            for line in app.log()
            if line["level"] == level
            and message in str(line["message"])
            and all(text in str(line.get(name)) for name, text in fields.items())
        ]

    app.process.until(lambda: bool(lines()), f"the log says {message!r}", PATIENCE_S)
    line = lines()[0]
    seen.log.append((level, plain(str(line["message"]).splitlines()[0])))
    return line


def ends(app: Application, seen: Seen, code: int, error: str, kind: str, patience: float = PATIENCE_S) -> None:
    """It ends with this exit code and this error, and reports its next step."""
    assert app.until_it_ends(patience) == code, app.process.reported()
    output = [line for line in app.process.errors.splitlines() if "Next: " in line and not line.startswith("{")]
    assert output, app.process.reported()
    assert f"more: stoatflow explain {kind}" in app.process.errors, app.process.reported()
    seen.end = f"exit code {code}, `{error}`"
    seen.next_step = plain(output[-1].partition("Next: ")[2]).strip()


def goes_on(environment: Environment, app: Application, seen: Seen, count: int) -> None:
    """It becomes ready again by itself."""
    app.until_ready()
    environment.until_counted(app, count)
    seen.end = "it continues by itself"


def a_function_raises(environment: Environment) -> Seen:
    """A function of the topology raises, and there is no error handler for the record."""
    seen = Seen()
    with environment.application() as app:
        environment.write("1", "boom")
        ends(app, seen, 1, "ProcessingError", "user")
        hear(app, seen, "ERROR", "stopped by an error")
    return seen


def a_record_is_left_out(environment: Environment) -> Seen:
    """A function raises, and `processing.exception.handler` sends the record to a dead letter topic."""
    seen = Seen()
    with environment.application(**{"processing.exception.handler": f"dlq:{environment.name}-bad"}) as app:
        environment.write("1", "boom", "2")
        environment.until_counted(app, 2)
        app.process.until(lambda: environment.kafka.count(f"{environment.name}-bad") == 1, "the dead letter")
        hear(app, seen, "WARN", "a record was left out", reason="processing_dead_letter")
        dropped = ("stoatflow_dropped_records_total", {"reason": "processing_dead_letter"})
        look(app, seen, metrics=[dropped], findings=["dead_letters"])
        (error,) = cast("list[Document]", app.document("errors")[1]["errors"])
        assert (error["count"], error["node"], error["offset"]) == (1, "parse", 1)
        seen.endpoints += [("/errors", "the cause, how often, the last record, the traceback")]
        (letter,) = cast("list[Document]", app.document("dead-letters")[1]["letters"])
        assert (letter["node"], letter["exception"]) == ("parse", "ValueError")
        seen.endpoints += [("/dead-letters", "the record itself, with the error")]
        seen.end = "it continues by itself"
    return seen


def a_record_cannot_be_decoded(environment: Environment) -> Seen:
    """A record isn't JSON, and `deserialization.exception.handler` sends it to a dead letter topic."""
    seen = Seen()
    with environment.application(**{"deserialization.exception.handler": f"dlq:{environment.name}-bad"}) as app:
        environment.write('{"n": 1}', "{no json", '{"n": 2}', topic="documents")
        environment.until_counted(app, 2)
        app.process.until(lambda: environment.kafka.count(f"{environment.name}-bad") == 1, "the dead letter")
        hear(app, seen, "WARN", "a record was left out", reason="deserialization_dead_letter")
        dropped = ("stoatflow_dropped_records_total", {"reason": "deserialization_dead_letter"})
        look(app, seen, metrics=[dropped], findings=["dead_letters"])
        (letter,) = cast("list[Document]", app.document("dead-letters")[1]["letters"])
        assert letter["kind"] == "deserialization"
        seen.endpoints += [("/dead-letters", "the bytes of the record, with the error")]
        seen.end = "it continues by itself"
    return seen


def a_commit_fails(environment: Environment) -> Seen:
    """The broker doesn't answer a request within `commit.timeout.ms`: the one that adds offsets to the transaction."""
    seen = Seen()
    with environment.application(commit_timeout_ms=2000) as app:
        environment.write("1")
        environment.until_counted(app, 1)
        environment.proxy.inject(Api.TXN_OFFSET_COMMIT, "black hole", probability=1.0)
        environment.write("2")
        app.process.until(lambda: bool(app.metric("stoatflow_restarts_total")), "it restarts by itself", PATIENCE_S)
        environment.proxy.clear()
        hear(app, seen, "ERROR", "commit failed")
        hear(app, seen, "WARN", "restarting from the last commit")
        app.until_ready()
        look(app, seen, metrics=[("stoatflow_restarts_total", {})], findings=["restarts"])
        failed = cast("Document", app.document("debug/barriers")[1]["failed"])
        assert failed["step"] == "offsets"
        seen.endpoints += [("/debug/barriers", "`failed`: the epoch, the step and the error")]
        goes_on(environment, app, seen, 2)
    return seen


def a_function_hangs(environment: Environment) -> Seen:
    """A function doesn't return, so nothing can be committed; after `stall.timeout.ms` the application ends."""
    seen = Seen()
    with environment.application(stall_timeout_ms=55_000) as app:
        environment.write("1")
        environment.until_counted(app, 1)
        environment.write("hang")
        app.process.until(lambda: not app.is_ready(), "it is not ready", PATIENCE_S)
        look(app, seen, metrics=[("stoatflow_not_ready", {"reason": "stalled"})], findings=["stalled"])
        ends(app, seen, 3, "StalledError", "stalled")
        hear(app, seen, "ERROR", "has committed nothing for")
        (dump,) = app.state.rglob("stalled-*.txt")
        assert "in parse" in dump.read_text("utf-8")
        seen.endpoints += [("`stalled-<ms>.txt` beside the state", "what every lane does, with the Python stack")]
    return seen


def the_broker_is_away(environment: Environment) -> Seen:
    """The broker is down for ten seconds."""
    seen = Seen()
    with environment.application() as app:
        environment.write("1")
        environment.until_counted(app, 1)
        with environment.broker_down():
            app.process.until(lambda: not app.is_ready(), "it is not ready", PATIENCE_S)
            app.wait(10)
            look(app, seen, metrics=AWAY[:1], findings=["broker_away"])
        environment.write("2")
        goes_on(environment, app, seen, 2)
    return seen


def the_broker_is_away_for_minutes(environment: Environment) -> Seen:
    """The broker is down for five minutes."""
    seen = Seen()
    with environment.application() as app:
        environment.write("1")
        environment.until_counted(app, 1)
        with environment.broker_down():
            app.wait(300)
            hear(app, seen, "WARN", "restarting from the last commit")
            hear(app, seen, "WARN", "the broker does not answer yet")
            look(app, seen, metrics=AWAY, findings=["broker_away", "restarts"])
        environment.write("2")
        goes_on(environment, app, seen, 2)
    return seen


def the_broker_stays_away(environment: Environment) -> Seen:
    """The broker is down for longer than the application waits: `broker.wait.timeout.ms`, `restart.max.attempts`."""
    seen = Seen()
    with environment.application(broker_wait_timeout_ms=3000, restart_max_attempts=2, commit_timeout_ms=3000) as app:
        environment.write("1")
        environment.until_counted(app, 1)
        with environment.broker_down():
            ends(app, seen, 1, "BrokerUnavailableError", "unavailable")
            hear(app, seen, "WARN", "restarting from the last commit")
            hear(app, seen, "ERROR", "stopped by an error")
    return seen


def a_restore_is_slow(environment: Environment) -> Seen:
    """The state directory is lost, and the changelogs are long or the broker is slow."""
    seen = Seen()
    with environment.application() as app:
        environment.write(*(str(n) for n in range(200)))
        environment.until_counted(app, 200)
    shutil.rmtree(environment.folder / "first" / "state")
    environment.proxy.inject(Api.FETCH, "delay", probability=1.0, delay_s=4.0)
    with environment.application() as app:
        app.process.until(lambda: app.document("health/ready")[1].get("reason") == "restoring", "it restores")
        look(app, seen, metrics=[("stoatflow_not_ready", {"reason": "restoring"})])
        hear(app, seen, "INFO", "restoring state from its changelogs")
        (_, state) = app.document("state")
        assert "restor" in str(state), state
        seen.endpoints += [("/state", "of each store how much of its changelog is read")]
        environment.proxy.clear()
        hear(app, seen, "INFO", "state is restored")
        environment.write("1")
        goes_on(environment, app, seen, 201)
    return seen


def the_disk_is_full(environment: Environment) -> Seen:
    """The disk of `state.dir` is full."""
    seen = Seen()
    _, under = small(environment.folder / "first" / "state", 600_000)
    with environment.application(under=under, commit_interval_ms=20, in_flight_max_bytes="64KiB") as app:
        environment.fill(60_000)
        ends(app, seen, 1, "DiskFullError", "disk_full")
        hear(app, seen, "ERROR", "stopped by an error")
    return seen


def another_instance_takes_over(environment: Environment) -> Seen:
    """A second instance with the same `application.id` is started."""
    seen = Seen()
    with environment.application() as app:
        environment.write("1")
        environment.until_counted(app, 1)
        with environment.application(at="second") as newer:
            newer.until_ready()
            environment.write("2")
            ends(app, seen, 4, "FencedError", "fenced")
            hear(app, seen, "ERROR", "stopped by an error")
            environment.until_counted(newer, 2)
    return seen


def a_transaction_of_others_is_open(environment: Environment) -> Seen:
    """A producer has left a transaction open in a source topic: later records of that partition can't be read."""
    seen = Seen()
    given = {"bootstrap.servers": environment.broker.bootstrap, "log_level": 0}
    stranger = Producer(
        {**given, "transactional.id": f"{environment.name}-stranger", "transaction.timeout.ms": 600_000}
    )
    stranger.init_transactions(30)
    with environment.application() as app:
        environment.write("1")
        environment.until_counted(app, 1)
        stranger.begin_transaction()
        stranger.produce(f"{environment.name}-in", b"3", b"k")
        assert stranger.flush(30) == 0
        environment.write("2")
        hear(app, seen, "WARN", "an open transaction holds this source back")
        app.process.until(lambda: not app.is_ready(), "it is not ready", PATIENCE_S)
        look(
            app,
            seen,
            metrics=[("stoatflow_partition_held_back_records", {"topic": f"{environment.name}-in"})],
            findings=["open_transaction"],
        )
        stranger.abort_transaction(30)
        goes_on(environment, app, seen, 2)
    return seen


@dataclass(frozen=True)
class Mode:
    """A failure: its title, how it is caused, and what to do."""

    title: str
    cause: Callable[[Environment], Seen]
    do: str
    long: bool = False
    """Whether it takes so long that only the long tests cause it."""

    @property
    def key(self) -> str:
        """Its name in tests."""
        return self.cause.__name__


MODES = (
    Mode(
        "A function raises",
        a_function_raises,
        "Fix the function, or set `processing.exception.handler` or `on_error=` for such records. A restart alone "
        "doesn't help: the application reads the same record again.",
    ),
    Mode(
        "A record goes to the dead letters",
        a_record_is_left_out,
        "Look at the dead letter, fix the cause, and send the record back with `stoatflow dlq replay`.",
    ),
    Mode(
        "A record can't be decoded",
        a_record_cannot_be_decoded,
        "Find out who writes such records. Once they can be read, `stoatflow dlq replay` sends them back.",
    ),
    Mode(
        "A commit fails",
        a_commit_fails,
        "Nothing, if it happens once: the transaction is aborted, and its records are processed again. If it happens "
        "again, look at the step in `/debug/barriers` and at the broker.",
    ),
    Mode(
        "A function hangs",
        a_function_hangs,
        "Look at the stack in the file, and set a timeout for the call that the function waits for. The supervisor may "
        "start the application again.",
        long=True,
    ),
    Mode(
        "The broker is away for a moment",
        the_broker_is_away,
        "Nothing: the application continues by itself. Find out why the broker was away.",
        long=True,
    ),
    Mode(
        "The broker is away for minutes",
        the_broker_is_away_for_minutes,
        "Bring the broker back. The application restarts by itself until then, `restart.max.attempts` times.",
        long=True,
    ),
    Mode(
        "The broker stays away",
        the_broker_stays_away,
        "Bring the broker back; the supervisor starts the application again until then. "
        "`broker.wait.timeout.ms` and `restart.max.attempts` set how long it waits.",
        long=True,
    ),
    Mode(
        "A restore takes long",
        a_restore_is_slow,
        "Wait. Keep `state.dir` on a disk that survives restarts: then a start reads only the missing records.",
    ),
    Mode(
        "The disk is full",
        the_disk_is_full,
        "Free space, or move `state.dir` to a larger disk. The state is not damaged.",
    ),
    Mode(
        "Another instance takes over",
        another_instance_takes_over,
        "Nothing, if the newer one is meant to run. Otherwise stop it, and start this one again.",
    ),
    Mode(
        "The transaction of another producer is open",
        a_transaction_of_others_is_open,
        "See whether its producer still runs. If it is gone for good, end the transaction with the command in the log.",
        long=True,
    ),
)
