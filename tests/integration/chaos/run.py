"""Run the application, kill it at seeded moments, let it finish, and say what is wrong: nothing, one hopes.

`python tests/integration/chaos/run.py --seed 7 --kills 20` starts a broker of its own and repeats what a test with that
seed does. The moments are drawn from the seed; the machine decides what they meet.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

if __package__ in {None, ""}:  # run as a script: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.kafka_broker import KafkaBroker
from processes import Process
from topics import KafkaTopics

from chaos.application import INPUTS, OUTPUTS
from chaos.checks import Found, at_least, describe, exact
from chaos.inputs import Inputs, write

PATIENCE_S = 60.0
CLOSING_KILLS = 2
MOST_ROUNDS = 40
# Small enough that a run has many commits, so that most kills hit one.
SLOW = {"STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB", "STOATFLOW_COMMIT_MIN_INTERVAL_MS": "1"}


class Chaos:
    """One application on one broker."""

    def __init__(self, kafka: KafkaTopics, name: str, state: Path, seed: int, guarantee: str) -> None:
        self.inputs = Inputs(seed)
        self.met: Counter[str] = Counter()
        self.kafka, self.name = kafka, name
        self.seed, self.guarantee = seed, guarantee
        self._rng, self._state = random.Random(seed), state
        for topic, partitions in INPUTS.items():
            kafka.create(f"{name}-{topic}", partitions, {"retention.ms": "-1"})
        for topic in OUTPUTS:
            kafka.create(f"{name}-{topic}", 3, {"retention.ms": "-1"})

    def run(self, kills: int) -> None:
        """Rounds with a kill each; then everything to its end, closing records with kills, and the end again."""
        closing = min(CLOSING_KILLS, kills // 2)
        # Beyond so many rounds the closing records could not close everything.
        every = 1 + kills // MOST_ROUNDS
        for number in range(kills - closing):
            if number % every == 0:
                self._write_round()
            self._kill()
        self._write_round()
        self.finish()
        # Only now: what is in order within its partition must not become late.
        write(self.kafka.address, self.name, self.inputs.closing())
        for _ in range(closing):
            self._kill()
        self.finish()
        write(self.kafka.address, self.name, self.inputs.afterwards())
        self.finish()

    def finish(self) -> None:
        """Run it undisturbed until nothing lags."""
        with self._process() as child:
            assert child.wait(PATIENCE_S) == 0, child.told()

    def wipe(self) -> None:
        """Lose the local state."""
        shutil.rmtree(self._state, ignore_errors=True)

    def _write_round(self) -> None:
        write(self.kafka.address, self.name, self.inputs.round())

    def _process(self, *more: str, slow: bool = False) -> Process:
        lanes = self._rng.choice([4, 4, 4, 1, 16, 3])
        application = Path(__file__).with_name("application.py")
        given = [application, self.kafka.address, self.name, self._state, lanes, self.guarantee, *more]
        return Process(given, SLOW if slow else {})

    def _kill(self) -> None:
        rng = self._rng
        if rng.random() < 0.4:
            self.wipe()
        moment = rng.choices(["starting", "restoring", "working", "stopping"], [1, 2, 6, 2])[0]
        pause = rng.random()
        with self._process("--follow", slow=True) as child:
            if moment == "starting":
                time.sleep(0.2 + pause)
            else:
                goal = {"RESTORING", "RUNNING"} if moment == "restoring" else {"RUNNING"}
                child.until(lambda: self._told(child).get("state") in goal, f"it is {moment}", PATIENCE_S)
                time.sleep(pause * (0.1 if moment == "restoring" else 0.8))
            if moment == "stopping":
                child.signal(signal.SIGTERM)
                time.sleep(pause * 0.2)
            last = self._told(child)
            child.signal(signal.SIGKILL)
            assert child.wait() in {0, -signal.SIGKILL}, child.told()
        self.met[f"{moment}: {last.get('state', 'not yet told')}, {'work left' if last.get('lag') else 'no work'}"] += 1

    @staticmethod
    def _told(child: Process) -> dict[str, object]:
        lines = [line for line in child.lines if line.startswith("{") and line.endswith("}")]
        return dict(json.loads(lines[-1])) if lines else {}


def main() -> int:
    """One run, on a broker of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--guarantee", default="exactly_once_v2")
    given = parser.parse_args()
    with KafkaBroker() as broker, tempfile.TemporaryDirectory(prefix="stoatflow-chaos-") as state:
        kafka = KafkaTopics(broker.bootstrap)
        chaos = Chaos(kafka, f"chaos-{given.seed}", Path(state) / "state", given.seed, given.guarantee)
        chaos.run(given.kills)
        wrong = (exact if given.guarantee == "exactly_once_v2" else at_least)(Found(kafka, chaos.name), chaos.inputs)
    sys.stdout.write(f"seed {given.seed}, {len(chaos.inputs.rows)} records, kills: {dict(chaos.met)}\n")
    sys.stdout.write(f"wrong: {describe(wrong)}\n" if wrong else "all right\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
