"""Faults of a cluster of three brokers and of its clients, one by one, drawn from a seed.

Takes the cluster and the applications; returns, for each fault, how to heal it. Owns which brokers are out. Doesn't
check the applications, but says which errors a fault explains.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from broker.listeners import DENIED
from broker.partitioned_cluster import PartitionedCluster
from broker.token_server import SHORT_S
from broker.wire_admin import Coordinator, Operation, Resource
from counting import until

from chaos.supervised import Counted

PATIENCE_S = 180.0
"""How long brokers of a busy machine may take to agree."""
INTERNAL = ("__consumer_offsets", "__transaction_state")
TROUBLE = ("expired", "error", "wrong-key")
"""What the token server issues instead of good tokens."""
QUOTAS = ({"producer_byte_rate": 2000.0, "consumer_byte_rate": 1000.0}, {"request_percentage": 0.2})


class Kind(Enum):
    """Kinds of faults, and their names in the report."""

    ROLLING = "rolling restart of all brokers under load"
    LEADER = "leader of a partition killed"
    TRANSACTIONS = "coordinator of transactions killed"
    GROUP = "coordinator of the group killed"
    CONTROLLER = "controller killed"
    CUT_OFF = "broker cut off from the others"
    PAUSED = "broker paused"
    FEW_IN_SYNC = "fewer replicas in sync than min.insync.replicas"
    TWO_OUT = "two of three brokers killed or paused"
    PERMISSION = "permission withdrawn"
    TOKENS = "tokens expired, and no good one to be had"
    CERTIFICATE = "certificates of the brokers renewed"
    QUOTA = "quota of the application"


ONE_OUT = {Kind.LEADER, Kind.TRANSACTIONS, Kind.GROUP, Kind.CONTROLLER, Kind.PAUSED}
"""Kinds that take one broker out: another one may be out already."""
OF_BROKERS = ONE_OUT | {Kind.ROLLING, Kind.CUT_OFF, Kind.FEW_IN_SYNC, Kind.TWO_OUT}
LEAST_S = {Kind.TOKENS: 2.5 * SHORT_S, Kind.PERMISSION: 4.0, Kind.QUOTA: 5.0}
"""Minimum duration of faults that take long to be noticed."""


class Fault(NamedTuple):
    """One fault."""

    kind: Kind
    hold_s: float
    """How long it lasts, unless the next fault comes earlier."""
    overlaps: bool
    """Whether it is healed only after the next fault has begun."""
    kills: bool
    """Whether an application is killed meanwhile."""


def schedule(seed: int, count: int) -> list[Fault]:
    """This many faults; the numbers of two kinds differ by at most one."""
    rng = random.Random(f"cluster faults {seed}")
    kinds = list(Kind) * (count // len(Kind)) + rng.sample(list(Kind), count % len(Kind))
    rng.shuffle(kinds)
    return [_drawn(rng, kind) for kind in kinds]


def _drawn(rng: random.Random, kind: Kind) -> Fault:
    # Some last longer than a broker's session timeout and the replica lag limit; a few longer than any
    # request timeout.
    most = 25.0 if rng.random() < 0.15 else 8.0
    hold_s = max(LEAST_S.get(kind, 0.0), rng.uniform(0.5, most))
    return Fault(kind, hold_s, rng.random() < 0.4, rng.random() < 0.3)


class Healing(NamedTuple):
    """How to end a fault that has begun."""

    what: str
    heal: Callable[[], None]
    out: frozenset[int] = frozenset()
    """The brokers that are out until then."""


class Faults:
    """Causes faults; `rng` chooses the targets."""

    def __init__(self, cluster: PartitionedCluster, applications: list[Counted], rng: random.Random) -> None:
        self._cluster, self._applications, self._rng = cluster, applications, rng
        self.out: set[int] = set()
        """Brokers that are out."""
        self._begin: dict[Kind, Callable[[], Healing]] = {
            Kind.ROLLING: self._rolling,
            Kind.LEADER: self._leader,
            Kind.TRANSACTIONS: self._transactions,
            Kind.GROUP: self._group,
            Kind.CONTROLLER: self._controller,
            Kind.CUT_OFF: self._cut_off,
            Kind.PAUSED: self._paused,
            Kind.FEW_IN_SYNC: self._few_in_sync,
            Kind.TWO_OUT: self._two_out,
            Kind.PERMISSION: self._permission,
            Kind.TOKENS: self._token,
            Kind.CERTIFICATE: self._certificate,
            Kind.QUOTA: self._quota,
        }

    def begin(self, kind: Kind) -> Healing:
        """Cause a fault; returns how to heal it."""
        done = self._begin[kind]()
        self.out |= done.out
        return done

    def heal(self, done: Healing) -> None:
        """Undo a fault."""
        done.heal()
        self.out -= done.out

    def until_in_sync(self) -> None:
        """Wait until all brokers are in sync, so that any of them may stop."""
        for topic in [*INTERNAL, *(topic for application in self._applications for topic in application.topics)]:
            self._cluster.wait_until_in_sync(topic)

    # -- faults of brokers

    def _rolling(self) -> Healing:
        for node in self._rng.sample(self._cluster.nodes, 3):
            self._cluster.restart(node)
            self.until_in_sync()
        return Healing("all three", nothing)

    def _leader(self) -> Healing:
        topic = self._rng.choice(self._any_application().topics)
        return self._killed(lambda: self._cluster.leader(topic), f"of {topic}-0")

    def _transactions(self) -> Healing:
        of = self._any_application().name + self._rng.choice(["", "~2"])
        return self._killed(lambda: self._cluster.coordinator(Coordinator.TRANSACTIONS, of), f"of {of}")

    def _group(self) -> Healing:
        of = self._any_application().name
        return self._killed(lambda: self._cluster.coordinator(Coordinator.GROUP, of), f"of {of}")

    def _controller(self) -> Healing:
        return self._killed(self._cluster.controller, "")

    def _killed(self, who: Callable[[], int], of: str) -> Healing:
        """Kill the node that `who` names, once there is one."""
        found = -1

        def is_known() -> bool:
            nonlocal found
            found = who()
            return found >= 0 and found not in self.out

        until(is_known, f"somebody is it {of}", PATIENCE_S)
        self._cluster.kill(found)
        return Healing(f"node {found} {of}".strip(), lambda: self._cluster.start(found), frozenset({found}))

    def _cut_off(self) -> Healing:
        node = self._live()
        self._cluster.cut_off(node)
        return Healing(f"node {node}", self._cluster.join, frozenset({node}))

    def _paused(self) -> Healing:
        node = self._live()
        self._cluster.pause(node)
        return Healing(f"node {node}", lambda: self._cluster.resume(node), frozenset({node}))

    def _few_in_sync(self) -> Healing:
        """All three replicas are required, and one is gone."""
        topic = self._rng.choice([*self._any_application().topics[1:], *INTERNAL])
        node = self._live()
        self._cluster.configure(topic, min_insync_replicas="3")
        self._cluster.kill(node)

        def heal() -> None:
            self._cluster.start(node)
            self._cluster.configure(topic, min_insync_replicas="2")

        return Healing(f"node {node} killed, of {topic}", heal, frozenset({node}))

    def _two_out(self) -> Healing:
        """There is no controller either."""
        two = self._rng.sample(self._cluster.nodes, 2)
        kill = self._rng.random() < 0.5
        for node in two:
            (self._cluster.kill if kill else self._cluster.pause)(node)

        def heal() -> None:
            for node in two:
                (self._cluster.start if kill else self._cluster.resume)(node)

        return Healing(f"nodes {two} {'killed' if kill else 'paused'}", heal, frozenset(two))

    # -- faults of clients

    def _permission(self) -> Healing:
        application = self._any_application()
        name = application.name
        resource, of, operation = self._rng.choice(
            [
                (Resource.TOPIC, application.sink, Operation.WRITE),
                (Resource.TOPIC, application.source, Operation.READ),
                (Resource.TOPIC, f"{name}-", Operation.WRITE),
                (Resource.TRANSACTIONAL_ID, name, Operation.WRITE),
                (Resource.GROUP, name, Operation.READ),
            ]
        )
        prefixed = resource is Resource.TRANSACTIONAL_ID or of == f"{name}-"
        application.excused.add("AuthorizationError")
        self._cluster.revoke(DENIED, resource, of, operation, prefixed=prefixed)

        def give_back() -> None:
            self._cluster.grant(DENIED, resource, of, operation, prefixed=prefixed)

        return Healing(f"{operation.name} on {resource.name} {of}", give_back)

    def _token(self) -> Healing:
        trouble = self._rng.choice(TROUBLE)
        for application in self._applications:
            if application.config.get("sasl.mechanism") == "OAUTHBEARER":
                application.excused.add("AuthorizationError")
        self._cluster.tokens.trouble = trouble

        def heal() -> None:
            self._cluster.tokens.trouble = ""

        return Healing(trouble, heal)

    def _certificate(self) -> Healing:
        """All brokers present a new certificate; if none is out, one is restarted, so that clients reconnect."""
        self._cluster.renew_certificates()
        if self.out:
            return Healing("of those that are there", nothing)
        node = self._live()
        self._cluster.restart(node)
        return Healing(f"of all, node {node} restarted", nothing)

    def _quota(self) -> Healing:
        application, quotas = self._any_application(), self._rng.choice(QUOTAS)
        self._cluster.limit(application.name, **quotas)
        return Healing(
            f"{quotas} of {application.name}",
            lambda: self._cluster.limit(application.name, **dict.fromkeys(quotas)),
        )

    def _any_application(self) -> Counted:
        return self._rng.choice(self._applications)

    def _live(self) -> int:
        return self._rng.choice([node for node in self._cluster.nodes if node not in self.out])


def permit(cluster: PartitionedCluster, application: Counted) -> None:
    """Grants what docs/guide/clusters.md lists, and nothing more."""
    own = (Operation.DESCRIBE_CONFIGS, Operation.READ, Operation.WRITE, Operation.CREATE)
    cluster.grant(DENIED, Resource.TOPIC, application.source, Operation.READ)
    cluster.grant(DENIED, Resource.TOPIC, application.sink, Operation.WRITE)
    cluster.grant(DENIED, Resource.TOPIC, f"{application.name}-", *own, prefixed=True)
    cluster.grant(DENIED, Resource.GROUP, application.name, Operation.READ)
    cluster.grant(DENIED, Resource.TRANSACTIONAL_ID, application.name, Operation.WRITE, prefixed=True)


def nothing() -> None:
    """Nothing to heal."""
