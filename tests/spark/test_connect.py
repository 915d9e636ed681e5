"""The batch twin on Spark Connect: on Sail, which has no JVM, and on the server that PySpark includes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# In a JVM each part takes seconds.
SERVERS = ["sail", "nothing-kept", "guide", *(["spark"] if os.environ.get("STOATFLOW_TEST_TWIN") == "all" else [])]
SCRIPT = Path(__file__).with_name("on_connect.py")


@pytest.mark.parametrize("server", SERVERS)
def test_the_twin_is_the_same_on_spark_connect(server: str, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), server, str(tmp_path)]
    # The modules that functions of tests import, for Spark's workers too.
    path = os.pathsep.join([str(SCRIPT.parent), str(SCRIPT.parents[1])])
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == {}
