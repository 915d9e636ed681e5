"""A real Apache Kafka cluster with TLS, SASL and ACLs on loopback: three nodes, or one for cheap tests.

`KafkaCluster` is a context manager; `python cluster.py --print` is the same for programs in other languages. Each node
is broker and controller in a process of its own. They end by their pids, also when the program that started them is
killed, and all files go with them.

Needs Java 17, Maven the first time, and the Python package `cryptography`.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NoReturn

if __package__ in {None, ""}:  # run as a script: the package is the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker import wire, wire_admin
from broker.broker_config import HOST, write_config
from broker.certificates import KEY_PASSWORD, Certificates
from broker.cluster_config import Node, Tokens, java_options, keystore_settings, make_nodes, node_properties
from broker.java_home import BrokerError, find_java
from broker.jvm import BrokerProcess, cluster_id, format_storage, quote_log
from broker.listeners import (
    ADMIN,
    ALL_LISTENERS,
    ALLOWED,
    ANONYMOUS,
    DENIED,
    INTERNAL,
    LISTENERS,
    PASSWORDS,
    client_properties,
    scram_options,
)
from broker.maven_jars import kafka_jars
from broker.token_server import TokenServer
from broker.wire_admin import Acl, Coordinator, Operation, Pattern, Resource

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 only

LOGIN = wire.Login(ADMIN, PASSWORDS[ADMIN])


class KafkaCluster:
    """`with KafkaCluster() as cluster: connect(cluster.client("SASL_SSL_SCRAM"))`.

    `version` is a Kafka version on Maven Central; by default that of the other tests. `settings` are added to
    server.properties of every node; `java_options` replace those that keep a node small.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        version: str | None = None,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        java_options: Sequence[str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        self._count, self._version, self._settings = nodes, version, dict(settings or {})
        self._heap_mb, self._start_timeout, self._java_options = heap_mb, start_timeout, java_options
        self._folder: Path | None = None
        self._java: list[str] = []
        self._upgraded: dict[int, str] = {}
        self._nodes: list[Node] = []
        self._running: dict[int, BrokerProcess] = {}
        self._paused: set[int] = set()
        self.tokens = TokenServer({user: PASSWORDS[user] for user in (ALLOWED, DENIED)})
        """Issues SASL/OAUTHBEARER tokens: a client's id is the user, its secret the password."""

    # -- properties

    @property
    def certificates(self) -> Certificates:
        """The files for clients."""
        return self._certificates

    @property
    def nodes(self) -> list[int]:
        """The numbers of all nodes."""
        return [node.number for node in self._nodes]

    @property
    def folder(self) -> Path:
        """All files that the nodes write."""
        if self._folder is None:
            raise BrokerError("The cluster was not started.")
        return self._folder

    def bootstrap(self, listener: str = "PLAINTEXT", *, without: int | None = None) -> str:
        """`127.0.0.1:port` of every node, or of all but one; the same after a restart."""
        if not any(each.name == listener for each in ALL_LISTENERS):
            raise ValueError(f"there is no listener {listener!r}; there are: {', '.join(e.name for e in LISTENERS)}")
        return ",".join(f"{HOST}:{node.ports[listener]}" for node in self._nodes if node.number != without)

    def client(self, listener: str, user: str = ALLOWED, mechanism: str | None = None) -> dict[str, str]:
        """The properties of a client that may connect, with the names of librdkafka and StoatFlow."""
        chosen = next(each for each in ALL_LISTENERS if each.name == listener)
        return {
            "bootstrap.servers": self.bootstrap(listener),
            **client_properties(chosen, self.certificates, self.tokens.endpoint(), user, mechanism),
        }

    def pid(self, node: int) -> int:
        """The process id of a running node."""
        return self._process(node).pid

    def log_file(self, node: int) -> Path:
        """What a node printed."""
        return self._node(node).log_file

    # -- life cycle

    def __enter__(self) -> Self:
        try:
            return self._start_all()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all nodes immediately and removes their files."""
        for process in self._running.values():
            process.send(signal.SIGKILL)
        for node in list(self._running):
            self.kill(node)
        self.tokens.close()
        self._upgraded.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def start(self, node: int) -> None:
        """Starts a node again on its data and ports; returns when it answers."""
        if node in self._running:
            raise BrokerError(f"Node {node} already runs as process {self.pid(node)}.")
        self._launch(self._node(node))
        self._wait_until_it_answers(self._node(node))

    def kill(self, node: int) -> None:
        """Ends a node with SIGKILL, as a crash would."""
        self._end(node, signal.SIGKILL, 10.0)

    def end(self, node: int) -> None:
        """Stops a node cleanly, so that others become leaders of its partitions."""
        self._end(node, signal.SIGTERM, 30.0)

    def restart(self, node: int) -> None:
        """Stops a node cleanly and starts it again."""
        self.end(node)
        self.start(node)

    def upgrade(self, node: int, version: str) -> None:
        """Stops a node cleanly and starts it with another version of Kafka, on its data, settings and ports."""
        kafka_jars(version)  # before the node stops: a download takes a while
        self.end(node)
        self._upgraded[node] = version
        self.start(node)

    def pause(self, node: int) -> None:
        """Pauses a node's process (SIGSTOP): its connections stay open, but it doesn't respond."""
        self._process(node).send(signal.SIGSTOP)
        self._paused.add(node)

    def resume(self, node: int) -> None:
        """Resumes a paused node."""
        self._process(node).send(signal.SIGCONT)
        self._paused.discard(node)

    # -- operations

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, replicas: int | None = None
    ) -> None:
        """Creates a topic; returns when every partition has a leader that all running nodes know."""
        copies = min(3, len(self._nodes)) if replicas is None else replicas
        port = self._any_port()
        error, words = wire.create_topic(HOST, port, name, partitions, configs or {}, 30.0, copies, LOGIN)
        if error != 0:
            raise BrokerError(f"Kafka refused to create topic {name!r} (error {error}): {words}")
        self._wait(f"topic {name!r} has no leaders", lambda: self._has_leaders(name, partitions))

    def configure(self, topic: str, **settings: str) -> None:
        """Changes settings of a topic; their dots are underscores."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        wire_admin.alter_topic(HOST, self._any_port(), LOGIN, topic, named)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition, or -1."""
        return wire.metadata(HOST, self._any_port(), [topic], login=LOGIN).topics[topic].leaders[partition]

    def replicas(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The in-sync replicas of a partition."""
        return wire.metadata(HOST, self._any_port(), [topic], login=LOGIN).topics[topic].in_sync[partition]

    def coordinator(self, kind: Coordinator, of: str) -> int:
        """The node that coordinates a group or a transactional id; -1 while there is none."""
        return wire_admin.coordinator(HOST, self._any_port(), LOGIN, kind, of)

    def controller(self) -> int:
        """The node that leads the controllers; -1 while there is none."""
        return wire_admin.controller(HOST, self._any_port(), LOGIN)

    def wait_until_missed(self, node: int) -> None:
        """Returns when the other nodes know that a node is gone, so that clients are no longer sent to it."""
        self._wait(
            f"the others still count on node {node}",
            lambda: node not in wire.metadata(HOST, self._any_port(), [], login=LOGIN).brokers,
        )

    def wait_until_in_sync(self, topic: str) -> None:
        """Returns when all nodes are in sync for a topic that has a replica on each, so that any of them may stop."""

        def done() -> bool:
            # All nodes are asked: one that was paused still considers itself the leader, with all replicas
            # in sync.
            reported = [
                wire.metadata(HOST, node.ports[INTERNAL], [topic], login=LOGIN).topics[topic]
                for node in self._answering()
            ]
            in_sync = all(len(nodes) == len(self._nodes) for info in reported for nodes in info.in_sync.values())
            return in_sync and all(info.leaders == reported[0].leaders for info in reported)

        self._wait(f"not every node is in sync with topic {topic!r}", done)

    def grant(self, user: str, resource: Resource, name: str, *operations: Operation, prefixed: bool = False) -> None:
        """Permits operations; returns when all running nodes know it."""
        acls = _acls(user, resource, name, operations, prefixed=prefixed)
        wire_admin.create_acls(HOST, self._any_port(), LOGIN, acls)
        self._wait_for_acls(acls, known=True)

    def revoke(self, user: str, resource: Resource, name: str, *operations: Operation, prefixed: bool = False) -> None:
        """Revokes what `grant` permitted with the same arguments; returns when all running nodes know it."""
        acls = _acls(user, resource, name, operations, prefixed=prefixed)
        wire_admin.delete_acls(HOST, self._any_port(), LOGIN, acls)
        self._wait_for_acls(acls, known=False)

    def limit(self, client_id: str, **quotas: float | None) -> None:
        """Sets quotas of a `client.id`, such as `producer_byte_rate`; None removes one."""
        wire_admin.alter_quotas(HOST, self._any_port(), LOGIN, client_id, quotas)

    def features(self) -> Mapping[str, int]:
        """The finalized levels of features, where all running nodes agree; without those that are 0."""
        reported = [wire_admin.features(HOST, node.ports[INTERNAL], LOGIN).finalized for node in self._answering()]
        return {name: level for name, level in reported[0].items() if all(each.get(name) == level for each in reported)}

    def upgrade_features(self) -> None:
        """Upgrades every feature to the newest level that all nodes support.

        As `kafka-features.sh upgrade` does; returns when all running nodes have finalized it.
        """
        reported = [wire_admin.features(HOST, node.ports[INTERNAL], LOGIN).supported for node in self._answering()]
        # Controllers that are listed in the settings have no level of their own.
        names = set.intersection(*(set(each) for each in reported)) - {"kraft.version"}
        wanted = {name: min(each[name] for each in reported) for name in sorted(names)}
        wire_admin.update_features(HOST, self._any_port(), wanted, LOGIN)
        self._wait(f"not every node goes by {wanted}", lambda: self.features() == wanted)

    def renew_certificates(self) -> None:
        """Gives all running brokers a new certificate from the same CA; returns when every listener presents it."""
        keystore = self.certificates.renewed_server()
        listeners = [listener for listener in LISTENERS if listener.certificate == "server"]
        settings = {key: value for each in listeners for key, value in keystore_settings(each, keystore).items()}
        for node in self._answering():
            wire_admin.alter_broker(HOST, node.ports[INTERNAL], LOGIN, node.number, settings)
        ports = [node.ports[listener.name] for node in self._answering() for listener in listeners]
        renewed = keystore.read_text()
        self._wait(
            "not every listener shows the new certificate",
            lambda: all(ssl.get_server_certificate((HOST, port), timeout=30.0).strip() in renewed for port in ports),
        )

    def as_json(self) -> dict[str, object]:
        """Everything that a client in another process needs."""
        return {
            "bootstrap": {each.name: self.bootstrap(each.name) for each in LISTENERS},
            "clients": {each.name: self.client(each.name) for each in LISTENERS},
            "passwords": {user: PASSWORDS[user] for user in (ALLOWED, DENIED, ADMIN)},
            "certificates": {**self.certificates.paths(), "key_password": KEY_PASSWORD},
            "token_endpoints": self.tokens.endpoints(),
            "pids": {str(node): process.pid for node, process in self._running.items()},
        }

    def check(self) -> None:
        """Raises BrokerError if a node has ended by itself."""
        for number, process in self._running.items():
            if process.exit_code is not None:
                raise BrokerError(f"Node {number} ended by itself. {quote_log(self.log_file(number))}")

    # -- internals

    def _start_all(self) -> Self:
        java = find_java()
        self._folder = Path(tempfile.mkdtemp(prefix="stoatflow-cluster-"))
        self._certificates = Certificates(self._folder / "certificates", (ALLOWED, DENIED))
        self.tokens.open()
        key_set = self._folder / "key-set.json"
        key_set.write_text(self.tokens.key_set())
        self._tokens = Tokens(key_set, self.tokens.issuer)
        self._nodes = make_nodes(self._count, self._folder)
        options = java_options(self._tokens, self._heap_mb, self._java_options)
        self._java = [str(java), *options]
        cluster = cluster_id()

        def prepare(node: Node) -> None:
            node.folder.mkdir()
            own = {**self._controller_addresses(node), **self._settings}
            settings = node_properties(node, self._nodes, self._certificates, self._tokens, own)
            server, _ = write_config(node.folder, settings)
            format_storage(self._command(node), server, cluster, *scram_options())

        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(prepare, self._nodes))
        for node in self._nodes:
            self._launch(node)
        for node in self._nodes:
            self._wait_until_it_answers(node)
        for user in (ALLOWED, ANONYMOUS):
            self._permit_everything(user)
        return self

    def _controller_addresses(self, node: Node) -> dict[str, str]:
        """Settings of a node that reaches controllers, and is reached, at other addresses than they listen on."""
        del node
        return {}

    def _permit_everything(self, user: str) -> None:
        for resource in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID):
            self.grant(user, resource, "*", Operation.ALL)
        self.grant(user, Resource.CLUSTER, "kafka-cluster", Operation.ALL)

    def _command(self, node: Node) -> list[str]:
        """The Java command with the jars of the node's version."""
        return [*self._java, "-cp", f"{kafka_jars(self._upgraded.get(node.number, self._version))}/*"]

    def _launch(self, node: Node) -> None:
        logger = node.folder / "log4j2.properties"
        java = self._command(node)
        java.insert(1, f"-Dlog4j2.configurationFile={logger}")
        self._running[node.number] = BrokerProcess(
            java, node.folder / "server.properties", node.log_file, temporary=self._folder
        )

    def _node(self, number: int) -> Node:
        found = next((node for node in self._nodes if node.number == number), None)
        if found is None:
            raise ValueError(f"there is no node {number}; there are: {self.nodes}")
        return found

    def _process(self, node: int) -> BrokerProcess:
        self._node(node)
        if node not in self._running:
            raise BrokerError(f"Node {node} is not running: call start({node}) first.")
        return self._running[node]

    def _any_port(self) -> int:
        """The port of the harness's own listener on a node that responds."""
        for node in self._answering():
            return node.ports[INTERNAL]
        raise BrokerError("No node of the cluster is running.")

    def _answering(self) -> list[Node]:
        return [node for node in self._nodes if node.number in self._running and node.number not in self._paused]

    def _end(self, node: int, how: signal.Signals, patience: float) -> None:
        process = self._process(node)
        if node in self._paused:
            self.resume(node)
        process.end(how, patience)
        del self._running[node]

    def _has_leaders(self, name: str, partitions: int) -> bool:
        for node in self._answering():
            topic = wire.metadata(HOST, node.ports[INTERNAL], [name], login=LOGIN).topics.get(name)
            if not topic or topic.error != 0 or len(topic.leaders) != partitions or min(topic.leaders.values()) < 0:
                return False
        return True

    def _wait_for_acls(self, acls: list[Acl], *, known: bool) -> None:
        ports = [node.ports[INTERNAL] for node in self._answering()]
        self._wait(
            f"not every node has learnt that {acls} came or went",
            lambda: all(wire_admin.has_acl(HOST, port, LOGIN, acl) == known for port in ports for acl in acls),
        )

    def _wait(self, otherwise: str, done: Callable[[], bool], timeout: float = 90.0) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                raise BrokerError(f"After {timeout:.0f} s {otherwise}. {quote_log(self._nodes[0].log_file)}")
            time.sleep(0.05)

    def _wait_until_it_answers(self, node: Node) -> None:
        deadline = time.monotonic() + self._start_timeout
        own, last = f"{HOST}:{node.ports[INTERNAL]}", "no connection yet"
        while time.monotonic() < deadline:
            code = self._process(node.number).exit_code
            if code is not None:
                raise BrokerError(f"Node {node.number} ended with {code} while starting. {quote_log(node.log_file)}")
            try:
                if own in wire.metadata(HOST, node.ports[INTERNAL], [], 2.0, LOGIN).brokers.values():
                    return
                last = "it answers but is not registered"
            except OSError as error:
                last = str(error)
            time.sleep(0.1)
        raise BrokerError(
            f"Node {node.number} did not answer within {self._start_timeout:.0f} s ({last}). {quote_log(node.log_file)}"
        )


def _acls(user: str, resource: Resource, name: str, operations: tuple[Operation, ...], *, prefixed: bool) -> list[Acl]:
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    return [Acl(user, resource, name, operation, pattern) for operation in operations]


def _serve(cluster: KafkaCluster) -> None:
    """Prints what clients need, then executes commands from stdin, until stdin closes or a signal arrives."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        sys.exit(0 if number == signal.SIGTERM else 130)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with cluster:
        print(json.dumps(cluster.as_json()), flush=True)
        waiting = b""
        while True:
            ready, _, _ = select.select([sys.stdin], [], [], 0.5)
            if ready:
                read = os.read(sys.stdin.fileno(), 4096)
                if not read:
                    return
                *lines, waiting = (waiting + read).split(b"\n")
                for line in lines:
                    print(_obey(cluster, line.decode().split()), flush=True)
            cluster.check()


def _obey(cluster: KafkaCluster, words: list[str]) -> str:
    """Executes one command, as listed in the help of the command line; returns the answer."""
    commands: dict[str, Callable[[list[str]], None]] = {
        "kill": lambda rest: cluster.kill(int(rest[0])),
        "start": lambda rest: cluster.start(int(rest[0])),
        "restart": lambda rest: cluster.restart(int(rest[0])),
        "pause": lambda rest: cluster.pause(int(rest[0])),
        "resume": lambda rest: cluster.resume(int(rest[0])),
        "topic": lambda rest: cluster.create_topic(rest[0], int(rest[1])),
        "grant": lambda rest: cluster.grant(rest[0], Resource[rest[1]], rest[2], Operation[rest[3]]),
        "revoke": lambda rest: cluster.revoke(rest[0], Resource[rest[1]], rest[2], Operation[rest[3]]),
        "renew": lambda _: cluster.renew_certificates(),
    }
    if not words or words[0] not in commands:
        return f"error: there is no command {' '.join(words)!r}; there are: {', '.join(commands)}"
    try:
        commands[words[0]](words[1:])
    except (BrokerError, OSError, ValueError, LookupError) as error:
        return f"error: {' '.join(words)}: {type(error).__name__}: {error}".replace("\n", " ")
    return "ok"


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Run a secured Apache Kafka cluster on free loopback ports.",
        epilog="Lines on stdin, each answered by `ok` or `error: ...`: kill NODE, start NODE, restart NODE, "
        "pause NODE, resume NODE, topic NAME PARTITIONS, grant USER RESOURCE NAME OPERATION (grant bob TOPIC orders "
        "READ), revoke (the same), renew (the certificates of the brokers).",
    )
    parser.add_argument(
        "--print", action="store_true", required=True,
        help="start, print one line of JSON with addresses, passwords and files, run until stdin closes or SIGTERM",
    )  # fmt: skip
    parser.add_argument("--nodes", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--version", help="of Kafka (default: that of pom.xml)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all brokers")
    options = parser.parse_args(arguments)
    wrong = [entry for entry in options.set if "=" not in entry]
    if wrong:
        parser.error(f"--set wants KEY=VALUE, not {wrong[0]!r}")
    settings = dict(entry.split("=", 1) for entry in options.set)
    try:
        _serve(KafkaCluster(options.nodes, version=options.version, settings=settings))
    except BrokerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
