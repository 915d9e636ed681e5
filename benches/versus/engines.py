"""Runs one engine once, in a process of its own, and measures it.

Takes the shared conditions, a job (workload, engine, topics); returns a `Run`. Owns the engine's process and its state
folder. Only one engine runs at a time; an engine that ended with an error has no figures.

The engine prints its own figures; the system's CPU seconds of the whole process and its children, including start and
exit, are reported too (`process_cpu_seconds`), so that no side can look better by measuring late.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import kstreams_build
import peers
from broker.java_home import find_java
from conditions import Conditions
from machine import ProcessTree, machine_cpu, process_cpu, steady_rss_kb
from peers import PEERS
from workloads import WORKLOADS

KSTREAMS, BARE = "kstreams", "bare"
FLAVOURS = ("native", "lambda", "arrow")
LOOPS = ("handwritten", BARE, "bare-plain")
# Default engines, and all engines.
USUAL = (KSTREAMS, *FLAVOURS, *LOOPS)
ENGINES = (*USUAL, *PEERS)
_HERE = Path(__file__).resolve().parent


class EngineError(RuntimeError):
    """An engine failed before the end of its input."""


@dataclass(frozen=True)
class Job:
    """The work of an engine. `records` is the number of counted records, `inputs` contain `consumed` in all.

    `name` is unique to the run: its application is named after it.
    """

    workload: str
    engine: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    records: int
    consumed: int

    @property
    def application(self) -> str:
        """Its application id, which is in the names of all internal topics of the engine."""
        return f"{self.name}-app"


@dataclass(frozen=True)
class Run:
    """One measured run; `seconds` is the engine's own time from start() on, `wall_seconds` that of its process."""

    workload: str
    engine: str
    repeat: int
    records: int
    seconds: float
    wall_seconds: float
    cpu_seconds: float
    process_cpu_seconds: float
    peak_rss_kb: int
    broker_cpu_seconds: float
    other_cpu_seconds: float
    # The guarantee after a crash, as reported by the engine.
    guarantee: str
    # Most processes at a time; with more than one, peak memory is the peak of their sum, sampled every
    # second.
    processes: int
    # Median memory in the second half of the work; `None` if it was too short for that.
    steady_rss_kb: int | None = None
    output_records: int | None = None
    # Bytes that it has left on the broker, by role of topic.
    broker_bytes: Mapping[str, int] | None = None
    table_hash: str | None = None

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds of the whole process per million input records."""
        return self.process_cpu_seconds / self.records * 1e6

    @property
    def bytes_per_record(self) -> float | None:
        """Bytes on the broker per input record."""
        return sum(self.broker_bytes.values()) / self.records if self.broker_bytes is not None else None

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self) | {"cpu_per_million": self.cpu_per_million, "bytes_per_record": self.bytes_per_record}


@dataclass(frozen=True)
class Available:
    """What is installed: our version, and why a workload's flavour cannot run."""

    version: str | None
    missing: Mapping[str, str]

    def why_not(self, workload: str, engine: str) -> str | None:
        """The reason as text; `None` if it can run."""
        return self.missing.get(f"{workload}/{engine}")


