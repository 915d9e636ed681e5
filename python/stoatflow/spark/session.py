"""Creates the local SparkSession.

Takes whether real Kafka is needed, cores, memory, further Spark settings. Returns a quiet SparkSession on loopback, or
raises `SparkUnavailableError` with the command that helps. Chooses the versions, and caches the connector's jars
(``~/.cache/stoatflow``). Never opens a port beyond loopback, starts a UI, or downloads anything unless Kafka is needed.

Why PySpark 4.0.0 and not 4.2.0: it is the newest version whose Kafka connector resolves completely from Maven Central.
`pip install pyspark==4.0.0` and Java 17 are then all that is needed; the connector (63 MB) is downloaded the first time
real Kafka is used. For 4.2.0 the connector's own dependency `spark-token-provider-kafka-0-10` was never published in
that version: Ivy fails, and mixing versions needs Maven with a hand-written pom. The new features of 4.2.0 (a Python
row API for transformWithState, real-time mode) are not needed to load or to reconcile. Another version works too, with
your own jars: ``conf={"spark.jars": "..."}``.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.spark.errors import SparkUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

PYSPARK = "4.0.0"
"""The tested version; the Kafka connector is resolved for it."""

OLDEST_JAVA = 17

_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{PYSPARK}"
_CONNECTOR_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_JAVA_HELP = (
    f"Install a JDK {OLDEST_JAVA} (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17; any system: pip install install-jdk && "
    "python -c \"import jdk; print(jdk.install('17'))\") and set JAVA_HOME to it."
)
# Only Maven Central: Spark's own chain searches ~/.m2 first, and a pom there whose jar was never fetched
# (Maven leaves many) ends in "download failed"; its third repository is often unreachable.
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""


def local_session(
    *,
    kafka: bool = False,
    cores: int = 2,
    memory: str = "1g",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the local SparkSession of this process, started if there is none.

    ``kafka=True`` adds the Kafka connector; it must be set for the first session of the process, since a running JVM
    can't load it any more. ``conf`` overrides every setting chosen here.

    Raises:
        SparkUnavailableError: Java or PySpark is missing or too old, or the connector is not available.

    """
    version = _require_pyspark()
    _require_java()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    _environment()
    chosen = dict(conf or {})
    settings = _settings(memory)
    own_jars = bool({"spark.jars", "spark.jars.packages"} & chosen.keys())
    if kafka and not own_jars:
        settings |= _connector_settings(version)
    settings |= chosen
    builder = SparkSession.builder.master(f"local[{cores}]").appName("stoatflow")
    for name, value in settings.items():
        builder = builder.config(name, value)
    _leave_no_folder(Path.cwd() / "artifacts")
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkUnavailableError(_start_failed(kafka, error)) from error
    if kafka:
        _require_connector(spark)
        if not own_jars:
            _remember_jars(spark)
    return spark


def _leave_no_folder(folder: Path) -> None:
    """Remove the empty folders that Spark 4.0 creates in the working directory, at the end of the process."""
    if folder.exists():
        return

    def remove() -> None:
        empty_first = sorted(folder.rglob("*"), reverse=True)
        for inner in (*empty_first, folder):
            with contextlib.suppress(OSError):
                inner.rmdir()

    atexit.register(remove)


def _settings(memory: str) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties")
    return {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }


