"""Cost of timers: CPU per registered and fired timer, memory while very many are pending.

Takes the number of timers. Prints a table, and JSON with --json. Each step runs in a process of its own on an embedded
broker in a temporary folder, so the figures include the broker's share; the cost of a record without a timer is
measured too, and subtracted. Engines are not compared: the others have no durable timers.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import stoatflow as sf

FAR = 10**12
"""A time before all timers."""
CHUNK = 100_000
"""Timers that are registered before the next records are written, so that not all are in one epoch."""
ENOUGH_S = 3_600.0


class Timed(sf.ContextualProcessor[str, int, str, str]):
    """Registers as many timers as a record says, a second per thousand; counts those that fire."""

    objects: ClassVar[list[Timed]] = []
    timers = True

    def init(self, context: Any) -> None:
        """Keep the store."""
        super().init(context)
        self.alarms: sf.TimerStore[str] = context.state_store("alarms")
        self.records = self.fired = 0
        self.objects.append(self)

    def process(self, record: sf.Record[str, int]) -> None:
        """Register the timers."""
        self.records += 1
        if not self.timers or not record.value:
            return
        if record.value == 1:
            self.alarms.register(FAR + record.timestamp)
            return
        for n in range(record.value):
            # In another order than that of registration, as for timers of many keys.
            self.alarms.register(FAR + (record.timestamp * 7_919 + n * 104_729) % 10_000_019, key=f"{record.key}-{n}")

    def on_timer(self, timer: sf.Timer[str]) -> None:  # noqa: ARG002
        """Count the timer."""
        self.fired += 1


class Untimed(Timed):
    """The same records, without timers."""

    timers = False


def cpu_seconds() -> float:
    """User and system time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def rss_mib() -> int:
    """Memory in use now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("/proc/self/status has no VmRSS: run the benchmark on Linux")


class Run:
    """One application on the broker of a folder."""

    def __init__(self, folder: Path, processor: type[Timed]) -> None:
        """Start the application."""
        Timed.objects.clear()
        self.broker = sf.EmbeddedBroker(folder / "broker")
        if "in" not in self.broker.topics():
            self.broker.create_topic("in", 4)
        builder = sf.StreamsBuilder()
        builder.add_state_store(sf.Stores.timers("alarms", key=str))
        builder.stream("in", key=str, value=int).process(processor, stores=["alarms"])
        config = {
            "application.id": f"timers-{processor.__name__.lower()}",
            "state.dir": str(folder / "state"),
        }
        self.app = sf.StoatFlow(builder.build(), config, broker=self.broker)
        self.app.start()
        self.written = 0

    def write(self, count: int, value: int) -> None:
        """Write `count` records, and wait until they are committed."""
        first = self.written
        records = ((n % 4, f"key-{n}".encode(), value.to_bytes(8, "big"), n) for n in range(first, first + count))
        self.broker.produce_many("in", records)
        self.written += count
        self.wait(lambda: sum(each.records for each in Timed.objects) >= self.written and self.app.lag() == 0)

    def time_jumps(self, to: int, fires: int) -> None:
        """Advance stream time to when the timers are due, and wait until all have fired."""
        for partition in range(4):
            self.broker.produce_many("in", [(partition, f"jump-{partition}".encode(), bytes(8), to)])
        self.written += 4
        self.wait(lambda: sum(each.fired for each in Timed.objects) >= fires and self.app.lag() == 0)

    def wait(self, done: Any) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + ENOUGH_S
        while not done():
            if self.app.wait(timeout=0.05):
                raise RuntimeError("StoatFlow stopped by itself: see its log above")
            if time.monotonic() > end:
                raise RuntimeError("it took too long: give smaller numbers")

    def close(self) -> None:
        """Stop it."""
        self.app.close()
        self.broker.close()


def registered(folder: Path, count: int, *, timers: bool) -> dict[str, float]:
    """One record per timer; then all timers fire."""
    run = Run(folder, Timed if timers else Untimed)
    steps: dict[str, float] = {}
    cpu, wall = cpu_seconds(), time.monotonic()
    for first in range(0, count, CHUNK):
        run.write(min(CHUNK, count - first), 1)
    steps["register_cpu_us"] = (cpu_seconds() - cpu) / count * 1e6
    steps["register_s"] = time.monotonic() - wall
    if timers:
        cpu, wall = cpu_seconds(), time.monotonic()
        run.time_jumps(FAR + count, count)
        steps["fire_cpu_us"] = (cpu_seconds() - cpu) / count * 1e6
        steps["fire_s"] = time.monotonic() - wall
    steps["rss_mib"] = rss_mib()
    run.close()
    return steps


def pending(folder: Path, count: int) -> dict[str, float]:
    """Many timers per record; none fires."""
    run = Run(folder, Timed)
    steps: dict[str, float] = {"rss_before_mib": rss_mib()}
    each = min(1_000, count)
    per_write = max(1, CHUNK // each)
    wall, highest = time.monotonic(), 0
    for _ in range(0, count, each * per_write):
        run.write(per_write, each)
        highest = max(highest, rss_mib())
    steps["seconds"] = time.monotonic() - wall
    steps["rss_mib"], steps["rss_highest_mib"] = rss_mib(), highest
    run.close()
    return steps


def reopened(folder: Path, count: int) -> dict[str, float]:
    """After a restart: time until RUNNING, memory, and the cost of the first ten thousand timers that fire."""
    wall = time.monotonic()
    run = Run(folder, Timed)
    run.wait(lambda: str(run.app.state) == "RUNNING")
    steps: dict[str, float] = {"start_s": time.monotonic() - wall, "rss_mib": rss_mib()}
    cpu = cpu_seconds()
    fires = min(10_000, count)
    # Times are distributed evenly over ten million milliseconds.
    run.time_jumps(FAR + 10_000_019 * fires // count, int(fires * 0.9))
    steps["fire_cpu_us"] = (cpu_seconds() - cpu) / fires * 1e6
    steps["rss_after_mib"] = rss_mib()
    run.close()
    return steps


def child(step: str, folder: Path, count: int) -> dict[str, float]:
    """Run a step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder), "--count", str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"the step '{step}' failed:\n{ended.stderr}")
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main(home: Path) -> int:
    """Run the steps and print their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fired", type=int, default=1_000_000, help="timers that are registered and fired")
    parser.add_argument("--pending", type=int, default=20_000_000, help="timers that stay pending; 0: leave it out")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    for name in ("step", "folder", "count"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.home = home
    if options.step:
        folder, count = Path(options.folder), int(options.count)
        steps = {
            "untimed": lambda: registered(folder, count, timers=False),
            "timed": lambda: registered(folder, count, timers=True),
            "pending": lambda: pending(folder, count),
            "reopened": lambda: reopened(folder, count),
        }
        print(json.dumps(steps[options.step]()), flush=True)
        return 0
    found: dict[str, dict[str, float]] = {}
    for step, count in (
        ("untimed", options.fired),
        ("timed", options.fired),
        ("pending", options.pending),
        ("reopened", options.pending),
    ):
        if count:
            shared = "pending" if step == "reopened" else step
            folder = options.home / shared
            folder.mkdir(exist_ok=True)
            found[step] = child(step, folder, count)
            print(f"{step:9}", ", ".join(f"{name} {figure:,.1f}" for name, figure in found[step].items()), flush=True)
    record = found["untimed"]["register_cpu_us"]
    timed = found["timed"]
    print(
        f"{options.fired:,} timers: {timed['register_cpu_us'] - record:.1f} us CPU to register one "
        f"(a record takes {record:.1f} us without), {timed['fire_cpu_us']:.1f} us to fire one"
    )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="stoatflow-timers-") as name:
        sys.exit(main(Path(name)))
