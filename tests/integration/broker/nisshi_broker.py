"""Nisshi, a broker in Rust that has Kafka's protocol and none of its code, on loopback.

Takes: cargo, which installs the crate the first time (into the cache); for the storage `postgres`, PostgreSQL.
Gives: `NisshiBroker`, a context manager, and a command: `python nisshi_broker.py memory COMMAND ...` runs COMMAND with
the address in STOATFLOW_TEST_BOOTSTRAP.
Owns: one broker process, and ends it by its pid, also when the program that started it is killed.
Never: is part of `make test`; compiling it takes ten minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in {None, ""}:  # run as a script: the package is the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker import wire
from broker.broker_config import HOST, free_port_numbers
from broker.guarded_process import GuardedProcess
from broker.java_home import BrokerError, cache_dir
from broker.jvm import quote_log
from broker.maven_jars import complete_folder
from broker.postgres_server import PostgresServer

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

VERSION = "0.8.1"
STORAGES = ("memory", "sqlite", "postgres")
_FEATURES = "dynostore,libsql,postgres"
_LEAST_RUST = (1, 96)
_START_S = 60.0


def _rust() -> str:
    """A toolchain of rustup that can compile it, as `cargo +NAME` takes it."""
    listed = subprocess.run(["rustup", "toolchain", "list", "--quiet"], capture_output=True, text=True, check=False)
    for name in listed.stdout.split():
        command = ["rustup", "run", name, "rustc", "--version"]
        version = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found = re.search(r" (\d+)\.(\d+)\.", version)
        if found is not None and (int(found[1]), int(found[2])) >= _LEAST_RUST:
            return name
    raise BrokerError(
        f"Nisshi {VERSION} needs Rust {_LEAST_RUST[0]}.{_LEAST_RUST[1]} or newer, and rustup has none. "
        f"Next: rustup toolchain install {_LEAST_RUST[0]}.{_LEAST_RUST[1]} --profile minimal"
    )


def nisshi() -> Path:
    """The binary; compiled the first time."""

    def fill(partial: Path) -> None:
        target = partial / "target"
        command = [
            "cargo",
            f"+{_rust()}",
            "install",
            "nisshi",
            "--version",
            VERSION,
            "--locked",
            "--root",
            str(partial),
        ]
        variables = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1"}
        # Variables of this project's own builds don't concern it.
        variables.pop("RUSTUP_TOOLCHAIN", None)
        options = ["--no-default-features", "--features", _FEATURES]
        print(f"Nisshi {VERSION}: compiling (ten minutes, only the first time)", file=sys.stderr, flush=True)
        if subprocess.run([*command, *options], env=variables, check=False).returncode != 0:
            raise BrokerError(
                f"cargo could not install Nisshi {VERSION}; its message is above. "
                "Next: check that cargo can download crates, and that there is a C compiler and cmake; run it again."
            )
        shutil.rmtree(target, ignore_errors=True)

    return complete_folder(cache_dir() / f"nisshi-{VERSION}" / "installed", [], fill) / "bin" / "nisshi"


class NisshiBroker:
    """`with NisshiBroker("memory") as broker: connect(broker.bootstrap)`; its data is lost at the end."""

    def __init__(self, storage: str) -> None:
        if storage not in STORAGES:
            raise BrokerError(f"Nisshi has no storage {storage!r} here; there are: {', '.join(STORAGES)}")
        self._storage = storage
        self._port = free_port_numbers(1)[0]
        self._around = ExitStack()

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:port`."""
        return f"{HOST}:{self._port}"

    def _storage_url(self, folder: Path) -> str:
        if self._storage == "postgres":
            return self._around.enter_context(PostgresServer()).url
        # Nisshi takes the path without its first slash.
        return "memory://nisshi/" if self._storage == "memory" else f"sqlite:///{folder}/nisshi.db"

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.push(self._around)
            folder = Path(tempfile.mkdtemp(prefix="stoatflow-nisshi-"))
            self._around.callback(shutil.rmtree, folder, ignore_errors=True)
            address, log = f"tcp://{self.bootstrap}", folder / "broker.log"
            command = [
                str(nisshi()), "broker", "--listener-url", address, "--advertised-listener-url", address,
                "--storage-engine", self._storage_url(folder), "--silent",
            ]  # fmt: skip
            process = GuardedProcess(command, address, log, folder)
            self._around.callback(process.end, signal.SIGTERM, 10.0)
            self._wait_until_it_answers(process, log)
            starting.pop_all()
        return self

    def _wait_until_it_answers(self, process: GuardedProcess, log: Path) -> None:
        until = time.monotonic() + _START_S
        while True:
            try:
                wire.api_versions(HOST, self._port, timeout=2.0)
            except OSError as error:  # noqa: PERF203 (asked again a few times, not in a hot loop)
                if process.exit_code is not None or time.monotonic() > until:
                    raise BrokerError(f"Nisshi did not start ({error}).\n{quote_log(log)}") from None
                time.sleep(0.05)
            else:
                return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._around.close()


def main(storage: str, command: list[str]) -> int:
    with NisshiBroker(storage) as broker:
        print(f"    Nisshi {VERSION} on {storage} at {broker.bootstrap}", flush=True)
        variables = {**os.environ, "STOATFLOW_TEST_BOOTSTRAP": broker.bootstrap}
        return subprocess.run(command, env=variables, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except BrokerError as problem:
        sys.exit(f"error: {problem}")
