"""`stoatflow broker up | status | down`: a real Kafka broker on this machine, for development.

Takes Java and an unpacked Kafka, which it finds or is told. Owns one process per directory, found again by the file
`broker.json` in it. One node, on loopback, without security: for development only. Downloads nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from typing import Any

_HOST = "127.0.0.1"
_PORT = 9092
_START_S = 90.0
_started: list[subprocess.Popen[bytes]] = []
"""Kept: Python reports a process that is forgotten while it runs, and this one runs on."""
_STOP_S = 40.0
_STATE = "broker.json"
_SERVER = "server.properties"
_MEMORY = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_GET_KAFKA = (
    "unpack a binary from https://kafka.apache.org/downloads and give its directory: --kafka DIR or KAFKA_HOME. With "
    "Docker instead: docker run -p 9092:9092 apache/kafka"
)
_GET_JAVA = "install Java 17 or newer (openjdk-17-jre-headless), or point JAVA_HOME to it"


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "broker",
        help=COMMANDS["broker"],
        description="A real Kafka broker for development: one node, on loopback, without security. It needs Java 17 "
        "and an unpacked Kafka, and downloads nothing.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = actions.add_parser("up", help="start it, unless it runs", description="Start it, and wait until it answers.")
    up.add_argument("--kafka", metavar="DIR", help="unpacked Kafka (default: KAFKA_HOME, or where kafka-topics.sh is)")
    up.add_argument("--port", type=int, default=_PORT, metavar="N", help=f"(default: {_PORT})")
    up.add_argument(
        "--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="create it (may be given again)"
    )
    status = actions.add_parser("status", help="say whether it runs", description="Exit code 1: it doesn't run.")
    down = actions.add_parser("down", help="stop it", description="Stop it. Topics are kept, unless --delete.")
    down.add_argument("--delete", action="store_true", help="delete its directory, with all topics")
    for each in (up, status, down):
        each.add_argument(
            "--dir", metavar="DIR", help="its files (default: stoatflow/broker in XDG_STATE_HOME or ~/.local/state)"
        )
        add_json(each)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Do it."""
    directory = _directory(given.dir)
    state = _running(directory)
    if given.action == "status":
        return _say(given, state, "no broker runs. Next: stoatflow broker up", 0 if state else 1)
    if given.action == "down":
        return _down(given, directory, state)
    topics = [_topic(text) for text in given.topic]
    if state is None:
        state = _up(directory, given.port, _kafka(given.kafka), _java())
    for name, partitions in topics:
        _client(state["bootstrap"]).create_topic(name, partitions, [])
    return _say(given, state, "", 0)


def _say(given: argparse.Namespace, state: dict[str, Any] | None, none: str, code: int) -> int:
    if given.json:
        print_json(given, {"running": state is not None, **(state or {})})
    elif state is None:
        print(none)
    else:
        print(f"Kafka {state['kafka']} at {state['bootstrap']}, process {state['pid']}, log {state['log']}")
        print("stop it: stoatflow broker down" + (f" --dir {given.dir}" if given.dir else ""))
    return code


# Start and stop --------------------------------------------------------------------------------


def _up(directory: Path, port: int, jars: list[Path], java: str) -> dict[str, Any]:
    directory.mkdir(parents=True, exist_ok=True)
    server, log = directory / _SERVER, directory / "broker.log"
    server.write_text(_properties(directory, port, _free_port(port)), encoding="utf-8")
    folders = sorted({str(jar.parent) for jar in jars})
    command = [java, *_MEMORY, "-cp", os.pathsep.join(f"{folder}/*" for folder in folders)]
    if not (directory / "data" / "meta.properties").exists():
        _format(command, server)
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603  # the user's own Java
            [*command, "kafka.Kafka", str(server)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _started.append(process)
    state: dict[str, Any] = {
        "bootstrap": f"{_HOST}:{port}",
        "pid": process.pid,
        "kafka": _version(jars),
        "log": str(log),
    }
    (directory / _STATE).write_text(json.dumps(state), encoding="utf-8")
    deadline = time.monotonic() + _START_S
    while not _answers(state["bootstrap"]):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            (directory / _STATE).unlink()
            raise ConfigError(f"the broker doesn't start; the end of {log}:\n{_end(log)}", next_step="see its log")
        time.sleep(0.2)
    return state


def _down(given: argparse.Namespace, directory: Path, state: dict[str, Any] | None) -> int:
    import shutil

    if state is not None:
        _end_process(int(state["pid"]), str(directory / _SERVER))
        (directory / _STATE).unlink(missing_ok=True)
    # Only a directory of this command is deleted.
    deletes = given.delete and (directory / _SERVER).is_file()
    if deletes:
        shutil.rmtree(directory)
    if given.json:
        print_json(given, {"stopped": state is not None, "deleted": deletes})
    else:
        print("stopped" if state is not None else "no broker runs", end="")
        print(f", and deleted {directory}" if deletes else "")
    return 0


def _end_process(pid: int, server: str) -> None:
    for number, seconds in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, 10.0)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if _has_ended(pid, server):
                return
            time.sleep(0.1)


