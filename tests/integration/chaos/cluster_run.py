"""Word counts on three secured brokers, through one fault after another: nothing missing, duplicated or wrong.

`python tests/integration/chaos/cluster_run.py --seed 7 --faults 50 --spark` starts its own brokers and four
applications that run side by side: exactly-once through SASL_SSL with SCRAM, by both clients, and through mTLS, and
at-least-once with tokens of three seconds. The seed determines the faults and their order; their timing, and which node
leads or coordinates then, depend on the machine. Lines are written all the time.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

if __package__ in {None, ""}:  # run as a script: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.listeners import DENIED
from broker.partitioned_cluster import PartitionedCluster
from broker.token_server import SHORT
from counting import until
from topics import KafkaTopics

from chaos.cluster_checks import EXACTLY, check_results
from chaos.cluster_faults import (
    OF_BROKERS,
    ONE_OUT,
    PATIENCE_S,
    Fault,
    Faults,
    Healing,
    nothing,
    permit,
    schedule,
)
from chaos.feeding import Feeder
from chaos.harness import KAFKA
from chaos.supervised import Counted, Supervisor, clock

PARTITIONS = 3
RATE = 30.0
"""Lines per second to each application, of five words each."""
SLOW_S = 20.0
"""Recoveries that take longer than this are reported."""
STANDSTILL_S = 180.0
"""An application that commits nothing for this long after healing counts as stalled; longer than any timeout."""


def settings(cluster: PartitionedCluster) -> dict[str, dict[str, object]]:
    """The applications by name, and how each connects to the brokers."""
    token = {"sasl.oauthbearer.token.endpoint.url": cluster.tokens.endpoint(SHORT)}
    return {
        "scram": {**cluster.client("SASL_SSL_SCRAM", DENIED), "processing.guarantee": EXACTLY},
        "mtls": {**cluster.client("MTLS", DENIED), "processing.guarantee": EXACTLY},
        "librdkafka": {
            **cluster.client("SASL_SSL_SCRAM", DENIED),
            "processing.guarantee": EXACTLY,
            "kafka.client": "librdkafka",
            "producer.linger.ms": 1,
            "consumer.fetch.wait.max.ms": 50,
        },
        "tokens": {
            **cluster.client("SASL_SSL_OAUTHBEARER", DENIED),
            **token,
            "processing.guarantee": "at_least_once",
        },
    }


class ClusterChaos:
    """Runs the applications through this many faults; `say` gets a line for each."""

    def __init__(
        self, cluster: PartitionedCluster, folder: Path, seed: int, faults: int, say: Callable[[str], None]
    ) -> None:
        self.seed, self.faults = seed, schedule(seed, faults)
        self.done: list[str] = []
        """Each fault, with its time and duration."""
        self.violations: list[str] = []
        self.kafka = KafkaTopics(cluster.bootstrap(), replicas=3)
        self._cluster, self._say, self._rng = cluster, say, random.Random(seed)
        self.applications = [Counted(f"words-{name}", of, folder / name) for name, of in settings(cluster).items()]
        self._doing = Faults(cluster, self.applications, self._rng)
        sources = [application.source for application in self.applications]
        self._feeder = Feeder(cluster.bootstrap(), sources, PARTITIONS, RATE, seed)
        self.slowest = (0.0, "")
        """The longest time from healing to the first commit, and of which application."""
        self._open: list[Healing] = []
        self._began = time.monotonic()

    def run(self) -> None:
        """Cause all faults, then run until everything is consumed."""
        for application in self.applications:
            for topic in (application.source, application.sink):
                self._cluster.create_topic(topic, PARTITIONS)
            permit(self._cluster, application)
        try:
            with Supervisor(self.applications) as self._supervisor:
                self._work()
        finally:
            for application in self.applications:
                self.violations += application.violations

    def _work(self) -> None:
        for application in self.applications:
            until(lambda of=application: of.works(), f"{application.name} runs", PATIENCE_S)  # type: ignore[misc]
        with self._feeder:
            self._settle()
            for number, fault in enumerate(self.faults):
                self._suffer(fault, f"{number + 1}/{len(self.faults)}")
            self._heal(0)
            self._settle()
            self._feeder.stop()
        self._until_consumed()
        self._supervisor.leave_alone()
        for application in self.applications:
            application.stop()

    def check_results(self) -> tuple[list[str], str]:
        """What is wrong, and figures."""
        wrong, text = check_results(self.kafka, self.applications, self._feeder.written)
        not_taken = [f"the cluster did not take what was written: {what}" for what in self._feeder.failed[:5]]
        return [*self.violations, *not_taken, *wrong], text

    # -- faults

    def _suffer(self, fault: Fault, number: str) -> None:
        out = self._doing.out
        if fault.kind in OF_BROKERS and out and (fault.kind not in ONE_OUT or len(out) > 1):
            self._heal(0)
        if fault.kind in OF_BROKERS and not out:
            self._doing.until_in_sync()
        began, beside = time.monotonic(), len(self._open)
        done = self._doing.begin(fault.kind)
        self._open.append(done)
        time.sleep(fault.hold_s / 2)
        killed = self._kill() if fault.kills else ""
        time.sleep(fault.hold_s / 2)
        took = time.monotonic() - began
        line = f"{began - self._began:7.1f} s {number:>6}  {fault.kind.value}: {done.what}, for {took:.1f} s"
        # The quorum is missing for no longer than the fault.
        stays = fault.overlaps and len(out) < 2 and done.heal is not nothing
        line += ", beside the one before" * bool(beside) + ", healed after the next" * stays + killed
        self.done.append(line)
        self._say(line)
        self._heal(1 if stays else 0)
        if not self._open:
            self._settle()

    def _kill(self) -> str:
        application, wipe = self._rng.choice(self.applications), self._rng.random() < 0.25
        application.kill(wipe=wipe)
        return f"; {application.name} killed{', its local state deleted' if wipe else ''}"

    def _heal(self, left: int) -> None:
        """Heal the oldest faults first, until this many are left."""
        while len(self._open) > left:
            self._doing.heal(self._open.pop(0))

    # -- recovery

    def _settle(self) -> None:
        """After healing, each application must make progress."""
        began = time.monotonic()
        waiting = {application: application.progress() for application in self.applications}
        while waiting:
            for application in [of for of, before in waiting.items() if of.has_moved(before)]:
                application.excused.clear()
                del waiting[application]
                self.slowest = max(self.slowest, (time.monotonic() - began, application.name))
                if time.monotonic() - began > SLOW_S:
                    self._say(f"{application.name} went on after {time.monotonic() - began:.0f} s")
            if time.monotonic() - began > STANDSTILL_S:
                for application in waiting:
                    self._stands_still(application, "after all was healed")
                return
            time.sleep(0.1)

    def _until_consumed(self) -> None:
        for application in self.applications:
            name, source, began = application.name, application.source, time.monotonic()
            while self.kafka.committed(name, source) != self.kafka.ends(source):
                if time.monotonic() - began > STANDSTILL_S:
                    self._stands_still(application, "before all of its input was committed")
                    break
                time.sleep(0.5)

    def _stands_still(self, application: Counted, when: str) -> None:
        """Record a violation; the next life continues."""
        self.violations.append(f"{clock()} {application.name} stood still {when}: {application.stands_at()}")
        self._say(f"VIOLATION: {self.violations[-1]}")
        application.kill(wipe=False)


READERS = {"scram": "SASL_SSL_SCRAM", "mtls": "MTLS", "librdkafka": "SASL_SSL_SCRAM", "tokens": "SASL_SSL_PLAIN"}
"""The listener through which PySpark reads the topics of each application. Its clients fetch no tokens of tests."""


def reconcile(cluster: PartitionedCluster, applications: list[Counted]) -> tuple[list[str], str]:
    """PySpark's verdict."""
    from chaos.cluster_spark import reconcile as reconciled  # Spark is not needed for a short run

    return reconciled(applications, {f"words-{name}": cluster.client(listener) for name, listener in READERS.items()})


