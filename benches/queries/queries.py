"""Cost of secondary indexes, and of queries that use them.

Takes the number of documents of 1 KB. Prints a table, and JSON with --json: ingest and restore with three indexes and
without, one after the other in one run, and lookups and pages while documents are written. Each step runs in a process
of its own on an embedded broker in a temporary folder. Engines are not compared: Kafka Streams has no indexes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import stoatflow as sf

PARTITIONS = 4
GROUPS = 2_000
ENOUGH_S = 3_600.0
QUERY_S = 20.0
INDEXES = (
    sf.Index("by_mail", sf.value["mail"]),
    sf.Index("by_group_age", sf.value["group"], sf.value["age"]),
    sf.Index("by_tag", sf.value["tags"], each=True),
)
PADDING = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz ", k=2_000))


def document(number: int, version: int) -> bytes:
    """About 1 KB of JSON."""
    at = number * 37 % 1_000
    made = {
        "mail": f"user{number}@example.org",
        "name": f"User {number}",
        "note": PADDING[at : at + 800],
        "group": f"group-{(number * 7_919 + version) % GROUPS}",
        "age": (number * 31 + version) % 97,
        "tags": [f"tag-{number % 1_000}", f"tag-{(number + version) % 997}"],
        "version": version,
    }
    return json.dumps(made).encode()


def documents(numbers: Iterator[int] | range, version: int) -> Iterator[tuple[int, bytes, bytes, int]]:
    """Records for `produce_many`."""
    for number in numbers:
        yield (number % PARTITIONS, f"user-{number:08}".encode(), document(number, version), number)


class Run:
    """One application on the broker of a folder."""

    def __init__(self, folder: Path, indexed: bool) -> None:
        """Create it; nothing is started."""
        self.broker = sf.EmbeddedBroker(folder / "broker")
        self.name = "indexed" if indexed else "plain"
        self.state = folder / f"state-{self.name}"
        builder = sf.StreamsBuilder()
        indexes = INDEXES if indexed else ()
        builder.table("docs", key=str, value=dict, store=sf.Materialized("docs", key=str, value=dict, indexes=indexes))
        config = {
            "application.id": self.name,
            "state.dir": str(self.state),
            "admin.listen": "127.0.0.1:0",
        }
        self.app = sf.StoatFlow(builder.build(), config, broker=self.broker)

    def wait(self, done: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + ENOUGH_S
        while not done():
            if self.app.wait(timeout=0.02):
                raise RuntimeError("StoatFlow stopped by itself: see its log above")
            if time.monotonic() > end:
                raise RuntimeError("it took too long: give smaller numbers")

    def runs(self) -> bool:
        """Whether it processes records."""
        return self.app.state is sf.State.RUNNING

    def is_done(self) -> bool:
        """Whether everything is committed."""
        return self.runs() and self.app.lag() == 0

    def close(self) -> None:
        """Stop it."""
        self.app.close()
        self.broker.close()


def filled(folder: Path, count: int) -> dict[str, float]:
    """Write the input."""
    with sf.EmbeddedBroker(folder / "broker") as broker:
        broker.create_topic("docs", PARTITIONS)
        broker.produce_many("docs", documents(range(count), 0))
    return {}


def ingested(folder: Path, count: int, *, indexed: bool) -> dict[str, float]:
    """Read all input."""
    run = Run(folder, indexed)
    run.app.start()
    run.wait(run.runs)
    began = time.monotonic()
    run.wait(run.is_done)
    seconds = time.monotonic() - began
    run.close()
    return {"seconds": seconds, "per_second": count / seconds}


def restored(folder: Path, count: int, *, indexed: bool) -> dict[str, float]:
    """Restore on an empty disk, until all indexes can be used."""
    run = Run(folder, indexed)
    shutil.rmtree(run.state)
    began = time.monotonic()
    run.app.start()
    run.wait(run.runs)
    steps = {"running_s": time.monotonic() - began}
    if indexed:
        run.wait(lambda: is_readable(run.app))
    steps["seconds"] = time.monotonic() - began
    assert run.app.store("docs").count() == count
    run.close()
    return steps


def is_readable(app: sf.StoatFlow) -> bool:
    """Whether all indexes are built."""
    store = app.store("docs")
    asked = (
        sf.value["mail"] == "",
        (sf.value["group"] == "") & (sf.value["age"] == 1),
        sf.value["tags"].list.contains(""),
    )
    try:
        return all(store.explain(each).way == "index" for each in asked)
    except sf.ConfigError:
        return False


def at(quantile: float, times: list[float]) -> float:
    """Return a quantile, in milliseconds."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] * 1e3


