"""Fetches jars with Maven, once, into a folder of the cache.

Takes a pom and the folder; returns the folder, complete. Checks what is missing before Maven is started, and says how
to get it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from stoatflow.errors import ConfigError

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>stoatflow</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
{0}
  </dependencies>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version>
  </plugin></plugins></build>
</project>
"""
_ARTIFACT = "    <dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"


def is_version(text: str) -> bool:
    """Whether it may be a version of Kafka."""
    return re.fullmatch(r"\d+\.\d+\.\d+[\w.-]*", text) is not None


def cache() -> Path:
    """Return the folder that keeps what is fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stoatflow"


def fetched(folder: Path, what: str, artifacts: tuple[str, ...], by_hand: str) -> Path:
    """Return the folder with the jars of `artifacts` (`group:name:version`) and what they need.

    `what` is the name of all of it in messages, `by_hand` what to do where there is no Maven.
    """
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigError(
            f"{what} is not in the cache, and there is no mvn to fetch it",
            next_step=f"install Maven (apt-get install maven, dnf install maven, brew install maven), or {by_hand}",
        )
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _fetch(maven, what, artifacts, partial)
        try:
            partial.rename(folder)
        except OSError:
            # If another process was faster, it has fetched the same.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _fetch(maven: str, what: str, artifacts: tuple[str, ...], folder: Path) -> None:
    pom = folder / "pom.xml"
    pom.write_text(_POM.format("\n".join(_ARTIFACT.format(*each.split(":")) for each in artifacts)), "utf-8")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    done = subprocess.run([maven, "-B", "-q", "-f", str(pom), *goal], capture_output=True, text=True, check=False)  # noqa: S603
    names = [each.split(":")[1] for each in artifacts]
    if done.returncode != 0 or not all(any(folder.glob(f"{name}-*.jar")) for name in names):
        lines = [each for each in (done.stdout + done.stderr).splitlines() if "ERROR" in each][:3]
        raise ConfigError(
            f"Maven could not fetch {what}: {' / '.join(lines) or f'it ended with {done.returncode}'}",
            next_step="check the version and that Maven Central is reachable (behind a proxy: ~/.m2/settings.xml)",
        )
    pom.unlink()
