"""Tokens of a Python function (`oauth_cb`): it works, renews, raises, hangs and returns nonsense."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import ALLOWED, PASSWORDS
from broker.token_server import SHORT, SHORT_S
from counting import (
    PATIENCE_S,
    by_hand,
    check_every_update,
    consume,
    lines,
    make,
    table,
    until,
    until_consumed,
    until_running,
)
from processes import Process
from topics import KafkaTopics

import stoatflow as sf

HERE = Path(__file__).parent
# Most errors end it immediately; retries last as long as this.
BUDGET_MS = 8000
# Beyond the budget: what a busy machine takes to start and to end.
GRACE_S = 60.0
LIVES = 4
pytestmark = pytest.mark.xdist_group("secured")


def bare(client: Mapping[str, str]) -> dict[str, str]:
    """The properties of a client without the source of its tokens."""
    return {key: value for key, value in client.items() if not key.startswith("sasl.oauthbearer.")}


def counting(cluster: KafkaCluster, name: str, state: Path, fetch: object, **more: object) -> sf.StoatFlow:
    """A word count with tokens of this function."""
    client = bare(cluster.client("SASL_SSL_OAUTHBEARER"))
    rest = {key.replace(".", "_"): value for key, value in client.items() if key != "bootstrap.servers"}
    return make(client["bootstrap.servers"], name, state, oauth_cb=fetch, **rest, **more)


def written(cluster: KafkaCluster, name: str, count: int = 300) -> list[str]:
    """Creates topics, with lines in the first one."""
    for topic in ("in", "out"):
        cluster.create_topic(f"{name}-{topic}", 3)
    given = lines(1, count)
    KafkaTopics(cluster.bootstrap()).write(f"{name}-in", given)
    return given


def check(cluster: KafkaCluster, name: str, given: list[str]) -> None:
    """Each line was counted once."""
    kafka = KafkaTopics(cluster.bootstrap())
    check_every_update(kafka.read(f"{name}-out"), given)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)


class Functions:
    """Functions that a user may pass."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Tokens of this cluster."""
        self.calls = 0
        self._make = cluster.tokens.token

    def token(self, lifetime_s: float = 600.0) -> str:
        """A token of the test server."""
        self.calls += 1
        return self._make(ALLOWED, lifetime_s=lifetime_s)

    def plain(self) -> sf.OAuthToken:
        """As in the docs."""
        return sf.OAuthToken(self.token(), time.time() + 600, principal=ALLOWED, extensions={"logicalCluster": "lkc-1"})

    async def asynchronous(self) -> sf.OAuthToken:
        """An async function."""
        await asyncio.sleep(0.05)
        return sf.OAuthToken(self.token(), datetime.now(timezone.utc) + timedelta(minutes=10))

    def confluents(self, config: str) -> tuple[str, float]:
        """Like confluent-kafka's callback."""
        assert config == "scope=kafka"
        return self.token(), time.time() + 600


@pytest.mark.parametrize("kind", ["plain", "asynchronous", "confluents"])
def test_word_count_with_one_token(secured: KafkaCluster, name: str, tmp_path: Path, kind: str) -> None:
    given, functions = written(secured, name), Functions(secured)
    more = {"sasl_oauthbearer_config": "scope=kafka"} if kind == "confluents" else {}
    consume(counting(secured, name, tmp_path, getattr(functions, kind), **more))
    check(secured, name, given)
    assert functions.calls == 1, "one token for all clients"


def test_a_worker_accepts_an_oauth_callback_too(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    for topic in ("in", "asked", "answered", "out"):
        secured.create_topic(f"{name}-{topic}")
    asked, answered = f"{name}-asked", f"{name}-answered"
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=str).offload(
        asked, answered, joiner=lambda _, answer: answer, response_value=str, name="upper"
    ).to(f"{name}-out", key=str, value=str)
    of_app, of_worker = Functions(secured), Functions(secured)
    client = bare(secured.client("SASL_SSL_OAUTHBEARER"))
    app = {"application.id": name, "state.dir": tmp_path, "oauth_cb": of_app.plain, **client}
    worker = sf.Worker(
        str.upper, requests=asked, responses=answered, config={"oauth_cb": of_worker.plain, **client}, value=str
    )
    kafka = KafkaTopics(secured.bootstrap())
    with sf.StoatFlow(builder.build(), app), worker:
        kafka.write(f"{name}-in", ["a", "b"], key="k")
        until(lambda: kafka.count(f"{name}-out") == 2, "both are answered")
    assert (of_app.calls, of_worker.calls) == (1, 1)


