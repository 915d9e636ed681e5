"""Spark's turn of a hand-over on a real broker, as commands in a process of its own.

`spark_handover.py FOLDER STEP...` with settings in FOLDER/app.toml: each step is a command of `stoatflow`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoatflow.cli import main

APP = Path(__file__).with_name("handover_app.py")
SPARK = ["--spark-conf", "spark.sql.shuffle.partitions=2", "--spark-conf", "spark.sql.adaptive.enabled=false"]


def commands(folder: Path) -> dict[str, list[str]]:
    """Give the arguments of each step."""
    where = [str(APP), "--config", str(folder / "app.toml"), "--checkpoint", str(folder / "checkpoint"), *SPARK]
    return {
        "look": ["hand-over", "to-spark", *where, "--tasks", "2", "--dry-run"],
        "there": ["hand-over", "to-spark", *where, "--tasks", "2", "--yes"],
        "run": ["run", *where, "--engine", "spark", "--until-end"],
        "look-back": ["hand-over", "from-spark", *where, "--dry-run"],
        "back": ["hand-over", "from-spark", *where, "--yes"],
    }


if __name__ == "__main__":
    for step in sys.argv[2:]:
        print(f"== {step}", flush=True)  # noqa: T201
        code = main(commands(Path(sys.argv[1]))[step])
        if code != 0:
            sys.exit(f"{step} ended with {code}")
