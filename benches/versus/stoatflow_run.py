"""Runs one StoatFlow program over a filled input: one process, one topology.

Takes the same settings as the Kafka Streams side. Writes the output topics, and prints one line of JSON; with
`--missing` one about what cannot run here and why. Measures only this process, and sets nothing that a user would not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import own_figures
from stoatflow_programs import PROGRAMS, Topics, topology, why_not

import stoatflow as sf

POLL_S = 0.2
# A lag of zero means nothing before the engine has read the end offsets; after this time it does.
ENDS_KNOWN_S = 10.0


def application(options: argparse.Namespace) -> sf.StoatFlow:
    """The program with the settings of all engines."""
    config = {
        "bootstrap.servers": options.bootstrap,
        "application.id": options.application_id,
        "processing.guarantee": options.guarantee,
        "commit.interval.ms": options.commit_interval_ms,
        "statestore.cache.max.bytes": options.cache_bytes,
        "state.dir": options.state_dir,
        **dict(setting.split("=", 1) for setting in options.set),
    }
    topics = Topics(options.inputs.split(","), options.outputs.split(","))
    return sf.StoatFlow(topology(options.workload, options.flavour, topics), config)


def follow(app: sf.StoatFlow) -> None:
    """Report when it runs, go on until a signal."""
    app.add_state_listener(lambda now, _: print("RUNNING", flush=True) if now is sf.State.RUNNING else None)
    app.run()


def run(app: sf.StoatFlow) -> tuple[float, float]:
    """Return when it was started, and the seconds from then until the lag is zero."""
    start = time.monotonic()
    app.start()
    _wait_until_read(app)
    seconds = time.monotonic() - start
    if not app.close(timeout="60s"):
        raise RuntimeError("StoatFlow did not close within 60 s, its last commit was given up")
    return start, seconds


def _wait_until_read(app: sf.StoatFlow) -> None:
    """Return once there was input, and all of it is committed."""
    start, seen = time.monotonic(), False
    while True:
        lag = app.lag()
        if lag == 0 and (seen or time.monotonic() - start > ENDS_KNOWN_S):
            break
        seen = seen or lag > 0
        if app.wait(timeout=POLL_S):  # raises the error that the engine failed with
            raise RuntimeError("StoatFlow stopped by itself before the input was consumed: see its log above")


def main() -> int:
    """Run, close, print."""
    if sys.argv[1:] == ["--missing"]:
        reasons = {"/".join(pair): why_not(*pair) for pair in PROGRAMS}
        print(json.dumps({"version": sf.__version__, "missing": {at: why for at, why in reasons.items() if why}}))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("workload", "flavour", "bootstrap", "application-id", "inputs", "outputs", "guarantee", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("commit-interval-ms", "cache-bytes", "records"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--follow", action="store_true", help="what is still being written, until a signal")
    options = parser.parse_args()
    if options.follow:
        follow(application(options))
        return 0
    started, seconds = run(application(options))
    own_figures.say(f"stoatflow-{options.flavour}", options.records, started, seconds, options.guarantee)
    return 0


if __name__ == "__main__":
    sys.exit(main())
