"""Commands of `stoatflow` in one process with Spark, through a secured listener: `spark_secured.py FOLDER STEP...`.

FOLDER has `app.toml`, the settings of the application, `client.json`, the same properties for commands that take no
settings, and `load.toml`. Each step is a command; the first that fails ends the process.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from stoatflow.cli import main

APP = Path(__file__).with_name("spark_secured_app.py")
CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}


def commands(folder: Path) -> dict[str, list[str]]:
    """Returns the arguments of each step."""
    client = json.loads((folder / "client.json").read_text("utf-8"))
    bootstrap = ["--bootstrap", client.pop("bootstrap.servers")]
    properties = [word for name, value in client.items() for word in ("--client-property", f"{name}={value}")]
    conf = list(itertools.chain.from_iterable(("--spark-conf", f"{name}={value}") for name, value in CONF.items()))
    app = [str(APP), "--config", str(folder / "app.toml"), *conf]
    checkpoint = ["--checkpoint", str(folder / "checkpoint")]
    return {
        "load": ["load", str(folder / "load.toml"), *bootstrap, *properties, *conf],
        "reconcile": ["reconcile", str(APP), *bootstrap, *properties, *conf],
        "batch": ["run", *app, "--engine", "spark", "--batch", "--output", str(folder / "results")],
        "there": ["hand-over", "to-spark", *app, *checkpoint, "--tasks", "2", "--yes"],
        "stream": ["run", *app, *checkpoint, "--engine", "spark", "--until-end"],
        "back": ["hand-over", "from-spark", *app, *checkpoint, "--yes"],
    }


if __name__ == "__main__":
    for step in sys.argv[2:]:
        print(f"== {step}", flush=True)  # noqa: T201
        code = main(commands(Path(sys.argv[1]))[step])
        if code != 0:
            sys.exit(f"{step} ended with {code}")