def report(chaos: ClusterChaos) -> str:
    """The faults, and their results."""
    kinds = Counter(fault.kind.value for fault in chaos.faults[: len(chaos.done)])
    lines = [
        f"seed {chaos.seed}: {len(chaos.done)} of {len(chaos.faults)} faults",
        *chaos.done,
        *(f"  {count:>3}  {kind}" for kind, count in sorted(kinds.items())),
    ]
    for of in chaos.applications:
        ended = ", ".join(f"{count} by {error}" for error, count in sorted(of.ended.items())) or "none"
        lines.append(
            f"{of.name}, {of.guarantee}: {of.lives} lives, {of.kills} kills, {of.restarts} restarts within a process, "
            f"ended by itself: {ended}"
        )
    lines.append("after all was healed, the last one committed within {:.0f} s at most ({})".format(*chaos.slowest))
    return "\n".join(lines) + "\n"


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="a random one if it is not given; it is printed")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--spark", action="store_true", help="PySpark reconciles too")
    parser.add_argument("--keep", type=Path, help="a new folder, for what the applications say, and their state")
    given = parser.parse_args()
    if given.keep is not None and given.keep.exists():
        parser.error(f"{given.keep} is there already: the state in it is that of another run")
    seed = given.seed if given.seed is not None else random.randrange(1_000_000)
    # Whoever ends this run also ends its brokers and applications, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def say(line: str) -> None:
        sys.stderr.write(f"{clock()} {line}\n")

    say(f"seed {seed}")
    began = time.monotonic()
    with (
        PartitionedCluster(version=KAFKA) as cluster,
        tempfile.TemporaryDirectory(prefix="stoatflow-cluster-chaos-") as folder,
    ):
        chaos = ClusterChaos(cluster, given.keep or Path(folder), seed, given.faults, say)
        try:
            chaos.run()
        except BaseException:
            sys.stdout.writelines(f"WRONG: {what}\n" for what in chaos.violations)
            raise
        finally:
            sys.stdout.write(report(chaos))
            sys.stdout.flush()
        lived = time.monotonic()
        wrong, text = chaos.check_results()
        if given.spark:
            also_wrong, more = reconcile(cluster, chaos.applications)
            wrong, text = wrong + also_wrong, text + more
    sys.stdout.write(text)
    sys.stdout.writelines(f"WRONG: {what}\n" for what in wrong)
    sys.stdout.write(f"{lived - began:.0f} s of faults, {time.monotonic() - lived:.0f} s to compare\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
