"""How a run ends: signals in the main thread, other threads, event loops."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from pathlib import Path

import pytest
from counting import PATIENCE_S, check_every_update, lines, make, until, updates
from processes import Process
from topics import KafkaTopics

from stoatflow import StoatFlow

TRIES = 5

RUN = """
import json, sys, threading, time
import stoatflow as sf
address, name, state, pause = sys.argv[1:]
def slow(line):
    time.sleep(float(pause))
    return line
builder = sf.StreamsBuilder()
slowly = builder.stream(name + "-in", key=bytes, value=str).map_values(slow)
words = slowly.flat_map_values(sf.value.str.lower().str.split())
words.group_by(sf.value, key=str, value=str).count(store="counts").to_stream().to(name + "-out", key=str, value=int)
config = {"application.id": name, "bootstrap.servers": address, "state.dir": state, "lanes.count": 2}
app = sf.StoatFlow(builder.build(), config | {"statestore.cache.max.bytes": 0, "batch.max.records": 8})
done = threading.Event()
def tell():
    while not done.wait(0.05):
        print(json.dumps(app.metrics()), flush=True)
teller = threading.Thread(target=tell, daemon=True)
teller.start()
app.run()
# Two threads that print at once mix text and line ends.
done.set()
teller.join()
print("after", app.state, flush=True)
"""


def committed(child: Process) -> int:
    reported = [line for line in child.lines if line.startswith("{") and line.endswith("}")]
    return int(json.loads(reported[-1])["records_committed"]) if reported else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: signal.Signals(n).name)
def test_the_first_signal_drains_and_commits(kafka: KafkaTopics, name: str, tmp_path: Path, number: int) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    given = lines(1, 2000)
    kafka.write(f"{name}-in", given)
    with Process(["-c", RUN, kafka.address, name, tmp_path, "0.001"]) as child:
        child.until(lambda: committed(child) > 0, "it commits")
        child.signal(number)
        assert child.wait() == 0, child.reported()
        assert child.lines[-1] == "after STOPPED"
        assert "Traceback" not in child.errors
    # The committed result is complete: the output is exactly that of the lines before the committed offset.
    offset = kafka.committed(name, f"{name}-in")[0]
    assert offset > 0
    whole = [row.value.decode() for row in kafka.read(f"{name}-in") if row.value is not None and row.offset < offset]
    check_every_update(kafka.read(f"{name}-out"), whole)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_the_second_signal_aborts(kafka: KafkaTopics, name: str, tmp_path: Path, number: int, code: int) -> None:
    """Draining would take minutes; the second signal aborts it, and the next start is still exact."""
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    given = lines(2, 300)
    kafka.write(f"{name}-in", given)
    with Process(["-c", RUN, kafka.address, name, tmp_path, "0.2"]) as child:
        child.until(lambda: '"RUNNING"' in "".join(child.lines[-1:]), "it runs")
        time.sleep(0.6)
        child.signal(number)
        # Two signals at the same time would be one.
        child.until(lambda: '"STOPPING"' in "".join(child.lines[-1:]), "it drains")
        time.sleep(0.5)
        assert child.code is None, child.reported()
        began = time.monotonic()
        child.signal(number)
        ended = child.wait()
        assert ended in {code, 130}, child.reported()
        # Draining may take half a minute at most.
        assert time.monotonic() - began < 20.0
    with make(kafka.address, name, tmp_path) as again:
        until(lambda: kafka.committed(name, f"{name}-in") == {0: 300}, "the next start finishes it")
        assert not again.wait(0)
    check_every_update(kafka.read(f"{name}-out"), given)


def test_run_off_the_main_thread(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    given = lines(3, 500)
    kafka.write(f"{name}-in", given)
    app = make(kafka.address, name, tmp_path, "lambda")
    before = signal.getsignal(signal.SIGINT)
    raised: list[BaseException] = []

    def body() -> None:
        try:
            app.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    until(lambda: app.metrics()["records_committed"] == 500, "it works in a thread")
    assert signal.getsignal(signal.SIGINT) is before
    assert app.close()
    thread.join(60)
    assert not thread.is_alive()
    assert not raised
    check_every_update(kafka.read(f"{name}-out"), given)


def test_inside_a_running_event_loop(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """`async with` doesn't block the loop: it keeps ticking while the engine starts, works and closes."""
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    given: list[str] = []

    async def tick(gaps: list[float]) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - began)

    async def work(gaps: list[float]) -> None:
        app = make(kafka.address, name, tmp_path, "lambda")
        ticking = asyncio.create_task(tick(gaps))
        async with app:
            await until_committed(app, 500)
        ticking.cancel()
        assert str(app.state) == "STOPPED"

    # A single delay may be the machine's fault, since other tests share it; a blocked loop is delayed every
    # time.
    for attempt in range(TRIES):
        more = lines(4 + 100 * attempt, 500)
        kafka.write(f"{name}-in", more)
        given += more
        gaps: list[float] = []
        asyncio.run(work(gaps))
        assert len(gaps) > 10
        if max(gaps) < 0.5:
            break
    assert max(gaps) < 0.5
    check_every_update(kafka.read(f"{name}-out"), given)


async def until_committed(app: StoatFlow, records: int) -> None:
    """Without blocking the loop."""
    began = time.monotonic()
    while app.metrics()["records_committed"] != records:
        assert time.monotonic() - began < PATIENCE_S, app.metrics()
        await asyncio.sleep(0.01)


def test_cancelling_drains_and_commits(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    given = lines(5, 500)
    kafka.write(f"{name}-in", given)
    app = make(kafka.address, name, tmp_path)

    async def main() -> None:
        running = asyncio.create_task(app.run_async())
        await until_committed(app, 500)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert str(app.state) == "STOPPED"
    assert kafka.committed(name, f"{name}-in") == {0: 500}
    assert sum(len(counts) for counts in updates(kafka.read(f"{name}-out")).values()) == 2500
