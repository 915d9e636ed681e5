"""Runs a program in an environment that has Quix Streams: `quix_runner.py ORIGINAL BOOTSTRAP NAME STATE`.

The original's `define(app)` defines topics and dataframes. It ends when no message has arrived for five seconds.
"""

import json
import runpy
import sys
from importlib.metadata import version

from quixstreams import Application


def main() -> None:
    program, bootstrap, name, state = sys.argv[1:]
    app = Application(
        broker_address=bootstrap, consumer_group=name, auto_offset_reset="earliest", state_dir=state, loglevel="WARNING"
    )
    runpy.run_path(program)["define"](app)
    app.run(timeout=5.0)
    print(json.dumps({"version": version("quixstreams")}))


main()
