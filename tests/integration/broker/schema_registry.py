"""A real schema registry: Apicurio, which has Confluent's API, with its storage in memory.

Takes nothing but Maven Central. Gives an address on loopback. A gate in front of it requires credentials, speaks
TLS, and is unavailable on request; whatever it lets through is answered by the registry itself.
"""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import ssl
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from broker.broker_config import HOST
from broker.java_home import BrokerError, cache_dir, find_java
from broker.jvm import BrokerProcess, quote_log
from broker.maven_jars import complete_folder, pom_property, run_maven

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_START_S = 120.0
_PATH = "/apis/ccompat/v7"
_LISTENING = re.compile(r"Listening on: http://[^:]+:(\d+)")


def _server() -> Path:
    pom = Path(__file__).resolve().parent / "registry" / "pom.xml"
    version = pom_property(pom, "apicurio.version")

    def fill(partial: Path) -> None:
        goal = f"org.apache.maven.plugins:maven-dependency-plugin:{pom_property(pom, 'plugin.version')}:get"
        artifact = f"io.apicurio:apicurio-registry-app:{version}:tar.gz:all"
        run_maven(pom, [goal, f"-Dartifact={artifact}", "-Dtransitive=false"], f"Apicurio Registry {version}")
        got = cache_dir() / "maven" / "io" / "apicurio" / "apicurio-registry-app" / version
        shutil.unpack_archive(got / f"apicurio-registry-app-{version}-all.tar.gz", partial)

    folder = complete_folder(cache_dir() / f"apicurio-{version}", [pom], fill)
    return folder / f"apicurio-registry-app-{version}-runner.jar"


class SchemaRegistryServer:
    """`with SchemaRegistryServer() as registry: ...`; its contents are lost at the end."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="stoatflow-registry-"))
        self._process: BrokerProcess | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of Confluent's API."""
        return f"http://{HOST}:{self.port}{_PATH}"

    def __enter__(self) -> Self:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        quarkus = [f"-Dquarkus.http.host={HOST}", "-Dquarkus.http.port=0", "-Dquarkus.log.level=INFO"]
        java, log = [str(find_java()), *options, *quarkus], self._folder / "registry.log"
        self._process = BrokerProcess(java, _server(), log, self._folder, main="-jar")
        until = time.monotonic() + _START_S
        while (found := _LISTENING.search(log.read_text(errors="replace"))) is None:
            if self._process.exit_code is not None or time.monotonic() > until:
                output = quote_log(log)
                self.__exit__(None, None, None)
                raise BrokerError(f"The schema registry did not start.\n{output}")
            time.sleep(0.05)
        self.port = int(found[1])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.end(signal.SIGKILL, 10)
        shutil.rmtree(self._folder, ignore_errors=True)


class Gate:
    """A reverse proxy for a registry. `authorization` is the required header; while `away` it answers 503."""

    def __init__(
        self, registry: SchemaRegistryServer, authorization: str | None = None, certificate: Path | None = None
    ) -> None:
        self.registry, self.authorization = registry, authorization
        self.away = False
        self.redirect: str | None = None
        self.seen: list[str] = []
        """Method and path of each request that arrived."""
        self._http = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"gate": self}))
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._scheme = "http" if certificate is None else "https"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True, name="registry-gate")

    @property
    def url(self) -> str:
        """The gate's URL."""
        return f"{self._scheme}://{HOST}:{self._http.server_address[1]}{_PATH}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    gate: Gate

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        gate = self.gate
        gate.seen.append(f"{self.command} {self.path.removeprefix(_PATH)}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if gate.redirect is not None:
            self._answer(307, b"", location=gate.redirect)
            return
        if gate.away:
            self._answer(503, b"closed for now")
            return
        if gate.authorization is not None and self.headers.get("Authorization") != gate.authorization:
            output = f'{{"error_code": 40101, "message": "no entry for {self.headers.get("Authorization")}"}}'
            self._answer(401, output.encode())
            return
        there = http.client.HTTPConnection(HOST, gate.registry.port, timeout=60)
        kept = {name: self.headers[name] for name in ("Content-Type", "Accept") if name in self.headers}
        there.request(self.command, self.path, body or None, kept)
        answer = there.getresponse()
        self._answer(answer.status, answer.read())
        there.close()

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
