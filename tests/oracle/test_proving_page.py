"""The page on proving a port: its Java is compiled, its ports are written, its commands print what the page says.

Kafka Streams comes from Maven, as the page says, into the test's own cache.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import zipfile
from pathlib import Path

import pytest
from broker.java_home import cache_dir, find_javac

from conformance.kafka_streams import class_path
from stoatflow.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "proving-a-port.md"
QUICK = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none")
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def jar(source: str, folder: Path) -> None:
    """Compile the class of a block into app.jar."""
    file = folder / "App.java"
    file.write_text(source, "utf-8")
    classes = folder / "classes"
    subprocess.run([str(find_javac()), *QUICK, "-cp", class_path(), "-d", str(classes), str(file)], check=True)
    with zipfile.ZipFile(folder / "app.jar", "w") as made:
        for compiled in classes.rglob("*.class"):
            made.write(compiled, str(compiled.relative_to(classes)))


def plain(text: str) -> str:
    """Without the parts that depend on machine or version."""
    return re.sub(r"Java \d+[\d.]*", "Java 17", re.sub(r"StoatFlow \d[\w.]*", "StoatFlow 0", text)).rstrip("\n")


def test_the_page_shows_real_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(
        "MAVEN_OPTS", f"-Dmaven.repo.local={cache_dir() / 'maven'} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )
    compiled = False
    names: dict[str, object] = {}
    commands = []
    text = PAGE.read_text("utf-8")
    for marker, block in _BLOCK.findall(text):
        if marker == "java":
            jar(block, tmp_path)
            compiled = True
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
            monkeypatch.chdir(tmp_path)
        elif marker == "python no-run":
            name = block.partition("\n")[0].removeprefix("# ")
            Path(name).write_text(block, "utf-8")
        elif marker == "python":
            exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102  # the page's own
        elif marker in ("console", "console run"):
            command, _, expected = block.partition("\n")
            capsys.readouterr()
            code = main(shlex.split(command)[2:])
            printed = capsys.readouterr()
            found = printed.out + printed.err
            if os.environ.get("STOATFLOW_TEST_RESULTS") == "write":
                text = text.replace(block, f"{command}\n{found}")
                PAGE.write_text(text, "utf-8")
            else:
                assert plain(found) == plain(expected), f"{command} says\n{found}"
            commands.append((shlex.split(command)[2], code))
    assert compiled
    assert commands == [("prove", 1), ("prove", 0), ("record", 0)]
    assert Path("late.jsonl").read_text("utf-8").count("\n") == 2


def test_the_port_of_the_skill_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/skills/port-this-topology.md ports the Java topology of the page; its last command prints EQUAL."""
    monkeypatch.setenv(
        "MAVEN_OPTS", f"-Dmaven.repo.local={cache_dir() / 'maven'} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )
    (java,) = [block for marker, block in _BLOCK.findall(PAGE.read_text("utf-8")) if marker == "java"]
    jar(java, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall((PAGE.parents[1] / "skills" / "port-this-topology.md").read_text("utf-8"))
    for marker, block in blocks:
        if marker.startswith("python title="):
            Path("app.py").write_text(block, "utf-8")
    command = shlex.split(blocks[-1][1])
    for seed in ("1", "2", "3"):
        assert main([*command[1:-1], seed]) == 0
        assert "EQUAL: keys, values, timestamps, headers and their order" in capsys.readouterr().out
