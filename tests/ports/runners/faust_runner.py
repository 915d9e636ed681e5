"""Runs a program in an environment that has Faust: `faust_runner.py ORIGINAL BOOTSTRAP NAME DATA`, until SIGTERM.

The original's `define(app)` defines topics, tables and agents.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import faust


def main() -> None:
    program, bootstrap, name, data = sys.argv[1:]
    app = faust.App(
        name,
        broker=f"kafka://{bootstrap}",
        store="memory://",
        datadir=data,
        topic_partitions=1,
        broker_commit_interval=0.5,
        table_cleanup_interval=2.0,
        web_enabled=False,
    )
    # Imported as a module, because agents without a topic name theirs after the module.
    sys.path.insert(0, str(Path(program).parent))
    from original import define

    define(app)
    print(json.dumps({"version": version("faust-streaming")}), flush=True)
    faust.Worker(app, loglevel="WARN").execute_from_commandline()


main()
