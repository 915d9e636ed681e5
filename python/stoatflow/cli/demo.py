"""`stoatflow demo`: a word count that is killed in the middle, and the proof that nothing was lost or doubled.

Takes nothing, or a real broker with `--bootstrap`; prints progress, the address of the live page, and a report. PySpark
generates the lines and checks the result, or Python where PySpark isn't installed; the engine runs in a process of its
own, which is killed once with SIGKILL and started again. Never touches topics or state that it did not create.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    from stoatflow.cli.demo_python import PythonSide
    from stoatflow.cli.demo_spark import SparkSide

LINES = 300_000
PARTITIONS = 4
SEED = 7
KILL_AT = 0.2
"""The engine is killed after this share of the lines."""
LIMIT_S = 600.0
"""A demo that takes longer has failed."""


class Places(NamedTuple):
    """Paths and names of what a demo creates."""

    bootstrap: str
    folder: Path
    source: str
    sink: str
    application: str


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("demo", help=COMMANDS["demo"])
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a real broker (default: the embedded one)")
    parser.add_argument("--lines", type=int, default=LINES, help=f"how many lines (default {LINES})")
    parser.add_argument("--flavour", choices=["native", "lambda"], default="native")
    parser.add_argument(
        "--checked-by",
        choices=["spark", "python"],
        help="who makes the lines and checks the result (default: spark if PySpark is installed)",
    )
    parser.add_argument("--no-kill", action="store_true", help="let the engine run undisturbed")
    parser.add_argument("--keep", action="store_true", help="keep the topics and the state, and say where")
    parser.add_argument("--stay", action="store_true", help="afterwards keep the console open until Ctrl-C")
    add_json(parser, "a JSON object with the result, at the end")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Load, count, kill, recover, reconcile."""
    began = time.monotonic()
    with _interruptible(), _places(given.bootstrap, given.keep) as places:
        by_spark = (given.checked_by or _checker()) == "spark"
        how = (
            "PySpark makes {0:,} lines (starting Spark takes some seconds)" if by_spark else "Python makes {0:,} lines"
        )
        say(1, how.format(given.lines))
        with contextlib.closing(_side(places, spark=by_spark)) as side:
            arrived = side.load(given.lines, SEED)
            if arrived != given.lines:
                raise SystemExit(
                    f"stoatflow demo: {arrived} of {given.lines} lines arrived in {places.source}; look at the "
                    "broker's log"
                )
            say(2, "StoatFlow counts the words, exactly once")
            kills = _count(places, given)
            say(3, f"{side.name} reads both topics and counts again")
            result = side.reconcile()
        print()
        print(result.render())
        print(f"  killed with SIGKILL : {_kills(kills, given)}")
        print(f"  took                : {time.monotonic() - began:.0f} s in all")
        print(_next(places, given.keep))
        if given.json:
            summary = {"lines": given.lines, "kills": kills, "checked_by": side.name}
            kept = str(places.folder) if given.keep else None
            print_json(given, {**json.loads(result.to_json()), **summary, "kept": kept})
        if given.stay and result.ok:
            _stay(places, given.flavour)
    return 0 if result.ok and (kills or given.no_kill) else 1


def _stay(places: Places, flavour: str) -> None:
    """Start the engine on its committed state, until Ctrl-C."""
    with _engine(places, flavour) as engine, contextlib.suppress(KeyboardInterrupt):
        shown = False
        for line in _progress(engine, float("inf")):
            if line["url"] and not shown:
                print(f"\nThe console stays open: {line['url']} (Ctrl-C ends it)", flush=True)
                shown = True


def _kills(kills: int, given: argparse.Namespace) -> str:
    if kills:
        return f"{kills} time, and recovered"
    if given.no_kill:
        return "no, as asked"
    return "NO: the engine was done before it could be killed; try more --lines"


