"""Workers on the embedded broker: answers, errors, limits, offsets, and their end."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

import stoatflow as sf
from stoatflow._runtime.bridge import WorkerClient
from stoatflow.cli import main
from stoatflow.cli.worker import load, share


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[sf.EmbeddedBroker]:
    """A broker with the topics of an offload."""
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        for topic in ("in", "out", "asked", "answered"):
            broker.create_topic(topic, 3)
        yield broker


def topology(**how: Any) -> sf.Topology:
    """An offload of strings."""
    builder = sf.StreamsBuilder()
    how.setdefault("joiner", lambda value, answer: f"{value}={answer}")
    stream = builder.stream("in", key=str, value=str)
    stream.offload("asked", "answered", response_value=str, name="score", **how).to("out", key=str, value=str)
    return builder.build()


def engine(topology: sf.Topology, broker: sf.EmbeddedBroker, **config: object) -> sf.StoatFlow:
    """An application with its own state."""
    own = {"application.id": "app", "state.dir": f"{broker.path}-state"}
    return sf.StoatFlow(topology, own | config, broker=broker)


def until(what: Callable[[], bool], patience: float = 60.0) -> None:
    """Wait for it."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < patience, "it does not come"
        time.sleep(0.01)


def results(broker: sf.EmbeddedBroker) -> dict[str, list[str]]:
    """Results by key, in order."""
    given: dict[str, list[str]] = {}
    for record in broker.read("out"):
        given.setdefault((record.key or b"").decode(), []).append((record.value or b"").decode())
    return given


def write(broker: sf.EmbeddedBroker, *values: str, keys: str = "abcd") -> None:
    """Values are assigned to the keys in turn."""
    broker.produce_many("in", ((None, keys[n % len(keys)].encode(), v.encode(), n) for n, v in enumerate(values)))


async def slow_upper(value: str) -> str:
    await asyncio.sleep(0.02 if value.endswith(("0", "5")) else 0)
    return value.upper()


def plain_upper(value: str) -> str:
    return value.upper()


@pytest.mark.parametrize("function", [slow_upper, plain_upper])
def test_every_record_gets_its_answer_in_the_order_of_its_key(broker: sf.EmbeddedBroker, function: Any) -> None:
    values = [f"v{number}" for number in range(200)]
    write(broker, *values)
    app = engine(topology(), broker, **{"lanes.count": 3})
    worker = sf.Worker(function, requests="asked", responses="answered", broker=broker)
    with app, worker:
        until(lambda: sum(map(len, results(broker).values())) >= 200)
        assert app.parked("score") == []
        metrics = app.metrics()["parked"]["score"]
        assert (metrics["records"], metrics["most"]) == (0, 100_000)
    assert results(broker) == {key: [f"{v}={v.upper()}" for v in values[at::4]] for at, key in enumerate("abcd")}
    assert worker.answered == 200


def test_a_function_that_raises_is_an_answer(broker: sf.EmbeddedBroker) -> None:
    def odd(value: str) -> str:
        if value.endswith("1"):
            raise ValueError(f"no {value}")
        return value

    write(broker, "v0", "v1", "v2")
    handled = topology(on_error=lambda value, error: f"{value}!{error}")
    with (
        engine(handled, broker),
        sf.Worker(odd, requests="asked", responses="answered", broker=broker),
    ):
        until(lambda: sum(map(len, results(broker).values())) == 3)
    assert results(broker) == {"a": ["v0=v0"], "b": ["v1!ValueError: no v1"], "c": ["v2=v2"]}


async def cancels_itself(value: str) -> str:
    raise asyncio.CancelledError("by a library")


def runs_out(value: str) -> str:
    return next(iter(()))


def leaves(value: str) -> str:
    raise SystemExit("by a library")


async def leaves_later(value: str) -> str:
    await asyncio.sleep(0)
    raise SystemExit("by a library")


