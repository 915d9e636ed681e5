"""Small applications on an embedded broker, for tests of what they add to their admin port."""

from __future__ import annotations

import time
from pathlib import Path

import stoatflow as sf
from concurrency import until
from http_calls import Answer, ask

TOKEN = "a-token-for-tests-0123456789"  # noqa: S105  # no secret


def application(tmp_path: Path, builder: sf.StreamsBuilder | None = None, **settings: object) -> sf.StoatFlow:
    """Return an application that is not started; without a builder, one that copies a topic."""
    if builder is None:
        builder = sf.StreamsBuilder()
        builder.stream("in", key=str, value=str).to("out", key=str, value=str)
    broker = sf.EmbeddedBroker(tmp_path / "broker")
    for topic in ("in", "out"):
        broker.create_topic(topic, 1)
    given = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": 2}
    given |= {"ensure.explicit.naming": False, **settings}
    return sf.StoatFlow(builder.build(), sf.Settings(given, environ={}), broker=broker)


def runs(app: sf.StoatFlow) -> sf.StoatFlow:
    """Wait until it is running."""
    app.wait_until("RUNNING")
    until(lambda: app.admin_url is not None)
    return app


def ready(app: sf.StoatFlow) -> Answer:
    """Ask for its readiness."""
    return ask(app.admin_url, "/health/ready")


def becomes(app: sf.StoatFlow, status: int) -> Answer:
    """Wait until its readiness has this status."""
    until(lambda: ready(app).status == status)
    return ready(app)


def slowest_of_live(url: str, seconds: float) -> float:
    """Ask for liveness for this long; return the slowest time, where the fastest of ten in a row counts.

    A single slow answer may be the machine's fault, since other tests share it; one that needs the interpreter is slow
    every time.
    """
    times: list[float] = []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        began = time.monotonic()
        assert ask(url, "/health/live").status == 200
        times.append(time.monotonic() - began)
        time.sleep(0.02)
    assert len(times) >= 20
    return max(min(times[at : at + 10]) for at in range(len(times) - 9))
