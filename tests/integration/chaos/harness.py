"""An application with its input, and everything that can happen to it, one life after another.

Takes a broker and a seed; owns the inputs, one process at a time (two while a second instance is started), and the
state directory. After each fault the application must make progress, or end by itself, not by a signal, with an
error that has a name and says what to do; then it is started again, as a supervisor would. Never checks the output.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from broker.noise import Noise
from processes import Process
from topics import KafkaTopics

from chaos import disk
from chaos.application import INPUTS, OUTPUTS
from chaos.faults import Fault, Kind, schedule
from chaos.inputs import MOST_ROUNDS, PER_ROUND, Inputs, write

PATIENCE_S = 90.0
CLOSING_KILLS = 2
TRANSACTION_TIMEOUT_S = 6.0
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500", "controlled.shutdown.enable": "false"}
"""By default it checks for expired transactions every ten seconds, and a single node can't hand over to others."""
# Small enough for many commits in a run, so that most kills hit one.
SLOW = {
    "STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB",
    "STOATFLOW_COMMIT_MIN_INTERVAL_MS": "1",
    "STOATFLOW_TRANSACTION_TIMEOUT_MS": str(int(TRANSACTION_TIMEOUT_S * 1000)),
    "STOATFLOW_COMMIT_TIMEOUT_MS": "30000",
}
NATIVE, LIBRDKAFKA = "native", "librdkafka"
KAFKA = "4.1.1"
"""The version of brokers that are killed, whatever the other tests use.

Kafka 4.4.0 (and by its code 4.3.0) drops the end of a timed-out transaction for partitions that have no leader at that
moment (docs/explain/exactly-once.md). The next start of the application writes what is lost; the checks come before it.
"""
WIRE_S = 3.0
"""How long requests are damaged in one life."""
ATTEMPTS = 5
"""Attempts at a fault whose life was ended early by damaged requests."""
SENTENCE = re.compile(r"^(?:stoatflow\.)?(?:errors\.)?(\w+Error): .{20,}", re.MULTILINE)


class EndedEarlyError(Exception):
    """Damaged requests ended the application, with an error message, before its fault happened."""


class Stoppable(Protocol):
    """What the harness does to a broker."""

    def start(self) -> object:
        """Start the broker on its existing data."""

    def stop(self) -> None:
        """Stop the broker cleanly."""

    def kill(self) -> None:
        """Kill the broker."""

    def send(self, number: signal.Signals) -> None:
        """Send the broker a signal."""


