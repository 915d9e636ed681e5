"""The guarded start: missing requirements are named, with the command that helps; servers stay on loopback."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

import pytest

from stoatflow.spark import session
from stoatflow.spark.errors import SparkUnavailableError
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def java_saying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program that replaces Java and prints the contents of its file ``says``."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ncat '{tmp_path}/says' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path / "says"


def test_the_session_is_quiet_and_local(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.uiWebUrl is None


def test_a_second_call_returns_the_same_session(spark: SparkSession) -> None:
    assert local_session() is spark


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkUnavailableError, match=r"pip install pyspark==4\.0\.0"):
        local_session()


def test_with_an_old_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.4")
    with pytest.raises(SparkUnavailableError, match=r"3\.5\.4 is too old.*pip install pyspark==4\.0\.0"):
        local_session()


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SparkUnavailableError, match="Install a JDK 17"):
        local_session()


def test_with_an_invalid_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkUnavailableError, match="JAVA_HOME=/nowhere does not run"):
        local_session()


@pytest.mark.parametrize(
    ("says", "major"), [('openjdk version "11.0.2" 2019', "11"), ('java version "1.8.0_392"', "8")]
)
def test_with_an_old_java(java_saying: Path, says: str, major: str) -> None:
    java_saying.write_text(says)
    with pytest.raises(SparkUnavailableError, match=f"is Java {major}.*Install a JDK 17"):
        local_session()


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025', 'openjdk version "21" 2023', "something new"])
def test_with_a_supported_java(java_saying: Path, says: str, spark: SparkSession) -> None:
    java_saying.write_text(says)
    assert local_session() is spark


def test_the_connector_of_another_pyspark_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.2.0")
    with pytest.raises(SparkUnavailableError, match=r"4\.2\.0 is installed.*spark\.jars"):
        local_session(kafka=True)


@pytest.mark.usefixtures("spark")
def test_a_running_session_without_the_connector_is_not_used_for_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(session, "_CONNECTOR_CLASS", "org.example.NotThere")
    with pytest.raises(SparkUnavailableError, match="before any other session"):
        local_session(kafka=True)
    assert not session.connector_is_here()


def test_missing_jars_are_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jar = tmp_path / "connector.jar"
    kept = tmp_path / "stoatflow" / f"spark-{session.PYSPARK}" / "kafka-jars.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text(f"{jar}\n")
    assert not session.connector_is_here()
    assert "spark.jars.packages" in session._connector_settings(session.PYSPARK)
    jar.touch()
    assert session.connector_is_here()
    assert session._connector_settings(session.PYSPARK) == {"spark.jars": str(jar)}
