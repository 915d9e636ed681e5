"""A PostgreSQL server on loopback with its own data folder, for brokers that store their records in one.

Takes: the server's programs (Debian: `apt-get install postgresql`). Gives: a URL. Owns one process and its folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from broker.broker_config import HOST, free_port_numbers
from broker.guarded_process import GuardedProcess
from broker.java_home import BrokerError
from broker.jvm import quote_log

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_START_S = 60.0


def _program(name: str) -> str:
    """The newest version that Debian has installed; its own folder is not on the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        raise BrokerError(f"There is no {name}. Next: sudo apt-get install postgresql (Debian, Ubuntu)")
    return found


# PostgreSQL refuses to run as root; in a user namespace of its own, root is another user.
_AS_USER = ["unshare", "--user"] if os.geteuid() == 0 else []


class PostgresServer:
    """`with PostgresServer() as server: connect(server.url)`; its data is lost at the end."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="stoatflow-postgres-"))
        self._port = free_port_numbers(1)[0]
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """The address of its database, as a superuser."""
        return f"postgres://postgres@{HOST}:{self._port}/postgres"

    def __enter__(self) -> Self:
        data, log = self._folder / "data", self._folder / "postgres.log"
        init = [*_AS_USER, _program("initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        done = subprocess.run([*init, "--no-sync"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerError(f"initdb failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
        options = ["-h", HOST, "-p", str(self._port), "-k", str(self._folder), "-c", "fsync=off"]
        command = [*_AS_USER, _program("postgres"), "-D", str(data), *options]
        self._process = GuardedProcess(command, str(data), log, self._folder)
        until = time.monotonic() + _START_S
        ready = [_program("pg_isready"), "-q", "-h", HOST, "-p", str(self._port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.exit_code is not None or time.monotonic() > until:
                output = quote_log(log)
                self.__exit__(None, None, None)
                raise BrokerError(f"PostgreSQL did not start.\n{output}")
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(signal.SIGINT, 30.0)
        shutil.rmtree(self._folder, ignore_errors=True)
