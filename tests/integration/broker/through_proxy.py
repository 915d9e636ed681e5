"""Runs a command against a broker behind a proxy that damages requests, from a seed.

    python through_proxy.py 7 cargo test ...
    python through_proxy.py 7 --spare END_TXN cargo test ...

With `--spare`, no connection is cut at requests of that name. The command finds the address in
STOATFLOW_TEST_BOOTSTRAP. What was struck is printed; nothing struck is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

if __package__ in {None, ""}:  # run as a script: the package is the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.fault_answers import Api
from broker.fault_proxy import FaultProxy
from broker.kafka_broker import KafkaBroker
from broker.noise import Noise

OFTEN = 0.01


def main(seed: int, spared: frozenset[Api], command: list[str]) -> int:
    with FaultProxy(seed) as proxy, KafkaBroker(proxied=proxy.port) as broker:
        proxy.connect(broker.behind_proxy)
        noise = Noise(proxy, spared)
        noise.light(OFTEN)
        print(f"    through a proxy at {proxy.address}, seed {seed}", flush=True)
        variables = {**os.environ, "STOATFLOW_TEST_BOOTSTRAP": proxy.address}
        code = subprocess.run(command, env=variables, check=False).returncode
        print("\n".join(f"    {line}" for line in noise.report()), flush=True)
    return code or int(not sum(noise.struck.values()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    seed, rest, spared = int(sys.argv[1]), sys.argv[2:], frozenset()
    if rest[0] == "--spare":
        spared, rest = frozenset({Api[rest[1]]}), rest[2:]
    sys.exit(main(seed, spared, rest))
