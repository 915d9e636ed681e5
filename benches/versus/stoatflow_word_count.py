"""The StoatFlow side of the word count benchmark: one process, one topology, two flavours.

Takes: the same settings as the Kafka Streams side. Gives: the counts in the output topic, and one line of JSON.
Never: measures anything but this process.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import stoatflow as sf

POLL_S = 0.2
# No lag before the engine has asked the broker for the ends of the topic is no news; after this long it is.
ENDS_KNOWN_S = 10.0


def topology(flavour: str, source: str, sink: str) -> sf.Topology:
    """Lines to words, words to counts."""
    builder = sf.StreamsBuilder()
    lines = builder.stream(source, key=bytes, value=str)
    if flavour == "native":
        words = lines.flat_map_values(sf.value.str.lower().str.split())
        grouped = words.group_by(sf.value, key=str, value=str)
    else:
        words = lines.flat_map_values(lambda line: line.lower().split())
        grouped = words.group_by(lambda _, word: word, key=str, value=str)
    grouped.count(store="counts").to_stream().to(sink, key=str, value=int)
    return builder.build()


def cpu_seconds() -> float:
    """User and system time of this process, from its start."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_rss_kb() -> int:
    """VmHWM: unlike ru_maxrss it does not remember the process that started this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM: run the benchmark on Linux")


def main() -> int:
    """Runs until nothing lags, closes, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "application-id", "input", "output", "guarantee", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--flavour", choices=["native", "lambda"], required=True)
    parser.add_argument("--commit-interval-ms", type=int, required=True)
    parser.add_argument("--cache-bytes", type=int, required=True)
    parser.add_argument("--records", type=int, required=True, help="how many lines the input topic holds")
    options = parser.parse_args()

    config = {
        "bootstrap.servers": options.bootstrap,
        "application.id": options.application_id,
        "processing.guarantee": options.guarantee,
        "commit.interval.ms": options.commit_interval_ms,
        "statestore.cache.max.bytes": options.cache_bytes,
        "state.dir": options.state_dir,
    }
    app = sf.StoatFlow(topology(options.flavour, options.input, options.output), config)
    start = time.monotonic()
    app.start()
    seen = False
    while True:
        lag = app.lag()
        if lag == 0 and (seen or time.monotonic() - start > ENDS_KNOWN_S):
            break
        seen = seen or lag > 0
        if app.wait(timeout=POLL_S):  # raises what the engine failed with
            raise RuntimeError("StoatFlow stopped by itself before the input was consumed: see its log above")
    seconds = time.monotonic() - start
    if not app.close(timeout="60s"):
        raise RuntimeError("StoatFlow did not close within 60 s, its last commit was given up")
    report = {
        "engine": f"stoatflow-{options.flavour}",
        "records": options.records,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds(), 3),
        "peak_rss_kb": peak_rss_kb(),
    }
    print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
