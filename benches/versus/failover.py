"""What a failover costs by size of the state: `python benches/versus/failover.py --gigabytes 0.5,1,2,4`.

Needs a JDK, confluent-kafka, and StoatFlow installed in the interpreter. For each size one application with a table of
rows of 1,000 bytes is started on a real broker three times: with an empty disk (another host), after a clean stop, and
after SIGKILL in the middle of processing. Prints the time from the launch of the process to RUNNING, CPU, memory and
disk; the same as JSON. The table is compared with what was written after each start, or no time is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from bench_broker import JVM, KAFKA, THREADS  # noqa: E402
from broker.java_home import BrokerError, cache_dir, find_java  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from engines import EngineError  # noqa: E402
from final_table import TableError  # noqa: E402
from large_rows import ROW_BYTES, key_of, row_of, shuffled  # noqa: E402
from machine import describe  # noqa: E402
from restore import PARTITIONS, say, write  # noqa: E402
from stopping import stop_with_all_of_it  # noqa: E402

HERE = Path(__file__).resolve().parent
STARTS = ("empty disk", "clean stop", "SIGKILL")
FEED = 20_000
MIN_KEYS = 4 * FEED


class Failovers:
    """One application with a state of one size."""

    def __init__(self, broker: KafkaBroker, keys: int, timeout_s: float) -> None:
        """Create nothing on the broker yet."""
        self.broker, self.keys, self.timeout_s = broker, keys, timeout_s
        self.name = f"failover-{keys}"
        self.source = f"{self.name}-in"
        self.fed = 0
        self.folder = Path(tempfile.mkdtemp(prefix="stoatflow-failover-"))

    def fill(self) -> None:
        """Create the topics, and write the changelog as an application would have left it."""
        changelog = f"{self.name}-rows-changelog"
        self.broker.create_topic(self.source, PARTITIONS)
        self.broker.create_topic(changelog, PARTITIONS, {"cleanup.policy": "compact"})
        numbers = (shuffled(place, self.keys) for place in range(self.keys))
        write(self.broker.bootstrap, changelog, ((key_of(n).encode(), row_of(n, 0).encode()) for n in numbers))
        # Otherwise the broker's files would be written to the disk while the restore needs it.
        os.sync()

    def feed(self) -> None:
        """Write the next rows of the input."""
        numbers = [shuffled(place, self.keys) for place in range(self.fed, self.fed + FEED)]
        write(self.broker.bootstrap, self.source, ((key_of(n).encode(), row_of(n, 1).encode()) for n in numbers))
        self.fed += FEED

    @contextmanager
    def start(self, how: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[bytes]]]:
        """Start it and return what it reports once it runs; it is killed at the end."""
        command = [
            sys.executable, str(HERE / "stoatflow_failover.py"), "--bootstrap", self.broker.bootstrap,
            "--application-id", self.name, "--input", self.source, "--state-dir", str(self.folder / "state"),
            "--keys", str(self.keys),
        ]  # fmt: skip
        log = self.folder / "log"
        began = time.monotonic()
        with log.open("ab") as err:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        try:
            report = self.answer(process)
            seconds = round(time.monotonic() - began, 3)
            disk = sum(path.stat().st_size for path in (self.folder / "state").rglob("*") if path.is_file())
            output = {"start": how, "seconds": seconds, **report, "disk_mb": round(disk / 1e6)}
            say(f"{self.keys * ROW_BYTES / 1e9:g} GB, {how}: {output}")
            yield output, process
        finally:
            process.kill()
            process.communicate()

    def answer(self, process: subprocess.Popen[bytes]) -> Any:
        """The next line that the application prints."""
        line = _line(process.stdout, self.timeout_s) if process.stdout else b""
        if not line:
            raise EngineError(f"{self.name} did not answer; its log:\n{(self.folder / 'log').read_text()[-3000:]}")
        return json.loads(line)

    def check(self, process: subprocess.Popen[bytes]) -> None:
        """Compare its table with what was written."""
        if process.stdin is None:
            raise EngineError("a pipe was asked for and is not there")
        process.stdin.write(f"{self.fed}\n".encode())
        process.stdin.flush()
        if wrong := self.answer(process):
            raise TableError(f"{self.name}: the table is wrong, no time is reported: {wrong}")

    def measure(self) -> list[dict[str, Any]]:
        """Start it in each way."""
        with self.start(STARTS[0]) as (cold, process):
            self.feed()
            self.check(process)
            if process.stdin is not None:
                process.stdin.close()  # ends it
            process.stdin = None
            if code := process.wait(self.timeout_s):
                raise EngineError(f"{self.name} ended with {code}:\n{(self.folder / 'log').read_text()[-3000:]}")
        with self.start(STARTS[1]) as (warm, process):
            self.check(process)
            self.feed()
            time.sleep(0.3)
            self.feed()
        with self.start(STARTS[2]) as (killed, process):
            self.check(process)
        return [cold, warm, killed]


def _line(stream: IO[bytes], timeout: float) -> bytes:
    """The next line; empty if none arrives in time."""
    ready, _, _ = select.select([stream], [], [], timeout)
    return stream.readline() if ready else b""


def table(found: list[dict[str, Any]]) -> str:
    """Return a row per size and start."""
    head = f"{'GB':>6} {'start':12}{'s to RUNNING':>14}{'s restoring':>13}{'CPU s':>8}{'peak MB':>9}{'disk MB':>9}"
    rows = (
        f"{one['gigabytes']:>6g} {one['start']:12}{one['seconds']:>14.2f}{one['restore_seconds']:>13.2f}"
        f"{one['cpu_seconds']:>8.1f}{one['peak_rss_mb']:>9}{one['disk_mb']:>9}"
        for one in found
    )
    return "\n".join([head, *rows])


def measured(keys: int, timeout_s: float) -> list[dict[str, Any]]:
    """Measure one size on a broker of its own, whose disk is free again afterwards."""
    gigabytes = keys * ROW_BYTES / 1e9
    with KafkaBroker(settings=THREADS, java_options=JVM, version=KAFKA) as broker:
        failovers = Failovers(broker, keys, timeout_s)
        try:
            say(f"writing a changelog of {gigabytes:g} GB")
            failovers.fill()
            return [{"gigabytes": gigabytes, **one} for one in failovers.measure()]
        finally:
            shutil.rmtree(failovers.folder, ignore_errors=True)


def main() -> int:
    """Measure each size on one broker."""
    parser = argparse.ArgumentParser(description="Failover: the time to RUNNING by size of the state.")
    parser.add_argument("--gigabytes", default="0.5,1,2,4", help="sizes of the state, comma-separated")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that one start may take")
    parser.add_argument("--json", type=Path, default=cache_dir() / "versus" / "failover.json", help="where JSON goes")
    options = parser.parse_args()
    sizes = [float(size) for size in options.gigabytes.split(",")]
    if min(sizes) * 1e9 / ROW_BYTES < MIN_KEYS:
        parser.error(f"--gigabytes must be at least {MIN_KEYS * ROW_BYTES / 1e9:g}: more rows than are updated")
    stop_with_all_of_it()
    found: list[dict[str, Any]] = []
    try:
        for size in sizes:
            found += measured(round(size * 1e9 / ROW_BYTES), options.timeout)
    except (BrokerError, EngineError, TableError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(found))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": describe(find_java()), "failovers": found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
