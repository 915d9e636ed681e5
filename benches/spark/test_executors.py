"""The figures of the report, the CPU time of a process tree, and the drill's three thirds of the input."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

# Scripts that import each other from one folder.
sys.path.append(str(Path(__file__).parent))

import drill
import executors
import tree_cpu
from workloads import WORKLOADS
from workloads.workload import Load


def test_the_report_has_medians_and_ratios() -> None:
    engine = executors.Run("w2", "engine", 1, 1_000_000, startup_s=0.5, seconds=4.0, cpu_s=5.0)
    twin = executors.Run("w2", "twin", 1, 1_000_000, startup_s=20.0, seconds=50.0, cpu_s=60.0)
    slower = replace(twin, startup_s=24.0, seconds=100.0, cpu_s=70.0)
    slowest = replace(twin, startup_s=22.0, seconds=200.0, cpu_s=90.0)
    alone = executors.Run("w2", "sql", 2, 500_000, startup_s=9.0, seconds=2.0, cpu_s=1.0)
    lines = executors.report([engine, twin, slowest, slower, alone]).splitlines()
    assert lines[2:] == [
        "| w2 | engine | 1 lane | 250,000 | 5.0 | 0.5 | 1.0 x |",
        "| w2 | batch twin | 1 executor | 10,000 | 70.0 | 22.0 | 14.0 x |",
        "| w2 | Spark SQL | 2 executors | 250,000 | 2.0 | 9.0 |  |",
    ]


def test_sql_runs_what_it_can_express() -> None:
    wanted = ("engine", "twin", "sql")
    assert executors.contenders_of("w3", wanted) == ["engine", "twin", "sql"]
    assert executors.contenders_of("w7", wanted) == ["engine", "twin"]


def test_the_cpu_time_of_descendants_is_counted() -> None:
    spin = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass\n"
    child = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])\nprint('done', flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert tree_cpu.tree_cpu([process.pid]) >= 0.3
        process.communicate("\n")


def test_the_thirds_are_the_whole_input() -> None:
    for workload in WORKLOADS.values():
        load = Load(1_000, 1, partitions=2, table_keys=100)
        for source in workload.inputs:
            shares = [drill.share(source, load, turn) for turn in range(drill.TURNS)]
            assert shares[0][0] == 0
            assert [end for _, end in shares[:-1]] == [begin for begin, _ in shares[1:]]
            assert shares[-1][1] == source.count(load)
    clicks, _, users, _ = WORKLOADS["w7"].inputs
    assert drill.share(users, load, 0) == (0, 2_000), "a table is there before everything else"
    assert drill.share(clicks, load, 1) == (250, 500)