def _environment() -> None:
    """Set what Spark reads only from the environment; never overrides what the user has set."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Otherwise Spark uses the first python3 on the PATH, which may not be this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _require_pyspark() -> str:
    try:
        import pyspark
    except ImportError as error:
        message = f"PySpark is not installed in {sys.prefix}. Install it: pip install pyspark=={PYSPARK}"
        raise SparkUnavailableError(message) from error
    version: str = pyspark.__version__
    if int(version.split(".", 1)[0]) < 4:
        message = f"PySpark {version} is too old. Install the tested one: pip install pyspark=={PYSPARK}"
        raise SparkUnavailableError(message)
    return version


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise SparkUnavailableError(f"Spark needs Java, and no `java` is on the PATH. {_JAVA_HELP}")
    try:
        # The user's own Java, from the place where Spark looks for it.
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        where = f"JAVA_HOME={home}" if home else java
        raise SparkUnavailableError(f"Java at {where} does not run ({error}). {_JAVA_HELP}") from error
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if found is None:
        return  # An unusual version string is accepted: Spark itself fails if it is too old.
    major = int(found[1]) if found[1] != "1" else int(found[2] or 0)
    if major < OLDEST_JAVA:
        raise SparkUnavailableError(f"Spark needs Java {OLDEST_JAVA} or newer; {java} is Java {major}. {_JAVA_HELP}")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "stoatflow", f"spark-{PYSPARK}")


def connector_is_here() -> bool:
    """Return whether the Kafka connector is cached, so that nothing has to be downloaded."""
    return bool(_kept_jars())


def starting(*, kafka: bool) -> str:
    """Return the message that Spark starts, which takes some seconds, and whether it downloads something first."""
    connector = " with its Kafka connector" if kafka else ""
    download = " (fetched once, 63 MB)" if kafka and not connector_is_here() else ""
    return f"starting Spark{connector}{download}"


def is_running() -> bool:
    """Return whether this process already has a session."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def _kept_jars() -> list[str]:
    """Return the cached jars of the connector, or nothing if any of them is missing."""
    kept = _cache() / "kafka-jars.txt"
    jars = kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else []
    return jars if all(Path(jar).is_file() for jar in jars) else []


def _connector_settings(version: str) -> dict[str, str]:
    if version != PYSPARK:
        message = (
            f"The Kafka connector is resolved for PySpark {PYSPARK}, and {version} is installed. Either "
            f"pip install pyspark=={PYSPARK}, or give the connector's jars yourself: conf={{'spark.jars': '...'}} "
            "(on the command line: --spark-conf spark.jars=...)."
        )
        raise SparkUnavailableError(message)
    if jars := _kept_jars():
        # Saves every later start the resolution: two seconds, forty lines, and the network.
        return {"spark.jars": ",".join(jars)}
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    ivy = cache / "ivysettings.xml"
    # The variable by which Spark itself is configured to use a mirror of Maven Central.
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", "https://repo1.maven.org/maven2/")
    ivy.write_text(_IVY_SETTINGS.format(root=root), encoding="utf-8")
    return {
        "spark.jars.packages": _CONNECTOR,
        "spark.jars.ivy": str(cache / "ivy"),
        "spark.jars.ivySettings": str(ivy),
    }


def _remember_jars(spark: SparkSession) -> None:
    urls = spark.sparkContext.getConf().get("spark.jars", "") or ""
    jars = [url.removeprefix("file://").removeprefix("file:") for url in urls.split(",") if url]
    if jars and jars != _kept_jars():
        (_cache() / "kafka-jars.txt").write_text("\n".join(jars) + "\n", encoding="utf-8")


def _require_connector(spark: SparkSession) -> None:
    from py4j.protocol import Py4JJavaError

    jvm = spark.sparkContext._jvm
    if jvm is None:
        raise SparkUnavailableError("This Spark session is remote; the Kafka connector needs a local one.")
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_CONNECTOR_CLASS, True, loader)
    except Py4JJavaError as error:
        message = (
            "The Spark session of this process runs without the Kafka connector, and a running JVM cannot take it. "
            "Ask for local_session(kafka=True) before any other session, or restart the process."
        )
        raise SparkUnavailableError(message) from error


def _start_failed(kafka: bool, error: Exception) -> str:
    message = f"Spark did not start: {error}. Its own lines above say why."
    if kafka:
        message += (
            f" If they speak of unresolved or failed downloads: {_CONNECTOR} could not be fetched from Maven Central. "
            "Check the network (a mirror goes into DEFAULT_ARTIFACT_REPOSITORY), remove "
            f"{_cache()} and try again."
        )
    return message
