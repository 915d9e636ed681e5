"""Kafka's own Java clients for tests, in one JVM that takes commands, since a JVM per call would cost seconds."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.java_home import find_java, find_javac
from broker.listeners import client_login
from broker.maven_jars import kafka_jars

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_SOURCE = Path(__file__).resolve().parent / "Client.java"
_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class RefusedError(Exception):
    """A Kafka client failed; the text names the exceptions, the outermost first."""


class JavaClient:
    """`with JavaClient(folder, token_endpoints) as java: java.write(cluster.client("SSL"), "topic", "value")`."""

    def __init__(self, folder: Path, token_endpoints: Sequence[str]) -> None:
        self._folder, self._files = folder, 0
        find_javac()
        command = [
            str(find_java()), "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(token_endpoints)}",
            "-cp", f"{kafka_jars()}/*", str(_SOURCE),
        ]  # fmt: skip
        # The JVM ends when its standard input closes.
        with (folder / "java-client.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def write(self, client: Mapping[str, str], topic: str, value: str) -> None:
        """Writes a value to partition 0."""
        self._ask("write", client, topic, value)

    def read(self, client: Mapping[str, str], topic: str) -> list[str]:
        """All values of partition 0."""
        return self._ask("read", client, topic).split(",")

    def _ask(self, command: str, client: Mapping[str, str], *words: str) -> str:
        self._files += 1
        file = self._folder / f"client-{self._files}.properties"
        file.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in java_properties(client).items()))
        if self._process.stdin is None or self._process.stdout is None:
            raise RefusedError("the Java client was started without pipes")
        self._process.stdin.write(f"{command} {file} {' '.join(words)}\n")
        self._process.stdin.flush()
        outcome, _, text = self._process.stdout.readline().rstrip("\n").partition(" ")
        if outcome != "ok":
            raise RefusedError(text or f"the Java client ended; see {self._folder / 'java-client.log'}")
        return text


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def java_properties(client: Mapping[str, str]) -> dict[str, str]:
    """Converts properties from librdkafka's names to those of Kafka's Java clients."""
    found = {key: client[key] for key in ("bootstrap.servers", "security.protocol")}
    if "ssl.ca.location" in client:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": client["ssl.ca.location"]}
    if "ssl.certificate.location" in client:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(client["ssl.certificate.location"]).read_text(),
            "ssl.keystore.key": Path(client["ssl.key.location"]).read_text(),
        }
        if "ssl.key.password" in client:
            found["ssl.key.password"] = client["ssl.key.password"]
    mechanism = client.get("sasl.mechanism")
    if mechanism == "OAUTHBEARER":
        found |= {
            "sasl.mechanism": mechanism,
            "sasl.login.callback.handler.class": _TOKENS,
            "sasl.oauthbearer.token.endpoint.url": client["sasl.oauthbearer.token.endpoint.url"],
            "sasl.jaas.config": client_login(
                mechanism, client["sasl.oauthbearer.client.id"], client["sasl.oauthbearer.client.secret"]
            ),
        }
    elif mechanism is not None:
        login = client_login(mechanism, client["sasl.username"], client["sasl.password"])
        found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return found