def prepare(engines: Collection[str], python: str) -> Available:
    """Find out, before anything is measured, what can run; install the engines to compare with."""
    missing = _missing_peers([PEERS[name] for name in engines if name in PEERS])
    if KSTREAMS in engines:
        find_java()
        kstreams_build.class_path()
    if not set(engines) & set(FLAVOURS):
        return Available(None, missing)
    asked = subprocess.run(
        [python, str(_HERE / "stoatflow_run.py"), "--missing"], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        last = (asked.stderr.strip().splitlines() or ["no message"])[-1]
        raise EngineError(
            f"StoatFlow cannot be imported by {python}: {last}. Build it into this environment (`pip install .`), "
            "name another interpreter with --python, or measure without it (--engines kstreams,bare)."
        )
    output = json.loads(asked.stdout)
    return Available(output["version"], output["missing"] | missing)


def _missing_peers(asked: Sequence[peers.Peer]) -> dict[str, str]:
    missing: dict[str, str] = {}
    for peer in asked:
        reasons = {workload: peer.why_not(workload) for workload in WORKLOADS}
        try:
            peer.install()
        except peers.PeerError as error:
            reasons = dict.fromkeys(WORKLOADS, str(error))
        missing |= {f"{workload}/{peer.name}": why for workload, why in reasons.items() if why}
    return missing


def command(job: Job, at: Conditions, state: str, *, follow: bool = False) -> list[str]:
    """The command that starts the engine: to process existing input, or to `follow` input while it is being written."""
    application = job.application
    inputs, outputs = ",".join(job.inputs), ",".join(job.outputs)
    if job.engine == KSTREAMS:
        return [
            str(find_java()), "-Xmx1g",
            *(f"-Dclient.{key}={value}" for key, value in at.client), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", kstreams_build.class_path(), kstreams_build.FOLLOW_CLASS if follow else kstreams_build.MAIN_CLASS,
            job.workload, at.address, application, inputs, outputs, str(at.commit_interval_ms),
            str(at.cache_bytes), at.guarantee, str(at.threads), state,
        ]  # fmt: skip
    shared = [
        "--bootstrap", at.address, "--application-id", application, "--inputs", inputs, "--outputs", outputs,
        "--commit-interval-ms", str(at.commit_interval_ms), "--guarantee", at.guarantee,
    ]  # fmt: skip
    if job.engine in LOOPS:
        return [
            sys.executable, str(_HERE / "confluent_loops.py"), "--loop", job.engine, "--workload", job.workload,
            *shared,
        ]  # fmt: skip
    if job.engine in PEERS:
        peer = PEERS[job.engine]
        return [str(peer.interpreter), str(peer.program), "--workload", job.workload, "--state-dir", state, *shared]
    return [
        at.python, str(_HERE / "stoatflow_run.py"), "--workload", job.workload, "--flavour", job.engine,
        "--cache-bytes", str(at.cache_bytes), "--state-dir", state,
        "--records", str(job.consumed), *shared,
        *(f"--set={key}={value}" for key, value in at.client),
        *(f"--set={setting}" for setting in at.settings), *(["--follow"] if follow else []),
    ]  # fmt: skip


def run_engine(job: Job, repeat: int, at: Conditions) -> Run:
    """Run it until it has consumed the input and ended by itself."""
    with tempfile.TemporaryDirectory(prefix="stoatflow-versus-") as folder:
        begun = command(job, at, str(Path(folder) / "state"))
        began = time.monotonic()
        broker_before, machine_before = process_cpu(at.broker_pid), machine_cpu()
        output, status, cpu, tree = _run_measured(begun, Path(folder), at.timeout_s)
        broker = process_cpu(at.broker_pid) - broker_before
        wall = time.monotonic() - began
        other = machine_cpu() - machine_before - broker - cpu
        if status != 0:
            raise EngineError(
                f"{job.workload}, {job.engine} ended with {status}. Its last words:\n{_tail(Path(folder) / 'stderr')}"
            )
        try:
            result = json.loads(output.strip().splitlines()[-1])
        except (IndexError, json.JSONDecodeError) as error:
            raise EngineError(f"{job.engine} printed no line of JSON but {output[-500:]!r}") from error
    if result["records"] != job.consumed:
        raise EngineError(
            f"{job.workload}, {job.engine} says it had {result['records']} input records; there are {job.consumed}."
        )
    return Run(
        workload=job.workload,
        engine=job.engine,
        repeat=repeat,
        records=job.records,
        seconds=result["seconds"],
        wall_seconds=round(wall, 3),
        cpu_seconds=result["cpu_seconds"],
        process_cpu_seconds=round(cpu, 3),
        peak_rss_kb=max(result["peak_rss_kb"], tree.peak_rss_kb if tree.processes > 1 else 0),
        broker_cpu_seconds=round(broker, 2),
        other_cpu_seconds=round(max(other, 0.0), 2),
        guarantee=result.get("guarantee", at.guarantee),
        processes=tree.processes,
        steady_rss_kb=steady_rss_kb(tree.samples, result["started"], result["seconds"]),
    )


def _run_measured(command: list[str], folder: Path, timeout: float) -> tuple[str, int, float, ProcessTree]:
    """Return standard output, exit code, the system's CPU seconds of the process, and its process tree."""
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    deadline = time.monotonic() + timeout
    pid, tree = 0, ProcessTree(process.pid)
    try:
        while not pid and time.monotonic() < deadline:
            tree.look()
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            time.sleep(0 if pid else 0.05)
    finally:
        if not pid:  # timed out, or interrupted
            process.kill()
            process.wait()
    if not pid:
        raise EngineError(
            f"not finished after {timeout:.0f} s (--timeout); its last words:\n{_tail(folder / 'stderr')}"
        )
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 has reaped it: Popen must not wait again
    cpu = usage.ru_utime + usage.ru_stime
    return (folder / "stdout").read_text(), process.returncode, cpu, tree


def _tail(file: Path, lines: int = 20) -> str:
    return "\n".join(f"    {line[:300]}" for line in file.read_text(errors="replace").splitlines()[-lines:])
