"""Runs a command once for each of several listeners of three secured brokers.

    python through_listeners.py SASL_SSL_SCRAM,MTLS cargo test ...

The command finds the address in STOATFLOW_TEST_BOOTSTRAP and its client properties, a JSON object, in
STOATFLOW_TEST_CLIENT. The first failure ends the run, with its exit code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

if __package__ in {None, ""}:  # run as a script: the package is the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.cluster import KafkaCluster


def main(listeners: list[str], command: list[str]) -> int:
    with KafkaCluster() as cluster:
        for listener in listeners:
            client = cluster.client(listener)
            address = client.pop("bootstrap.servers")
            print(f"    through {listener} at {address}", flush=True)
            variables = {
                **os.environ,
                "STOATFLOW_TEST_BOOTSTRAP": address,
                "STOATFLOW_TEST_CLIENT": json.dumps({**client, "kafka.client": "native"}),
            }
            code = subprocess.run(command, env=variables, check=False).returncode
            if code != 0:
                return code
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1].split(","), sys.argv[2:]))
