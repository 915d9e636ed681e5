"""Building the Kafka Streams side.

Takes: `kstreams/`, a JDK, Maven. Gives: the class path of `stoatflow.versus.Versus`.
Owns: `versus-kstreams/` in the cache outside the clone, rebuilt when the pom or a source changes.
Never: writes into the clone.
"""

from __future__ import annotations

from pathlib import Path

from broker.java_home import cache_dir, find_javac
from broker.maven_jars import complete_folder, run_maven

MAIN_CLASS = "stoatflow.versus.Versus"
FOLLOW_CLASS = "stoatflow.versus.Follow"
_PROJECT = Path(__file__).resolve().parent / "kstreams"


def class_path() -> str:
    """Builds if needed; what comes after `java -cp`."""
    sources = [_PROJECT / "pom.xml", *_PROJECT.rglob("*.java")]

    def fill(partial: Path) -> None:
        find_javac()
        goals = ["package", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        places = [f"-Dstoatflow.out={partial}", f"-DoutputDirectory={partial / 'libs'}"]
        run_maven(_PROJECT / "pom.xml", [*goals, *places], "Kafka Streams side of the benchmark")

    built = complete_folder(cache_dir() / "versus-kstreams" / "build", sources, fill)
    return f"{built / 'target' / 'versus-kstreams.jar'}:{built / 'libs'}/*"