class UnspeakableError(Exception):
    """An error whose text can't be read."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("no text")


def unspeakable(value: str) -> str:
    raise UnspeakableError


@pytest.mark.parametrize(
    ("function", "reported"),
    [
        (cancels_itself, "CancelledError: by a library"),
        (runs_out, "RuntimeError: the function raised StopIteration: "),
        (leaves, "SystemExit: by a library"),
        (leaves_later, "SystemExit: by a library"),
        (unspeakable, "UnspeakableError"),
    ],
)
@pytest.mark.parametrize("timeout", [None, "1m"])
def test_no_exception_of_a_function_ends_the_worker(
    broker: sf.EmbeddedBroker, function: Any, reported: str, timeout: str | None
) -> None:
    write(broker, "v0", "v1")
    handled = topology(on_error=lambda value, error: str(error))
    with (
        engine(handled, broker),
        sf.Worker(function, requests="asked", responses="answered", broker=broker, timeout=timeout),
    ):
        until(lambda: sum(map(len, results(broker).values())) == 2)
    assert results(broker) == {"a": [reported], "b": [reported]}


def test_a_call_that_takes_too_long_is_an_error(broker: sf.EmbeddedBroker) -> None:
    async def forever(value: str) -> str:
        await asyncio.sleep(60)
        return value

    write(broker, "v0")
    handled = topology(on_error=lambda value, error: str(error))
    with (
        engine(handled, broker),
        sf.Worker(forever, requests="asked", responses="answered", broker=broker, timeout="50ms"),
    ):
        until(lambda: bool(results(broker)))
    assert results(broker) == {"a": ["TimeoutError: the call did not end within 0.05 s"]}


def test_a_plain_call_that_is_given_up_keeps_its_place(
    broker: sf.EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    free = threading.Event()

    def slow(value: str) -> str:
        if value == "v0":
            free.wait(60)
        return value

    def reported() -> int:
        return sum("all 1 threads are busy" in record.getMessage() for record in list(caplog.records))

    write(broker, "v0", "v1", "v2", keys="a")
    handled = topology(on_error=lambda value, error: str(error))
    with (
        engine(handled, broker),
        sf.Worker(slow, requests="asked", responses="answered", broker=broker, concurrency=1, timeout="8s"),
    ):
        until(lambda: reported() > 0)
        free.set()
        until(lambda: sum(map(len, results(broker).values())) == 3)
    assert results(broker) == {"a": ["TimeoutError: the call did not end within 8 s", "v1=v1", "v2=v2"]}
    assert reported() == 1


class ByHand:
    """A client with the requests of a test, and a callback during each commit."""

    def __init__(self, *requests: tuple[int, str], during: Callable[[], None] = lambda: None) -> None:
        """Partitions and values; the offsets count up, and are the correlation ids."""
        self._requests = [
            (partition, at, b"k", value.encode(), [("stoatflow-correlation", str(at).encode())])
            for at, (partition, value) in enumerate(requests)
        ]
        self._during = during
        self._producer = threading.Lock()
        self.answers: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = []
        self.committed: list[tuple[int, int]] = []

    def partitions(self) -> list[int]:
        """Two partitions."""
        return [0, 1]

    def poll(self, most: int, timeout_s: float) -> list[Any]:
        """Return some requests, or wait."""
        taken, self._requests = self._requests[:most], self._requests[most:]
        if not taken:
            time.sleep(timeout_s)
        return taken

    def answer(self, answers: list[Any]) -> list[tuple[int, str]]:
        """Accept all answers except those that are too long."""
        with self._producer:
            fits = [all(len(part or b"") < 10_000 for part in (value, *dict(headers).values()))
                    for _, value, headers in answers]  # fmt: skip
            self.answers += [answer for answer, is_fit in zip(answers, fits, strict=True) if is_fit]
        return [(at, "too long") for at, is_fit in enumerate(fits) if not is_fit]

    def commit(self, positions: list[tuple[int, int]]) -> None:
        """No answer is written meanwhile."""
        with self._producer:
            self._during()
            self.committed = positions

    def close(self) -> None:
        """There is nothing to close."""


def by_hand(client: ByHand, broker: sf.EmbeddedBroker, patch: pytest.MonkeyPatch, function: Any, **how: Any) -> Any:
    """A worker with that client."""
    patch.setattr(sf.Worker, "_open", lambda self: client)
    return sf.Worker(function, requests="asked", responses="answered", broker=broker, **how)


def test_a_commit_keeps_no_call_waiting(broker: sf.EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    committed = threading.Event()

    async def watch(value: str) -> str:
        await asyncio.sleep(int(value) * 0.1)
        while value == "0" and not committed.is_set():
            await asyncio.sleep(0.01)
            turns.append(value)
        return value

    def goes_on() -> None:
        """A call gets many turns before the first commit ends, even if others could be answered meanwhile."""
        if not committed.is_set():
            before = len(turns)
            until(lambda: len(turns) >= before + 60)
            committed.set()

    client = ByHand((1, "0"), *((0, str(number)) for number in range(1, 15)), during=goes_on)
    with by_hand(client, broker, monkeypatch, watch):
        until(lambda: len(client.answers) == 15)
    assert committed.is_set()


def test_an_answer_that_is_too_large_is_an_error(broker: sf.EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def repeat(value: str) -> str:
        if value == "!":
            raise ValueError("\u00e4" * 9_000)
        return "x" * int(value)

    client = ByHand((0, "1"), (0, "20000"), (1, "!"), (1, "3"))
    with by_hand(client, broker, monkeypatch, repeat) as worker:
        until(lambda: worker.answered == 4)
    given = {dict(headers)["stoatflow-correlation"]: (value, headers) for _, value, headers in client.answers}
    assert (given[b"0"][0], given[b"3"][0]) == (b"x", b"xxx")
    assert (given[b"1"][0], dict(given[b"1"][1])["stoatflow-error"]) == (
        None,
        b"SerdeError: the answer can't be sent: too long",
    )
    reported = (dict(given[b"2"][1])["stoatflow-error"] or b"").decode()
    assert reported.startswith("ValueError: \u00e4\u00e4")
    assert len(reported.encode()) <= 4_100


def test_a_restarted_worker_continues_at_its_offsets(broker: sf.EmbeddedBroker) -> None:
    app = engine(topology(), broker)
    with app:
        write(broker, "v0", "v1")
        with sf.Worker(plain_upper, requests="asked", responses="answered", broker=broker) as first:
            until(lambda: first.answered == 2)
        write(broker, "v2")
        with sf.Worker(plain_upper, requests="asked", responses="answered", broker=broker) as second:
            until(lambda: sum(map(len, results(broker).values())) == 3)
    assert second.answered == 1


def test_several_share_the_partitions(broker: sf.EmbeddedBroker) -> None:
    values = [f"v{number}" for number in range(60)]
    write(broker, *values, keys="abcdefghij")
    how: dict[str, Any] = {"requests": "asked", "responses": "answered", "broker": broker}
    one = sf.Worker(plain_upper, share=(1, 2), **how)
    two = sf.Worker(plain_upper, share=(2, 2), **how)
    with engine(topology(), broker), one, two:
        until(lambda: sum(map(len, results(broker).values())) == 60)
    assert one.answered + two.answered == 60
    assert min(one.answered, two.answered) > 0
    with pytest.raises(sf.ConfigError, match=r"3 partition\(s\), of which none is left for worker 4 of 4"):
        sf.Worker(plain_upper, share=(4, 4), **how).start()


def test_types_come_from_arguments_annotations_or_are_json(broker: sf.EmbeddedBroker) -> None:
    def unsaid(value):  # type: ignore[no-untyped-def]
        return value

    def data(value: bytes) -> dict[str, int]:
        return {"size": len(value)}

    def optional(value: str | None) -> bytes | None:
        return None

    def optional_data(value: Optional[str]) -> dict[str, int] | None:  # noqa: UP045  # as it is written, too
        return None

    def names(worker: sf.Worker) -> tuple[str, str]:
        return worker._value.name, worker._answer.name

    how: dict[str, Any] = {"requests": "asked", "responses": "answered", "broker": broker}
    assert names(sf.Worker(unsaid, **how)) == ("json", "json")
    assert names(sf.Worker(plain_upper, **how)) == ("string", "string")
    assert names(sf.Worker(data, **how)) == ("bytes", "json")
    assert names(sf.Worker(optional, **how)) == ("string", "bytes")
    assert names(sf.Worker(optional_data, **how)) == ("string", "json")
    assert names(sf.Worker(data, value=str, answer=int, **how)) == ("string", "int64")


def test_a_request_that_cannot_be_read_is_answered_with_an_error(broker: sf.EmbeddedBroker) -> None:
    write(broker, "no json")
    handled = topology(on_error=lambda value, error: str(error))
    with (
        engine(handled, broker),
        sf.Worker(lambda value: value, requests="asked", responses="answered", broker=broker),
    ):
        until(lambda: bool(results(broker)))
    assert results(broker)["a"][0].startswith("SerdeError: the serde 'json' can't read")


def test_a_newer_worker_takes_over(broker: sf.EmbeddedBroker) -> None:
    how: dict[str, Any] = {"requests": "asked", "responses": "answered", "broker": broker}
    older = sf.Worker(plain_upper, **how)
    older.start()
    with engine(topology(), broker), sf.Worker(plain_upper, **how):
        write(broker, *(f"v{number}" for number in range(20)))
        until(lambda: sum(map(len, results(broker).values())) == 20)
        # It has the same requests, and notices when it answers one.
        until(lambda: older._error is not None)
    with pytest.raises(sf.FencedError):
        older.stop()


@pytest.mark.parametrize("how", [{"config": {"application.id": "app"}}, {"group": "team"}])
def test_workers_of_different_topics_leave_each_other_alone(broker: sf.EmbeddedBroker, how: dict[str, Any]) -> None:
    for topic in ("asked-too", "answered-too"):
        broker.create_topic(topic, 3)
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream = stream.offload("asked", "answered", response_value=str, name="one")
    stream.offload("asked-too", "answered-too", response_value=str, name="two").to("out", key=str, value=str)
    one = sf.Worker(plain_upper, requests="asked", responses="answered", broker=broker, **how)
    two = sf.Worker(plain_upper, requests="asked-too", responses="answered-too", broker=broker, **how)
    with engine(builder.build(), broker), one, two:
        for number in range(3):
            write(broker, f"v{number}")
            until(lambda number=number: len(results(broker).get("a", [])) > number)  # type: ignore[misc]
            time.sleep(0.6)  # both commit
    assert [worker.settings.get("application.id") for worker in (one, two)] == (
        ["team", "team"] if "group" in how else ["asked-worker", "asked-too-worker"]
    )


def test_wrong_arguments_are_refused(broker: sf.EmbeddedBroker) -> None:
    how: dict[str, Any] = {"requests": "asked", "responses": "answered", "broker": broker}
    with pytest.raises(sf.ConfigError, match="concurrency=0"):
        sf.Worker(plain_upper, concurrency=0, **how)
    with pytest.raises(sf.ConfigError, match="no worker 3 of 2"):
        sf.Worker(plain_upper, share=(3, 2), **how)
    with pytest.raises(sf.ConfigError, match="needs a function"):
        sf.Worker("app:score", **how)  # type: ignore[arg-type]
    with pytest.raises(sf.MissingTopicError, match="'nowhere' does not exist"):
        sf.Worker(plain_upper, **(how | {"requests": "nowhere"})).start()
    again = sf.Worker(plain_upper, **how)
    with again, pytest.raises(RuntimeError, match="started before"):
        again.start()


def test_parked_records_are_exposed(broker: sf.EmbeddedBroker) -> None:
    app = engine(topology(timeout=None), broker, **{"admin.listen": "127.0.0.1:0"})
    with pytest.raises(sf.ConfigError, match="not running"):
        app.parked("score")
    with app:
        write(broker, "v0", "v1")
        until(lambda: app.state == "RUNNING" and len(app.parked("score")) == 2)
        assert {(p.key, p.value, p.state, p.attempt) for p in app.parked("score")} == {
            ("a", "v0", "asked", 1),
            ("b", "v1", "asked", 1),
        }
        text = _read(f"{app.admin_url}metrics")
        labels = '{application_id="app",node="score"}'
        assert f"stoatflow_parked_records{labels} 2" in text
        assert f"stoatflow_parked_records_most{labels} 100000" in text
        assert f"stoatflow_parked_oldest_ms{labels} " in text


def test_unexpected_answers_are_counted(broker: sf.EmbeddedBroker) -> None:
    app = engine(topology(timeout=None), broker)
    client = WorkerClient([("application.id", "by-hand")], "asked", "answered", 0, 1, broker.native)
    with app:
        write(broker, "v0", "v1", keys="a")
        requests: list[Any] = []
        until(lambda: bool(requests.extend(client.poll(2, 0.1))) or len(requests) == 2)
        first, second = (headers for *_, headers in requests)
        strangers: list[Any] = [[], [("stoatflow-correlation", b"price/0")]]
        client.answer([(b"a", b"!", headers) for headers in (*strangers, second, second, first)])
        until(lambda: len(list(broker.read("out"))) == 2)
        client.answer([(b"a", b"!", first)])
        until(lambda: len(app.metrics()["dropped"]) == 3)
        assert {(d["node"], d["reason"]): d["count"] for d in app.metrics()["dropped"]} == {
            ("score", "no_correlation"): 2,
            ("score", "duplicate_answer"): 1,
            ("score", "not_parked"): 1,
        }
    client.close()


def _read(url: str) -> str:
    from urllib.request import urlopen

    with urlopen(url, timeout=60) as answer:  # noqa: S310  # its own port
        text: str = answer.read().decode()
    return text


def test_the_command_names_missing_arguments(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def score(value):\n    return value\n\nname = 'x'\n")

    def run(*arguments: str) -> tuple[int, str]:
        topics = ["--requests", "asked", "--responses", "answered", "--bootstrap", f"embedded:{tmp_path / 'topics'}"]
        done = subprocess.run(
            [sys.executable, "-m", "stoatflow", "worker", *arguments, *topics],
            capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    code, reported = run("app:score")
    assert (code, "the topic 'asked' does not exist" in reported) == (1, True)
    code, reported = run("app:nobody")
    assert code == 2
    assert "app has no function named 'nobody'" in reported
    assert "names no function" in run("score")[1]
    assert "can't be imported" in run("nowhere:score")[1]
    assert "has no function named 'name'" in run("app.py:name")[1]
    assert "is no share" in run("app:score", "--share", "3/2")[1]
    assert "did you mean 'score'?" in run("app:scroe")[1]


def test_the_command_logs_its_work_and_ends_on_a_signal(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def score(value):\n    return value\n")
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        broker.create_topic("asked", 2)
        broker.create_topic("answered", 2)
    command = [sys.executable, "-m", "stoatflow", "worker", "app:score", "--requests", "asked"]
    command += ["--responses", "answered", "--bootstrap", f"embedded:{tmp_path / 'topics'}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "stoatflow: worker of asked reads partitions [0, 1]\n"
        running.send_signal(signal.SIGINT)
        _, reported = running.communicate(timeout=60)
    assert (running.returncode, reported) == (0, "stoatflow: SIGINT: calls that run may end; a second one aborts\n")


def test_a_signal_does_not_wait_for_a_broker_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def score(value):\n    return value\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "stoatflow", "worker", "app:score", "--requests", "asked"]
        command += ["--responses", "answered", "--bootstrap", address]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path) as running, silent.accept()[0]:
            running.send_signal(signal.SIGINT)
            running.wait(timeout=25)
    assert running.returncode == 0


def test_a_worker_starts_once_from_many_threads(broker: sf.EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, refused = [], []
    open_it = sf.Worker._open

    def slowly(self: sf.Worker) -> Any:
        opened.append(self)
        time.sleep(0.2)
        return open_it(self)

    monkeypatch.setattr(sf.Worker, "_open", slowly)
    worker = sf.Worker(plain_upper, requests="asked", responses="answered", broker=broker)

    def start() -> None:
        try:
            worker.start()
        except RuntimeError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    worker.stop()
    assert (len(opened), len(refused)) == (1, 2)


def test_a_function_is_found_by_module_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs_of_worker.py").write_text("def score(value):\n    return value\n")
    monkeypatch.chdir(tmp_path)
    assert load("jobs_of_worker:score")(1) == 1
    assert load(str(tmp_path / "jobs_of_worker.py") + ":score")(2) == 2
    assert share("2/3") == (2, 3)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_worker_ends_when_its_calls_have_ended(
    broker: sf.EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_plain: bool
) -> None:
    began = threading.Event()

    def reminded() -> bool:
        return any("waits for 1 calls" in record.getMessage() for record in list(caplog.records))

    def plain(value: str) -> str:
        began.set()
        until(reminded)
        return value

    async def later(value: str) -> str:
        began.set()
        while not reminded():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.02)
        return value

    monkeypatch.setattr("stoatflow.worker._DRAIN_LOG_S", 0.1)
    client = ByHand((0, "x"))
    with by_hand(client, broker, monkeypatch, plain if is_plain else later):
        assert began.wait(60)
    assert [value for _, value, _ in client.answers] == [b"x"]
    assert client.committed == [(0, 1)]
    assert reminded()


def test_a_worker_runs_in_any_thread(broker: sf.EmbeddedBroker) -> None:
    worker = sf.Worker(plain_upper, requests="asked", responses="answered", broker=broker)
    thread = threading.Thread(target=worker.run)
    thread.start()
    write(broker, "v0")
    with engine(topology(), broker):
        until(lambda: bool(results(broker)))
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert results(broker) == {"a": ["v0=V0"]}


def test_functions_that_a_worker_cannot_call_are_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "calls.py").write_text("def two(a, b): ...\ndef one(a, b=1): ...\nasync def more(*a): ...\n", "utf-8")
    with pytest.raises(sf.ConfigError, match=r"two\(a, b\) can't be called with a value"):
        load(f"{tmp_path}/calls.py:two")
    assert callable(load(f"{tmp_path}/calls.py:one"))
    assert callable(load(f"{tmp_path}/calls.py:more"))
    with pytest.raises(SystemExit):
        main(["worker", "calls:one", "--requests", "a", "--responses", "b", "--timeout", "soon"])
    assert "is no duration" in capsys.readouterr().err