def queried(folder: Path, count: int) -> dict[str, float]:
    """Look up and page while documents are written."""
    run = Run(folder, indexed=True)
    run.app.start()
    run.wait(run.is_done)
    run.wait(lambda: is_readable(run.app))
    over = threading.Event()
    chosen = random.Random(3)
    batch = min(2_000, count)
    # Built in advance: the writer must leave the interpreter to the queries.
    changes = [list(documents(iter(chosen.sample(range(count), batch)), version)) for version in range(1, 41)]

    def change() -> None:
        for rows in itertools.cycle(changes):
            if over.is_set():
                return
            run.broker.produce_many("docs", rows)
            while run.app.lag() > 10_000 and not over.is_set():
                time.sleep(0.005)

    writer = threading.Thread(target=change)
    writer.start()
    rng = random.Random(5)
    store, lookups, pages = run.app.store("docs"), [], []
    began, ends = time.monotonic(), time.monotonic() + QUERY_S
    before = run.app.metrics()["records_in"]
    while time.monotonic() < ends:
        number = rng.randrange(count)
        since = time.perf_counter()
        found = store.find(sf.value["mail"] == f"user{number}@example.org")
        lookups.append(time.perf_counter() - since)
        assert len(found) == 1
        assert found.plan.way == "index"
        if len(lookups) % 5 == 0:
            group = f"group-{rng.randrange(GROUPS)}"
            since = time.perf_counter()
            page = store.find(sf.value["group"] == group, order_by=sf.desc(sf.value["age"]), limit=100)
            pages.append(time.perf_counter() - since)
            assert not page.plan.sorted
    seconds = time.monotonic() - began
    after = run.app.metrics()["records_in"]
    over.set()
    writer.join()
    steps = {
        "lookups": len(lookups),
        "lookup_p50_ms": at(0.5, lookups),
        "lookup_p99_ms": at(0.99, lookups),
        "pages": len(pages),
        "page_p50_ms": at(0.5, pages),
        "page_p99_ms": at(0.99, pages),
        "rows_per_group": count / GROUPS,
        "ingested_per_second": (after - before) / seconds,
    }
    run.close()
    return steps


def child(step: str, folder: Path, count: int) -> dict[str, float]:
    """Run a step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder), "--documents", str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"the step '{step}' failed:\n{ended.stderr}")
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


STEPS: dict[str, Callable[[Path, int], dict[str, float]]] = {
    "fill": filled,
    "ingest-plain": lambda folder, count: ingested(folder, count, indexed=False),
    "ingest-indexed": lambda folder, count: ingested(folder, count, indexed=True),
    "query": queried,
    "restore-plain": lambda folder, count: restored(folder, count, indexed=False),
    "restore-indexed": lambda folder, count: restored(folder, count, indexed=True),
}


def main() -> int:
    """Run the steps and print their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000, help="how many")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--home", type=Path, help="where the data lies (default: a temporary folder)")
    for name in ("step", "folder"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(STEPS[options.step](Path(options.folder), options.documents)), flush=True)
        return 0
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=options.home) as folder:
        # Restores run before queries, which change documents and so lengthen the changelogs.
        for step in ("fill", "ingest-plain", "ingest-indexed", "restore-plain", "restore-indexed", "query"):
            found[step] = child(step, Path(folder), options.documents)
            if found[step]:
                print(f"{step:16}", *(f"{name}={figure:.4g}" for name, figure in found[step].items()), flush=True)
    ingest = found["ingest-indexed"]["per_second"] / found["ingest-plain"]["per_second"]
    restore = found["restore-indexed"]["seconds"] / found["restore-plain"]["seconds"]
    print(f"ingest with three indexes: {ingest:.2f} of the rate without; restore: {restore:.2f} of the time without")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