class Chaos:
    """One application on one broker; `broker` is needed for faults of the broker itself.

    `client` has the properties with which the application connects; by default those of the harness. With `noise`
    the application connects through a proxy that damages a few requests all the time. `clients` are the Kafka
    clients it may use; each life draws one.
    """

    def __init__(
        self,
        kafka: KafkaTopics,
        name: str,
        state: Path,
        seed: int,
        guarantee: str,
        *,
        kills: int = 0,
        records: int = 0,
        rounds: int = 0,
        others: bool = False,
        broker: Stoppable | None = None,
        noise: Noise | None = None,
        clients: Sequence[str] = (NATIVE,),
        keep: bool = True,
        say: bool = False,
        client: Mapping[str, str] | None = None,
    ) -> None:
        self.faults = schedule(seed, kills, others=others, broker=broker is not None, wire=noise is not None)
        self.noise, self._clients = noise, clients
        self.clients: Counter[str] = Counter()
        """Number of lives by client."""
        self._last_client = NATIVE
        # One round each, unless there are more than event time has room for.
        self._every = 1 + len(self.faults) // MOST_ROUNDS
        rounds = rounds or 1 + (len(self.faults) + self._every - 1) // self._every
        self.inputs = Inputs(seed, size=max(1.0, records / rounds / PER_ROUND), rounds=rounds, keep=keep)
        self.met: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self.violations: list[str] = []
        """Ends without an error message, and stalls: each fails the run."""
        self.kills = 0
        self.kafka, self.name, self.broker = kafka, name, broker
        self.seed, self.guarantee = seed, guarantee
        self._rng, self._state, self._say = random.Random(seed), state, say
        # The application's address, if it differs from the harness's: the application reads its settings
        # from the environment.
        self._address = kafka.address if client is None else client["bootstrap.servers"]
        self._client = {
            f"STOATFLOW_{key.replace('.', '_').upper()}": value
            for key, value in (client or {}).items()
            if key != "bootstrap.servers"
        }
        # In a long run restores take long, so the disk is lost less often.
        self._wipes = 0.4 if kills <= 40 else 0.15
        for topic, partitions in INPUTS.items() | OUTPUTS.items():
            kafka.create(f"{name}-{topic}", partitions, {"retention.ms": "-1"})

    # -- the run

    def run(self) -> None:
        """Rounds with a fault each; then finish all input, write closing records with kills, and finish again."""
        for number, fault in enumerate(self.faults):
            if number % self._every == 0:
                self.feed()
            began = time.monotonic()
            try:
                self._suffer_through_noise(fault)
            except AssertionError as broken:  # the run continues: later findings are useful too
                self.violations.append(f"{fault.kind.value} {fault.where}: {broken}")
                self._tell(f"VIOLATION: {self.violations[-1]}", began)
            self._tell(f"{number + 1}/{len(self.faults)} {fault.kind.value} {fault.where}", began)
        self.close()

    def close(self) -> None:
        """The rest of the input, the closing records, and records that can only be written once everything is known."""
        self.feed()
        self.finish()
        # Only now, so that records in order within their partition don't become late.
        write(self.kafka.address, self.name, self.inputs.closing())
        for _ in range(min(CLOSING_KILLS, self.kills // 2)):
            self._kill("working")
        self.finish()
        write(self.kafka.address, self.name, self.inputs.afterwards())
        self.finish()

    def feed(self) -> None:
        """Write one more round."""
        write(self.kafka.address, self.name, self.inputs.round())

    def finish(self) -> None:
        """Run undisturbed until there is no lag."""
        began = time.monotonic()
        with self.process(environ={}) as child:
            self._progress(child, lambda: child.code is not None, "it finishes")
            assert child.wait() == 0, child.reported()
        self._tell("finished", began)

    def wipe(self) -> None:
        """Delete the local state."""
        shutil.rmtree(self._state, ignore_errors=True)

    def _suffer_through_noise(self, fault: Fault) -> None:
        """Repeat a fault as long as damaged requests end the life before it happens."""
        for _ in range(ATTEMPTS):
            try:
                self.suffer(fault)
            except EndedEarlyError:
                continue
            return
        raise AssertionError(f"damaged requests ended {ATTEMPTS} lives in turn before their fault came")

    def suffer(self, fault: Fault) -> None:
        """One life with this fault."""
        kind = fault.kind
        if kind is Kind.KILL:
            self._maybe_wipe()
            self._kill(fault.where)
        elif kind in {Kind.KILL_AT, Kind.ERROR_AT}:
            self._at(fault)
        elif kind is Kind.FREEZE:
            self._freeze(fault.where)
        elif kind is Kind.DISK_FULL:
            self._disk_full()
        elif kind is Kind.CORRUPTED:
            self._corrupted()
        elif kind is Kind.SECOND:
            self._second()
        elif kind is Kind.PARTITIONS:
            self._partitions()
        elif kind is Kind.WIRE:
            self._wire(fault.where)
        else:
            self._broker(kind)

    # -- faults

    def _kill(self, moment: str) -> None:
        pause = self._rng.random()
        with self.process("--follow") as child:
            if moment == "starting":
                time.sleep(0.2 + pause)
            else:
                goal = {"RESTORING", "RUNNING"} if moment == "restoring" else {"RUNNING"}
                self._until(child, lambda: reported(child).get("state") in goal, f"it is {moment}")
                time.sleep(pause * (0.1 if moment == "restoring" else 0.8))
            if moment == "stopping":
                child.signal(signal.SIGTERM)
                time.sleep(pause * 0.2)
            last = reported(child)
            child.signal(signal.SIGKILL)
            if child.wait() not in {0, -signal.SIGKILL}:
                self._ended_early(child)
        self.kills += 1
        work = "work left" if last.get("lag") else "no work"
        self.met[f"killed while {moment}: {last.get('state', 'not yet told')}, {work}"] += 1

    def _at(self, fault: Fault) -> None:
        """A kill or an error at a named place; repeated if a life ends without reaching it."""
        if fault.where == "restore.batch":
            self.wipe()
        else:
            self._maybe_wipe()
        word = "kill" if fault.kind is Kind.KILL_AT else "error"
        if fault.where == "commit.during-apply" and word == "kill":
            word = f"kill:{self._rng.randrange(1, 1500)}"
        most = {"start.fenced": 1, "restore.batch": 8, "shutdown.barrier": 1}.get(fault.where, 5)
        nth = self._rng.randint(1, most)
        for _ in range(8):
            armed = f"{fault.where}={word}@{nth}"
            with self.process("--follow", failpoints=armed) as child:
                ended = self._meet(child, stop=fault.where == "shutdown.barrier")
                if ended and child.code == -signal.SIGKILL:
                    self.kills += 1
                elif ended and child.code != 0:
                    if word != "error":
                        self._ended_early(child)
                    self._sentence(child, fault.kind.value)
                elif not ended and word == "error" and restarts(child):
                    self.met[f"{fault.kind.value}: began anew"] += 1
                    child.signal(signal.SIGKILL)
                    child.wait()
                else:
                    child.signal(signal.SIGKILL)
                    child.wait()
                    # The remaining work may be too little to reach the n-th time.
                    nth = max(1, nth - 1)
                    self.feed_a_little()
                    continue
            self.places[fault.where] += 1
            self.met[fault.kind.value] += 1
            return
        raise AssertionError(f"{armed} was not met in 8 lives")

    def _meet(self, child: Process, *, stop: bool) -> bool:
        """Wait until it ends by itself, or has nothing left to do."""
        if stop:
            self._until_running(child)
            time.sleep(self._rng.random() * 0.4)
            # It may have caught up, and then there would be no barrier. The first record after a silence is
            # committed immediately, the next ones wait for that commit.
            self.feed_a_little()
            self.feed_a_little()
            time.sleep(self._rng.random() * 0.01)
            child.signal(signal.SIGTERM)
        idle = {"state": "RUNNING", "lag": 0}

        def is_over() -> bool:
            last = reported(child)
            return child.code is not None or (not stop and {k: last.get(k) for k in idle} == idle)

        self._progress(child, is_over, "it comes to its failpoint")
        if child.code is not None:
            child.wait()
        return child.code is not None

    def _freeze(self, place: str) -> None:
        armed = f"{place}=stop@{self._rng.randint(1, 5)}"
        with self.process("--follow", failpoints=armed) as child:
            self._until(child, lambda: child.is_stopped, f"it stops at {place}")
            self.places[place] += 1
            time.sleep(TRANSACTION_TIMEOUT_S + 1.5 + self._rng.random())
            child.signal(signal.SIGCONT)
            self._outcome(child, f"{Kind.FREEZE.value}")

    def _broker(self, kind: Kind) -> None:
        assert self.broker is not None
        pause = self._rng.random()
        with self.process("--follow") as child:
            self._until_running(child)
            time.sleep(pause * 0.5)
            if kind is Kind.BROKER_PAUSED:
                self.broker.send(signal.SIGSTOP)
                time.sleep(TRANSACTION_TIMEOUT_S + 1.0 + 2 * pause)
                self.broker.send(signal.SIGCONT)
            else:
                (self.broker.stop if kind is Kind.BROKER_STOPPED else self.broker.kill)()
                time.sleep(pause * 2)
                self.broker.start()
            self._outcome(child, kind.value)

    def _disk_full(self) -> None:
        how, under = disk.small(self._state, self._rng.randrange(3, 12) << 17)
        with self.process("--follow", under=under) as child:
            for _ in range(6):
                self._meet(child, stop=False)
                if child.code is not None:
                    break
                self.feed_a_little()
            self._outcome(child, f"{Kind.DISK_FULL.value} ({how})")

    def _corrupted(self) -> None:
        kind = disk.corrupt(self._state, self._rng)
        if kind is None:
            with self.process("--follow") as child:
                self._meet(child, stop=False)
            kind = disk.corrupt(self._state, self._rng)
        with self.process("--follow") as child:
            self._outcome(child, f"{Kind.CORRUPTED.value} ({kind})")
            refused = child.code is not None
        # State that is reported as damaged is deleted, as the message asks; so is, sometimes, damage that
        # was not read yet.
        if refused or self._rng.random() < 0.5:
            self.wipe()

    def _second(self) -> None:
        same = self._rng.random() < 0.5
        other = self._state if same else self._state.with_name("other")
        where = "the same directory" if same else "another directory"
        with self.process("--follow") as first:
            self._until_running(first)
            time.sleep(self._rng.random())
            with self.process("--follow", state=other) as second:
                first.until(lambda: first.code is not None, "the first is fenced", PATIENCE_S)
                assert first.wait() > 0, first.reported()
                if "FencedError: " not in first.errors:
                    self._ended_early(first)
                self._outcome(second, f"{Kind.SECOND.value} ({where}), the first is fenced")
        shutil.rmtree(self._state.with_name("other"), ignore_errors=True)

    def _partitions(self) -> None:
        with self.process("--follow") as child:
            self._until_running(child)
            self.kafka.grow(f"{self.name}-lines", INPUTS["lines"] + 2)
            self._outcome(child, Kind.PARTITIONS.value)

    def _wire(self, action: str) -> None:
        assert self.noise is not None
        with self.process("--follow") as child:
            self._until_running(child)
            self.noise.heavy(action)
            began = time.monotonic()
            while child.code is None and time.monotonic() - began < WIRE_S:
                self.feed_a_little()
                time.sleep(0.1)
            if self._last_client == LIBRDKAFKA:
                # If one request in twenty is cut off, it may not finish a transaction before the broker
                # aborts it.
                self.noise.light()
            self._outcome(child, f"{Kind.WIRE.value} ({action})")

    # -- outcomes

    def _until(self, child: Process, what: Callable[[], bool], why: str) -> None:
        """Wait for a condition in a life that damaged requests may end earlier."""
        child.until(lambda: what() or child.code is not None, why, PATIENCE_S)
        if not what():
            child.wait()
            self._ended_early(child)

    def _until_running(self, child: Process) -> None:
        self._until(child, lambda: reported(child).get("state") == "RUNNING", "it runs")

    def _ended_early(self, child: Process) -> None:
        """Only damaged requests may end it early, and only with an error message."""
        assert self.noise is not None, f"it ended with {child.code}. {child.reported()}"
        self._sentence(child, "damaged requests, a few")
        raise EndedEarlyError

    def _outcome(self, child: Process, what: str) -> None:
        """It makes progress (and is then killed), or it has ended with an error message."""
        self.feed_a_little()
        before = reported(child).get("committed")
        child.until(
            lambda: child.code is not None or self._has_moved(child, before), f"{what}: it goes on or ends", PATIENCE_S
        )
        if child.code is None:
            self.met[f"{what}: went on"] += 1
            child.signal(signal.SIGKILL)
            child.wait()
        else:
            child.wait()
            self._sentence(child, what)

    @staticmethod
    def _has_moved(child: Process, before: object) -> bool:
        last = reported(child)
        return last.get("state") == "RUNNING" and last.get("committed") not in {None, 0, before}

    def _sentence(self, child: Process, what: str) -> None:
        assert child.code is not None
        assert child.code > 0, f"it ended with {child.code}, not by an error. {child.reported()}"
        found = SENTENCE.findall(child.errors)
        assert found, f"it ended with {child.code} and no sentence. {child.reported()}"
        if found[-1] == "InternalError":
            self.violations.append(f"{what}: {child.reported()}")
        self.met[f"{what}: ended, {found[-1]}"] += 1
        if found[-1] == "StateCorruptError":
            self.wipe()

    def _progress(self, child: Process, done: Callable[[], bool], why: str) -> None:
        """Wait as long as it makes progress."""
        seen, since = reported(child), time.monotonic()
        while not done():
            if (now := reported(child)) != seen:
                seen, since = now, time.monotonic()
            assert time.monotonic() - since < PATIENCE_S, f"{why}: it stands at {seen}. {child.reported()}"
            time.sleep(0.005)

    def feed_a_little(self) -> None:
        """A little work within the existing input: only lines, which have no order to keep."""
        write(self.kafka.address, self.name, self.inputs.lines(200))

    def _maybe_wipe(self) -> None:
        if self._rng.random() < self._wipes:
            self.wipe()
            self.met["local state deleted"] += 1

    def process(
        self,
        *more: str,
        environ: dict[str, str] | None = None,
        failpoints: str = "",
        under: list[object] | None = None,
        state: Path | None = None,
    ) -> Process:
        """Start the application, with another number of lanes each time."""
        lanes = self._rng.choice([4, 4, 4, 1, 16, 3])
        application = Path(__file__).with_name("application.py")
        client = self._rng.choice(self._clients)
        self.clients[client] += 1
        self._last_client = client
        address = self._address
        if self.noise is not None:
            address = self.noise.address
            # If an environment is given, the life must end undisturbed.
            (self.noise.light if environ is None else self.noise.off)()
        given = [application, address, self.name, state or self._state, lanes, self.guarantee]
        given += ["--client", client, *more]
        variables = (SLOW if environ is None else environ) | (
            {"STOATFLOW_FAILPOINTS": failpoints} if failpoints else {}
        )
        return Process(given, self._client | variables, under=under or ())

    def _tell(self, what: str, began: float) -> None:
        if self._say:
            seconds = time.monotonic() - began
            sys.stderr.write(f"[{self.inputs.count:,} records, {self.kills} kills] {what}: {seconds:.1f} s\n")


def restarts(child: Process) -> int:
    """The number of restarts within the process."""
    return int(str(reported(child).get("restarts") or 0))


def reported(child: Process) -> dict[str, object]:
    """The last status that it printed."""
    line = child.last
    return dict(json.loads(line)) if line.startswith("{") and line.endswith("}") else {}