def say(step: int, text: str) -> None:
    """Print a step."""
    print(f"[{step}/3] {text}", flush=True)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end Spark's JVM too; py4j's errors about it must not hide the reason."""
    interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _places(bootstrap: str | None, keep: bool) -> Iterator[Places]:
    folder = Path(tempfile.mkdtemp(prefix="stoatflow-demo-"))
    run_id = f"{int(time.time())}-{os.getpid()}"
    try:
        yield Places(
            bootstrap=bootstrap or f"embedded:{folder / 'broker'}",
            folder=folder,
            source=f"demo-lines-{run_id}",
            sink=f"demo-counts-{run_id}",
            application=f"demo-{run_id}",
        )
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _checker() -> str:
    return "python" if importlib.util.find_spec("pyspark") is None else "spark"


def _side(places: Places, *, spark: bool) -> SparkSide | PythonSide:
    if spark:
        from stoatflow.cli.demo_spark import SparkSide

        return SparkSide(places.bootstrap, places.source, places.sink, PARTITIONS)
    from stoatflow.cli.demo_python import PythonSide

    return PythonSide(places.bootstrap, places.source, places.sink, PARTITIONS)


def _count(places: Places, given: argparse.Namespace) -> int:
    """Run the engine until it has consumed the input; kill it once meanwhile. Returns the number of kills."""
    kills = 0
    deadline = time.monotonic() + LIMIT_S
    shown_url = False
    while True:
        with _engine(places, given.flavour) as engine:
            killed = False
            for line in _progress(engine, deadline):
                if line["url"] and not shown_url:
                    print(f"      live page while it runs: {line['url']}", flush=True)
                    shown_url = True
                started = line["state"] in {"RUNNING", "STOPPING", "STOPPED"}
                done = given.lines - line["lag"] if started and line["lag"] is not None else 0
                _bar(done, given.lines, line)
                if not kills and not given.no_kill and KILL_AT * given.lines <= done < given.lines:
                    engine.send_signal(signal.SIGKILL)
                    kills, killed, shown_url = 1, True, False
                    print(
                        f"\n      SIGKILL to process {engine.pid} after {done:,} lines; starting it again", flush=True
                    )
                    break
            code = engine.wait()
        if killed:
            continue
        print()
        if code != 0:
            last_lines = (places.folder / "engine.log").read_text(errors="replace").splitlines()[-12:]
            raise SystemExit(
                "\n".join([f"stoatflow demo: the engine ended with exit code {code}. It said:", *last_lines])
            )
        return kills


@contextlib.contextmanager
def _engine(places: Places, flavour: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable, "-m", "stoatflow", "word-count", "--follow",
        "--bootstrap", places.bootstrap, "--input", places.source, "--output", places.sink,
        "--application-id", places.application, "--state-dir", str(places.folder / "state"), "--flavour", flavour,
    ]  # fmt: skip
    with (places.folder / "engine.log").open("a") as log:
        engine = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 (our own module)
    try:
        yield engine
    finally:
        if engine.poll() is None:
            engine.terminate()
            try:
                engine.wait(20)
            except subprocess.TimeoutExpired:
                engine.kill()
                engine.wait()
        if engine.stdout is not None:
            engine.stdout.close()


def _progress(engine: subprocess.Popen[str], deadline: float) -> Iterator[dict[str, Any]]:
    if engine.stdout is None:
        return
    for line in engine.stdout:
        if time.monotonic() > deadline:
            raise SystemExit(f"stoatflow demo: not done after {LIMIT_S:.0f} s")
        yield json.loads(line)


def _bar(done: int, total: int, line: dict[str, Any]) -> None:
    share = done / total if total else 1.0
    text = (
        f"      {'#' * int(share * 30):<30} {done:>9,} lines  {line['records_out']:>11,} counts out  "
        f"{line['commits']:>5} commits, p50 {line['commit_p50_us'] / 1000:.1f} ms"
    )
    if sys.stdout.isatty():
        print(f"\r{text}", end="", flush=True)
    else:
        print(text, flush=True)


def _next(places: Places, keep: bool) -> str:
    kept = f"\n  kept: {places.folder} (topics {places.source}, {places.sink})" if keep else ""
    return f"{kept}\nNext: a project of your own, with tests: stoatflow new orders-by-customer"