def test_tokens_are_renewed_under_load(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    """In its own process, with the function configured by name; sessions end when the token expires."""
    for topic in ("in", "out"):
        secured.create_topic(f"{name}-{topic}")
    kafka = KafkaTopics(secured.bootstrap())
    config = {
        "application.id": name,
        "state.dir": str(tmp_path),
        "oauth_cb": "fetching_tokens:fetch",
        **bare(secured.client("SASL_SSL_OAUTHBEARER")),
    }
    environ = {
        "RUST_LOG": "warn,stoatflow::kafka=debug",
        "PYTHONPATH": str(HERE),
        "TOKEN_ENDPOINT": secured.tokens.endpoint(SHORT),
        "TOKEN_CLIENT_ID": ALLOWED,
        "TOKEN_CLIENT_SECRET": PASSWORDS[ALLOWED],
    }
    given: list[str] = []

    def live() -> str:
        """One life, longer than three tokens; returns the log."""
        before = len(secured.tokens.served)
        with Process([HERE / "copying.py", json.dumps(config)], environ) as running:
            running.until(lambda: "RUNNING" in running.lines, "it runs")
            began = time.monotonic()

            def is_renewed() -> bool:
                fetched = len(secured.tokens.served) - before
                return fetched >= 4 and running.errors.count("authenticated again") >= 4

            while time.monotonic() - began < 3.2 * SHORT_S or not is_renewed():
                assert time.monotonic() - began < PATIENCE_S, running.reported()
                part = [f"{len(given) + number}" for number in range(50)]
                kafka.write(f"{name}-in", part)
                given.extend(part)
                time.sleep(0.05)
            running.until(lambda: kafka.count(f"{name}-out") >= len(given), "all are copied")
            running.signal(signal.SIGTERM)
            assert running.wait() == 0, running.reported()
            return running.errors

    output = live()
    for _ in range(LIVES - 1):
        if "no connection" not in output:
            break
        # A process that was held up in the last moments of a token is late once; a renewal that is too late
        # is late every time.
        output = live()
    assert [row.value for row in kafka.read(f"{name}-out")] == [value.encode() for value in given]
    assert "no connection" not in output, output


def test_a_hanging_token_renewal_blocks_nothing(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    functions, hung, free = Functions(secured), threading.Event(), threading.Event()

    def fetch() -> tuple[str, float]:
        if functions.calls == 1 and not hung.is_set():
            hung.set()
            free.wait(180)
        return functions.token(lifetime_s=4.0), time.time() + 4.0

    given = written(secured, name)
    kafka = KafkaTopics(secured.bootstrap())
    with counting(secured, name, tmp_path, fetch, sasl_login_read_timeout_ms=1000) as app:
        try:
            until_running(app)
            assert hung.wait(60), "a token is renewed after four fifths of its life"
            more = lines(2, 200)
            kafka.write(f"{name}-in", more)
            # Meanwhile that call still hangs.
            until_consumed(app)
            until(lambda: functions.calls >= 3, "it is called again, and tokens come again")
        finally:
            free.set()
    assert app.error is None
    check(secured, name, given + more)


def failure(app: sf.StoatFlow) -> sf.StoatFlowError:
    """The error that ends it, in time."""
    began = time.monotonic()
    app.start()
    try:
        with pytest.raises(sf.StoatFlowError) as raised:
            assert app.wait(BUDGET_MS / 1000 + GRACE_S), "it should have failed"
        assert time.monotonic() - began < BUDGET_MS / 1000 + GRACE_S
        return raised.value
    finally:
        app.close()


async def _sleeps() -> tuple[str, float]:
    await asyncio.sleep(3600)
    return "", 0.0


def _sleeps_hard() -> tuple[str, float]:
    threading.Event().wait(3600)
    return "", 0.0


def _raises() -> tuple[str, float]:
    raise PermissionError("no token for you")


WRONG: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "raises": (_raises, ("oauth_cb (_raises)", "PermissionError: no token for you", "traceback")),
    "hangs": (_sleeps_hard, ("did not end within 0.5 s", "sasl.login.read.timeout.ms")),
    "an async one hangs": (_sleeps, ("did not end within 0.5 s", "sasl.login.read.timeout.ms")),
    "nothing": (lambda: None, ("it returned NoneType", "return sf.OAuthToken")),
    "a text alone": (lambda: "secret-text", ("it returned str", "return sf.OAuthToken")),
    "bytes": (lambda: (b"secret-text", time.time() + 60), ("its token is bytes",)),
    "a bearer": (lambda: ("Bearer secret-text", time.time() + 60), ("the token alone",)),
    "expired": (lambda: ("secret-text", time.time() - 60), ("expired 6", " s ago")),
    "milliseconds": (lambda: ("secret-text", time.time() * 1000), ("divide by 1000",)),
    "a time without zone": (lambda: ("secret-text", datetime(2090, 1, 1)), ("no time zone",)),  # noqa: DTZ001
    "an extension": (lambda: ("secret-text", time.time() + 60, "", {"auth": "x"}), ("'auth' is no SASL extension",)),
    "another's token": (lambda: ("secret-text", time.time() + 60, "alice"), ("refuses the token of 'alice'",)),
}


@pytest.mark.parametrize("what", WRONG)
def test_each_misconfiguration_has_its_own_error_message(
    secured: KafkaCluster, name: str, tmp_path: Path, what: str
) -> None:
    fetch, words = WRONG[what]
    made = counting(secured, name, tmp_path, fetch, broker_wait_timeout_ms=BUDGET_MS, sasl_login_read_timeout_ms=500)
    message = str(failure(made))
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    assert "secret-text" not in message


def test_a_function_that_fails_for_a_while_is_called_again(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    given, functions, failures = written(secured, name), Functions(secured), iter(range(3))

    def fetch() -> sf.OAuthToken:
        if next(failures, None) is not None:
            raise ConnectionError("away")
        return functions.plain()

    consume(counting(secured, name, tmp_path, fetch))
    check(secured, name, given)
