"""A JVM with Kafka Streams' TopologyTestDriver, which runs the Java topology any number of times.

Takes java, a class path, class and method, a configuration; inputs. Returns a `Run`. Owns the process and its folder,
in memory where possible. The last lines that the topology prints or logs are appended to errors.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from stoatflow.errors import ConfigError
from stoatflow.prove.inputs import ClockStep, Input, InputRecord
from stoatflow.prove.java import ClassPath, compiled, find_java
from stoatflow.prove.runs import Described, Failure, Output, Row, Run

SOURCE = Path(__file__).with_name("Prove.java")
_FORMS = (
    "a static method without arguments, or with a StreamsBuilder, Properties or both, that gives a Topology; one with "
    "a StreamsBuilder may give nothing; main is called too, and stops at its KafkaStreams"
)
_INTERNAL = re.compile(r"-repartition$|-subscription-(registration|response)-.*topic$", re.IGNORECASE)
# The JVM starts often and computes little.
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def in_memory() -> str | None:
    """Return a folder that is in memory: stores are created and removed for every run."""
    shared = "/dev/shm"  # noqa: S108  # folders made there have random names
    return shared if os.access(shared, os.W_OK) else None


class KafkaStreams:
    """One topology in one JVM."""

    def __init__(self, jars: Sequence[str], version: str | None, topology: str, config: dict[str, str]) -> None:
        """Take the options of the command line; `topology` is `CLASS::METHOD`."""
        self._topology, self._config, self._jars, self._version = topology, config, jars, version
        self._java: subprocess.Popen[str] | None = None

    def __enter__(self) -> KafkaStreams:
        """Start the JVM; raise `ConfigError` if it can't work."""
        self._folder = tempfile.TemporaryDirectory(prefix="stoatflow-prove-", dir=in_memory())
        try:
            self._start(Path(self._folder.name))
            self.use(self._topology)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self, folder: Path) -> None:
        self._path = ClassPath(self._jars, folder / "unpacked", self._version)
        self._path.check()
        java = find_java()
        front = folder / "front"
        front.mkdir()
        properties = folder / "config.properties"
        properties.write_text("".join(f"{_escaped(k)}={_escaped(v)}\n" for k, v in self._config.items()), "ascii")
        self._log = (folder / "log").open("w+b")
        classes = compiled(java, SOURCE, self._path)
        path = os.pathsep.join([str(front), *([] if classes is None else [str(classes)]), str(self._path)])
        program = str(SOURCE) if classes is None else SOURCE.stem
        self._java = subprocess.Popen(  # noqa: S603  # the user's Java, with the user's jars
            [java, *_OPTIONS, "-cp", path, program, str(properties), str(folder / "state"), str(front)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )

    def use(self, topology: str) -> None:
        """Switch to another topology of the same class path; raise `ConfigError`."""
        name, _, self._method = topology.replace("#", "::").partition("::")
        if not name or not self._method.isidentifier():
            raise ConfigError(f"--topology {topology} is no CLASS::METHOD", next_step=f"name {_FORMS}")
        self._class = name
        (answer,) = self._answers([f"topology\t{name}\t{self._method}"])
        topics, sinks, stores = (frozenset[str](answer[of]) for of in ("topics", "sinks", "stores"))
        if answer["patterns"]:
            raise ConfigError(
                f"the Java topology reads topics by the pattern {answer['patterns'][0]}, which a proof can't",
                next_step="let it read a list of topics for the proof",
            )
        # Without the application id as prefix, as the test driver names them.
        internal = frozenset(name for name in topics & sinks if _INTERNAL.search(name))
        self.described = Described(
            topology,
            f"Kafka Streams {self._path.version() or '(no version said)'}, Java {answer['java']}",
            topics - internal,
            sinks - internal - {""},
            stores,
            answer["describe"],
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the JVM, remove its folder."""
        java, self._java = self._java, None
        if java is not None:
            # The JVM ends with its input. One that ended earlier has not read all of it.
            with contextlib.suppress(BrokenPipeError):
                _pipe(java.stdin).close()
            try:
                java.wait(timeout=10)
            except subprocess.TimeoutExpired:
                java.kill()
                java.wait()
            _pipe(java.stdout).close()
            self._log.close()
        self._folder.cleanup()

    def run(self, inputs: Sequence[Input], start: int) -> Run:
        """Run the topology from a fresh start with these inputs; the wall clock starts at `start`."""
        run = Run()
        for answer in self._answers([f"run\t{start}", *map(self._asked, inputs), "end"]):
            _note(run, answer)
        run.sort()
        return run

    def _answers(self, lines: Sequence[str]) -> Iterator[dict[str, Any]]:
        stdin = _pipe(self._running.stdin)
        try:
            stdin.write("\n".join([*lines, ""]))
            stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        refused: ConfigError | None = None
        while "done" not in (answer := self._line()):
            if "refused" in answer:
                refused = self._refused(answer["kind"], answer["refused"])
            else:
                yield answer
        if refused is not None:
            raise refused

    def _asked(self, given: Input) -> str:
        if isinstance(given, ClockStep):
            return f"w\t{given.ms}"
        if given.topic not in self.described.topics:
            return "s"
        return "\t".join(["r", given.topic, str(given.timestamp), *_fields(given)])

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._java is None:
            raise RuntimeError("the JVM is not running: use `with`")
        return self._java

    def _line(self) -> dict[str, Any]:
        text = _pipe(self._running.stdout).readline()
        if not text:
            raise self._ended()
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _ended(self) -> ConfigError:
        code = self._running.wait()
        self._log.seek(0)
        answer = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return ConfigError(
            f"the JVM ended with {code}; it said last:\n"
            + "\n".join(f"  {each}" for each in answer[-15:] or ["nothing"]),
            next_step="report it with the version of Kafka Streams: prove can't be compiled with it"
            if answer[-1:] == ["error: compilation failed"]
            else "see what it said; a topology that ends the process can't be proven",
        )

    def _refused(self, kind: str, text: str) -> ConfigError:
        name, method = self._class, self._method
        if kind == "class":
            like = [each for each in self._path.classes(name.replace("$", ".").rpartition(".")[2]) if each != name]
            step = f"name {like[0]}" if like else "name it with its package, as in com.acme.App::topology"
            return ConfigError(f"the class {name} is not on the class path that --java gives", next_step=step)
        if kind == "method":
            known = f"those that can be called: {text}" if text else "none of its methods can be called"
            return ConfigError(f"{name} has no such method as {method} ({known})", next_step=f"name {_FORMS}")
        if kind == "gave":
            return ConfigError(f"{name}::{method} gave {text}, no Topology", next_step=f"name {_FORMS}")
        if kind == "main":
            return ConfigError(
                f"{name}::main made no KafkaStreams", next_step="name the method that makes the topology"
            )
        if kind == "version":
            return ConfigError(
                f"the jar is for a newer Java: {text}",
                next_step="set JAVA_HOME to the Java that runs it",
            )
        lines = text.strip().splitlines()
        missing = "NoClassDefFoundError" in text or "ClassNotFoundException" in text
        causes = [each for each in lines if each.startswith("Caused by")]
        shown = "\n".join(f"  {each}" for each in [*lines[:8], *(each for each in causes if each not in lines[:8])])
        return ConfigError(
            f"{name}::{method} failed:\n{shown}",
            next_step="add the jar that has the missing class with --java"
            if missing
            else "mend it, or give what it needs: --config is what a Properties argument gets",
        )


def _fields(given: InputRecord) -> Iterable[str]:
    yield _text(given.key)
    yield _text(given.value)
    for name, content in given.headers:
        yield _text(name.encode())
        yield _text(content)


def _note(run: Run, answer: dict[str, Any]) -> None:
    if "topic" in answer:
        headers = tuple((name, _data(content)) for name, content in answer["headers"])
        run.add(
            answer["topic"],
            answer["i"],
            Output(_data(answer["key"]), _data(answer["value"]), answer["timestamp"], headers),
        )
    elif "row" in answer:
        window = answer.get("window")
        key, value = _data(answer["key"]) or b"", _data(answer["value"]) or b""
        row = Row(key, window and (window[0], window[1]), value, answer.get("timestamp"))
        run.stores.setdefault(answer["row"], []).append(row)
    elif "store" in answer:
        run.stores[answer["store"]] = []
    elif "unreadable" in answer:
        run.unreadable[answer["unreadable"]] = answer["why"]
    elif "failed" in answer:
        run.failure = Failure(answer["failed"], answer["class"], answer["message"], answer["trace"])


def _text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _data(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _escaped(text: str) -> str:
    """Escape a text for Java's properties."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    plain = "".join("\\" + each if each in " :=#!" else each for each in plain)
    units = plain.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in pairs)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("the JVM was started without pipes")
    return pipe
