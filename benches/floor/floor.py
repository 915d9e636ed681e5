"""The floor: read 1 KB records, write four of five, and commit every 100 ms, without an engine.

Takes numbers of records and rounds. Prints CPU per record of four implementations, as `crates/log/examples/forward.rs`
does. Owns a broker, started as by Kafka's own scripts. Reports no figure of a loop whose records have not arrived.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
sys.path[:0] = [str(_HERE.parent / "versus"), str(_ROOT / "tests" / "integration")]

from bench_broker import bench_broker  # noqa: E402
from broker.java_home import BrokerError  # noqa: E402
from stopping import stop_with_all_of_it  # noqa: E402

# Each loop writes as much as it reads, and deletes it: deleted segments must not stay on disk until the
# last loop ends.
_DELETE_AT_ONCE = {"log.segment.delete.delay.ms": "1000"}


def _cargo(what: str, *arguments: str, bootstrap: str = "") -> int:
    """Run cargo; return its exit code."""
    command = [
        str(_ROOT / "scripts" / "cargo.sh"), what, "--release", "--locked", "-p", "stoatflow-log",
        "--example", "forward", *arguments,
    ]  # fmt: skip
    return subprocess.run(command, check=False, env={**os.environ, "STOATFLOW_TEST_BOOTSTRAP": bootstrap}).returncode


def main() -> int:
    """Build, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000, help="how many are read, of 1 KB each")
    parser.add_argument("--rounds", type=int, default=3, help="how often each loop runs, all of them in turn")
    options = parser.parse_args()
    if options.records < 1000 or options.rounds < 1:
        parser.error("--records must be at least 1000, --rounds at least 1")
    if code := _cargo("build"):
        return code
    try:
        with bench_broker(_DELETE_AT_ONCE) as broker:
            given = (str(options.records), str(options.rounds))
            return _cargo("run", "--quiet", "--", *given, bootstrap=broker.bootstrap)
    except BrokerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    stop_with_all_of_it()
    sys.exit(main())
