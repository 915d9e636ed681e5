"""Runs a dataflow in an environment that has Bytewax: `bytewax_runner.py ORIGINAL INPUTS`, results as JSON.

The original's `dataflow(inputs, outputs)` gets a list of values for each topic, and returns a dataflow whose sinks
are `outputs[topic]`.
"""

import json
import runpy
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from bytewax.testing import run_main


def main() -> None:
    program, path = sys.argv[1:]
    inputs, outputs = defaultdict(list), defaultdict(list)
    for step in json.loads(Path(path).read_text("utf-8")):
        if "topic" in step:
            inputs[step["topic"]].append(step["value"])
    run_main(runpy.run_path(program)["dataflow"](inputs, outputs))
    found = {topic: [row(item) for item in items] for topic, items in outputs.items()}
    print(json.dumps({"version": version("bytewax"), "outputs": found}))


def row(item):
    """Items with a key are pairs; others have none."""
    return list(item) if isinstance(item, tuple) else [None, item]


main()
