"""Builds the Kafka Streams side.

Takes `kstreams/`, a JDK, Maven; returns the class path of `stoatflow.versus.Versus`. Owns `versus-kstreams/` in the
cache outside the clone, rebuilt when the pom or a source changes.
"""

from __future__ import annotations

from pathlib import Path

from broker.java_home import cache_dir
from broker.maven_jars import built_project

MAIN_CLASS = "stoatflow.versus.Versus"
FOLLOW_CLASS = "stoatflow.versus.Follow"
_PROJECT = Path(__file__).resolve().parent / "kstreams"


def class_path() -> str:
    """Build if needed; return the argument of `java -cp`."""
    return built_project(_PROJECT, cache_dir() / "versus-kstreams" / "build", "Kafka Streams side of the benchmark")
