"""Usual causes of each kind of error, where to see more, and its page in the docs.

What happened and what to do is in the classes (`errors.py`); the page of errors and `stoatflow explain` are made from
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["CAUSES", "Causes"]


class Causes(NamedTuple):
    """What is known about a kind of error besides its class."""

    usual: tuple[str, ...]
    """Causes, the most frequent first."""
    see: tuple[str, ...]
    """Where to see more."""
    page: str
    """Its page below docs/."""


CAUSES: Mapping[str, Causes] = {
    "config": Causes(
        (
            "a name that is mistyped: the message has the nearest right one",
            "a value out of its bounds, or of another type",
            "`admin.listen` is an address that other machines reach, without `admin.token` or `admin.ssl.ca`",
            "a property of the Kafka client that the engine must own, such as `acks` or `isolation.level`",
        ),
        (
            "`stoatflow run app.py --config FILE --check` checks all settings and starts nothing",
            "`stoatflow explain NAME` says what a setting does and its default",
        ),
        "guide/configuration.md",
    ),
    "topology": Causes(
        (
            "a function takes another number of arguments than the operator calls it with",
            "a store has no name of its own, and a generated one would reach disk or a topic",
            "on Spark: something that can't be the same in a batch",
        ),
        (
            "`stoatflow describe app.py` shows the topology, once it can be built",
            "`stoatflow doctor app.py` says what else will go wrong",
        ),
        "reference/operators.md",
    ),
    "serde": Causes(
        (
            "a record was written in another format than the serde of its source reads",
            "a function gave a value that the serde of its sink or store can't write",
        ),
        (
            "topic, partition and offset stand in the message",
            "`/errors` of the admin port: each cause once, with its count and its last record",
        ),
        "guide/error-handling.md",
    ),
    "user": Causes(
        (
            "the function doesn't expect what is in the record: null, a missing member, another type",
            "what the function calls is away: a service, a database",
        ),
        (
            "the traceback of the function's own exception, the `__cause__`",
            "`/errors` of the admin port: each cause once, with its count and its last record",
        ),
        "guide/error-handling.md",
    ),
    "unavailable": Causes(
        (
            "`bootstrap.servers` is wrong, or the broker is not running",
            "the broker was away for longer than `broker.wait.timeout.ms`, or more often than `restart.max.attempts`",
        ),
        ("`/health/ready` says `broker_away` while it waits",),
        "guide/clusters.md",
    ),
    "fenced": Causes(
        (
            "a second process was started with the same `application.id`: two replicas, two hosts, a rolling update",
            "this process stood still for longer than `transaction.timeout.ms`",
            "another consumer is in the group named like the application, such as a Kafka Streams that still runs",
        ),
        (
            "the exit code is 4, so that a supervisor can be told not to start it again",
            "`kafka-consumer-groups.sh --describe --members --group APPLICATION_ID` lists other members",
        ),
        "guide/deploying.md#one-instance-never-two",
    ),
    "missing_topic": Causes(
        (
            "the name of a topic is mistyped: source topics are never created, so that such a mistake shows",
            "a topic for dead letters was not created",
        ),
        ("`stoatflow run app.py --config FILE --check` lists what is read and written",),
        "guide/running.md",
    ),
    "unauthorized": Causes(
        (
            "a permission was not granted, or was taken away while it runs",
            "the user, the password or the certificate is wrong, for the broker or the schema registry",
        ),
        ("`stoatflow acls app.py` lists the permissions that the application needs",),
        "guide/clusters.md",
    ),
    "state_corrupt": Causes(
        ("a file in `state.dir` was cut short, changed or removed",),
        (
            "the message names the directory; a file `DAMAGED` in it remembers damage that showed while reading",
            "`state.damaged=rebuild` throws it away and restores it from the changelogs",
        ),
        "guide/restoring.md#local-state-that-cant-be-used",
    ),
    "incompatible": Causes(
        (
            "the serdes of a store were changed, or the state is of a version with another layout",
            "a source or changelog topic was deleted and created again, or has lost records",
            "records of Kafka Streams are left in a repartition topic",
        ),
        ("`stoatflow diff old.py new.py` says before the start which state survives",),
        "guide/upgrading.md",
    ),
    "state_locked": Causes(
        ("another process of the application runs on this machine, with the same `state.dir`",),
        ("the message names the directory",),
        "guide/restoring.md",
    ),
    "disk_full": Causes(
        ("the file system of `state.dir`, or the quota on it, is full",),
        ("`stoatflow_state_disk_free_bytes` and `stoatflow_store_disk_bytes` at `/metrics`",),
        "guide/monitoring.md",
    ),
    "unknown_outcome": Causes(
        ("the broker did not say within `commit.timeout.ms` whether a transaction was committed",),
        ("`commit failed` in the log, with step and epoch",),
        "explain/exactly-once.md#what-happens-after-a-failure",
    ),
    "stalled": Causes(
        (
            "a function doesn't come back: it waits without a timeout, or is in an endless loop",
            "a function takes longer than `stall.timeout.ms`",
        ),
        (
            "`stalled-<ms>.txt` beside the state: what every lane did",
            "`/debug/threads` while it hangs: function, record, and for how long",
            "the exit code is 3",
        ),
        "guide/python-functions.md#a-function-that-doesnt-return",
    ),
    "changes_lost": Causes(
        (
            "a reader of `store.follow()` left more unread than `buffer_bytes`: its loop does too much for each batch",
            "the application began again from its last commit, such as after a broker that was away",
        ),
        (
            "the message says which of the two, and after which commit",
            "the application itself is not harmed: no commit waits for a reader",
        ),
        "guide/queries.md#follow-a-store",
    ),
    "internal": Causes(
        ("a mistake in the engine, not in your code",),
        ("`stoatflow bundle APP_URL` makes an archive for the report, without data of records",),
        "guide/monitoring.md#a-support-archive",
    ),
}