def _has_ended(pid: int, server: str) -> bool:
    """Return whether the process has ended and closed its files and sockets.

    A process that is ending loses its command line first, so an empty one says nothing.
    """
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # another process has started it
        pass
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # PermissionError: the number is another user's process now
        return True
    line = _command_line(pid)
    return _is_zombie(pid) or (line != "" and server not in line)


def _is_zombie(pid: int) -> bool:
    """Return whether it has ended and its parent hasn't asked for its exit code, which some containers never do."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _running(directory: Path) -> dict[str, Any] | None:
    """Return the state of the broker of this directory, if its process is still that broker."""
    try:
        state: dict[str, Any] = json.loads((directory / _STATE).read_text("utf-8"))
        pid = int(state["pid"])
    except (OSError, ValueError, KeyError):
        return None
    return state if str(directory / _SERVER) in _command_line(pid) else None


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    command = ["/bin/ps", "-o", "args=", "-p", str(pid)]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return asked.stdout


def _answers(bootstrap: str) -> bool:
    import socket

    from stoatflow.errors import StoatFlowError

    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
        _client(bootstrap).topic("__stoatflow_broker")
    except (OSError, StoatFlowError):
        return False
    return True


def _client(bootstrap: str) -> Any:
    from stoatflow._runtime.bridge import TopicsClient

    return TopicsClient([("application.id", "stoatflow-broker"), ("bootstrap.servers", bootstrap)])


# Finding what it needs -------------------------------------------------------------------------


def _directory(given: str | None) -> Path:
    if given is not None:
        return Path(given).absolute()
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base).absolute() / "stoatflow" / "broker"


def _kafka(given: str | None) -> list[Path]:
    """Return the jars of an unpacked Kafka."""
    import shutil

    tool = shutil.which("kafka-topics.sh")
    beside = str(Path(tool).resolve().parents[1]) if tool else None
    found = given or os.environ.get("KAFKA_HOME") or beside
    if found is None:
        raise ConfigError("there is no Kafka", next_step=_GET_KAFKA)
    jars = sorted([*Path(found).glob("libs/*.jar"), *Path(found).glob("*.jar")])
    if not any(jar.name.startswith("kafka_2.") for jar in jars):
        raise ConfigError(f"{found} has no libs/kafka_2.*.jar", next_step=_GET_KAFKA)
    return jars


def _version(jars: list[Path]) -> str:
    jar = next(jar for jar in jars if jar.name.startswith("kafka_2."))
    return jar.stem.partition("-")[2]


def _java() -> str:
    import re
    import shutil

    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise ConfigError("there is no Java", next_step=_GET_JAVA)
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise ConfigError(f"{java} can't be run: {error}", next_step=_GET_JAVA) from None
    found = re.search(r'version "(\d+)', asked.stderr + asked.stdout)
    if found is None or int(found[1]) < 17:
        raise ConfigError(f"{java} is older than Java 17, or doesn't run", next_step=_GET_JAVA)
    return java


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    if not name or (colon and not (partitions.isdigit() and int(partitions))):
        raise ConfigError(f"--topic {text}: a name and a number are needed", next_step="write --topic orders:4")
    return name, int(partitions or 1)


def _free_port(broker: int) -> int:
    """Return a port for the controller; raise `ConfigError` if the broker's is taken."""
    import socket

    with socket.socket() as taken, socket.socket() as free:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((_HOST, broker))
        except OSError as error:
            raise ConfigError(f"port {broker} can't be used: {error}", next_step="give another one: --port") from None
        free.bind((_HOST, 0))
        port: int = free.getsockname()[1]
        return port


def _format(command: list[str], server: Path) -> None:
    import base64
    import uuid

    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(server)]
    done = subprocess.run([*command, *tool], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-1000:]
        raise ConfigError(f"Kafka can't format its storage: {said}", next_step=f"check {server.parent}")


def _end(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-8:])


def _properties(directory: Path, port: int, controller: int) -> str:
    own = f"PLAINTEXT://{_HOST}:{port}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{_HOST}:{controller}",
        "listeners": f"{own},CONTROLLER://{_HOST}:{controller}",
        "advertised.listeners": own,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "data"),
        # One node holds one replica of everything.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # Fewer partitions, so that it starts faster.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        "log.cleaner.threads": "1",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
