"""A bank: transfers between accounts that all lanes share, and a real SIGKILL in between.

Each record moves money with locks on both accounts, and a timer moves some more by `merge`. After the kills every
balance matches the input, and their sum is zero.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

import lives
from stoatflow import EmbeddedBroker

RECORDS = 1_000
KILLS = int(os.environ.get("BANK_KILLS", "8"))
APP = """
import sys, time
import stoatflow as sf
from pathlib import Path

class Teller(sf.ContextualProcessor):
    def init(self, context):
        super().init(context)
        self.accounts = context.state_store("accounts")
        self.orders = context.state_store("orders")

    def process(self, record):
        n = record.value
        source, target = f"a{n % 5}", f"a{(n + 1 + n % 4) % 5}"
        with self.context.locks((self.accounts, source), (self.accounts, target)):
            had = self.accounts.get(source, 0)
            time.sleep(SLEEP)
            self.accounts.put(source, had - n)
            self.accounts.put(target, self.accounts.get(target, 0) + n)
        self.orders.register(record.timestamp + 3, key=str(n))

    def on_timer(self, timer):
        n = int(timer.key)
        self.accounts.merge(f"a{n % 3}", -1, lambda had, more: time.sleep(SLEEP) or had + more)
        self.accounts.merge(f"a{3 + n % 2}", 1, lambda had, more: had + more)

folder = Path(sys.argv[1])
builder = sf.StreamsBuilder()
builder.add_state_store(sf.Stores.persistent_key_value("accounts", key=str, value=int))
builder.add_state_store(sf.Stores.timers("orders", key=str))
builder.stream("in", key=str, value=int).process(Teller, stores=["accounts", "orders"])
config = {"application.id": "app", "state.dir": str(folder / "state"), "lanes.count": int(sys.argv[2])}
with sf.EmbeddedBroker(folder / "broker") as broker, sf.StoatFlow(builder.build(), config, broker=broker) as app:
    while not (str(app.state) == "RUNNING" and app.lag() == 0):
        if app.wait(timeout=0.02):
            raise SystemExit(1)
"""
PLACES = ["lane.barrier", "lane.seal", "commit.before-commit", "commit.before-apply", "commit.after-apply"]


def start(folder: Path, lanes: int, failpoints: str = "", sleep: float = 0) -> subprocess.Popen[str]:
    """Start a life of the application."""
    return lives.start("-c", APP.replace("SLEEP", str(sleep)), folder, str(lanes), failpoints=failpoints)


def write(folder: Path, first: int, last: int) -> None:
    with EmbeddedBroker(folder / "broker") as broker:
        broker.create_topic("in", 3)
        broker.produce_many("in", ((None, b"k%d" % (n % 97), n.to_bytes(8, "big"), n) for n in range(first, last)))


def hold_what_the_input_says(folder: Path, records: int) -> None:
    with EmbeddedBroker(folder / "broker") as broker:
        written = {row.timestamp: row.partition for row in broker.read("in")}
        rows = {row.key or b"": row.value or b"" for row in broker.read("app-accounts-changelog")}
    assert len(written) == records
    last = {partition: max(n for n, of in written.items() if of == partition) for partition in written.values()}
    wanted = dict.fromkeys((f"a{n}" for n in range(5)), 0)
    for n in range(records):
        wanted[f"a{n % 5}"] -= n
        wanted[f"a{(n + 1 + n % 4) % 5}"] += n
        # The last timers of each partition wait for a time that is never reached.
        if n + 3 <= last[written[n]]:
            wanted[f"a{n % 3}"] -= 1
            wanted[f"a{3 + n % 2}"] += 1
    held = {key.decode(): int.from_bytes(value, "big", signed=True) for key, value in rows.items()}
    assert held == wanted
    assert sum(held.values()) == 0


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_failpoint_neither_creates_nor_loses_money(tmp_path: Path, place: str) -> None:
    write(tmp_path, 0, RECORDS)
    code, errors = lives.ended(start(tmp_path, 4, f"{place}=kill@2", sleep=0.0002))
    assert code == -signal.SIGKILL, errors
    write(tmp_path, RECORDS, 2 * RECORDS)
    code, errors = lives.ended(start(tmp_path, 7))
    assert code == 0, errors
    hold_what_the_input_says(tmp_path, 2 * RECORDS)


@pytest.mark.slow
def test_random_kills_neither_create_nor_lose_money(tmp_path: Path) -> None:
    chance = random.Random(5)  # noqa: S311  # the same lives each time
    count, kills = 1_500 * KILLS, 0
    write(tmp_path, 0, count)
    for _ in range(KILLS):
        life = start(tmp_path, chance.choice([2, 5, 16]), sleep=0.0005)
        with contextlib.suppress(subprocess.TimeoutExpired):
            life.wait(timeout=chance.uniform(0.5, 1.2))
        life.kill()
        kills += lives.ended(life)[0] == -signal.SIGKILL
    assert kills > KILLS // 4, "it was done too soon: give it more to do"
    code, errors = lives.ended(start(tmp_path, 3))
    assert code == 0, errors
    hold_what_the_input_says(tmp_path, count)
