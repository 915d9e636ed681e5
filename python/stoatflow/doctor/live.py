"""Checks what an application will meet when it is started: its settings, this machine, and its broker.

Takes a topology and settings, returns a report. Decides which checks run, and in which order. Never starts the
application, and never changes a topic or a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.doctor import machine, progress
from stoatflow.doctor.broker import open_transactions
from stoatflow.doctor.finding import Finding, Kind
from stoatflow.doctor.topics import Topics, refused
from stoatflow.errors import AuthorizationError, ConfigError, MissingTopicError, StoatFlowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

# A start waits for broker.wait.timeout.ms; the doctor must answer sooner.
_WAIT_MS = 5_000
NEVER_LOOKED_AT = ("permissions to write (stoatflow acls lists them)", "replicas and min.insync.replicas")


@dataclass(slots=True)
class Report:
    """Results of the checks: findings, what is fine, and what could not be checked."""

    findings: list[Finding] = field(default_factory=list)
    fine: list[str] = field(default_factory=list)
    not_looked_at: list[str] = field(default_factory=list)

    def look(self, what: str, ask: Callable[[], Iterable[Finding | None]]) -> None:
        """Run one check; it yields findings, and `None` for what is fine. An error of the engine is a finding too."""
        found: list[Finding | None] = []
        try:
            found.extend(ask())
        except StoatFlowError as error:
            found.append(of_error(error))
        reported = [finding for finding in found if finding is not None]
        self.findings += (finding for finding in reported if finding not in self.findings)
        if found and not reported:
            self.fine.append(what)


def examine_live(topology: Topology, settings: Settings) -> Report:
    """Run all checks. Not for the application's own process (`machine` says why)."""
    report = Report()
    if not _settings(report, settings):
        report.not_looked_at += ["anything else, as it goes by the settings"]
        return report
    _machine(report, topology, settings)
    _broker(report, topology, settings)
    report.not_looked_at += NEVER_LOOKED_AT
    return report


def of_error(error: StoatFlowError, op: str = "topic") -> Finding:
    """Return an error of the engine as a finding; `op` describes the topic that it names."""
    topic = str(error.coordinates.get("topic", ""))
    if isinstance(error, AuthorizationError):
        return refused(error, op if topic else "", topic)
    kind: Kind = "topic" if isinstance(error, MissingTopicError) else "broker"
    return Finding.of_surroundings(kind, error.message, error.next_step)


def _settings(report: Report, settings: Settings) -> bool:
    """Whether the settings are valid. Settings without effect, or with a doubtful one, are reported too."""
    try:
        settings.check()
    except ConfigError as error:
        report.findings.append(Finding.of_surroundings("settings", error.message, error.next_step))
        return False
    report.look("settings", lambda: [None, *_without_effect(settings), *_together(settings)])
    return True


def _without_effect(settings: Settings) -> Iterable[Finding]:
    try:
        settings.with_values({"config.strict": True}).check()
    except ConfigError as error:
        yield Finding.of_surroundings(
            "settings",
            error.message.replace("wrong", "without effect", 1),
            "remove them, or leave them for Kafka Streams: the application starts all the same",
        )


def _together(settings: Settings) -> Iterable[Finding]:
    brokers = len(str(settings.get("bootstrap.servers")).split(","))
    if brokers > 1 and str(settings.get("replication.factor")) == "1":
        yield Finding.of_surroundings(
            "settings",
            f"bootstrap.servers names {brokers} brokers, but with replication.factor = 1 each changelog is on one of "
            "them: while that one is away nothing is committed, and with its disk the state is gone",
            "leave replication.factor out, which takes the broker's default, or set 3; topics that are there keep "
            "the replicas that they have",
        )


def _machine(report: Report, topology: Topology, settings: Settings) -> None:
    report.look("open files", lambda: machine.open_files(topology, settings))
    if not machine.keeps_state_on_disk(topology, settings):
        return
    if settings.get("state.dir") is None:
        report.not_looked_at.append("the disk and the lock of the state (state.dir is not set)")
        return
    folder = Path(str(settings.get("state.dir")), str(settings.get("application.id")))
    report.look("state directory", lambda: machine.state_directory(folder))
    report.look("other instances on this machine", lambda: machine.instance(folder))


def _broker(report: Report, topology: Topology, settings: Settings) -> None:
    # Generated names are reported by the examination of the topology.
    settings = settings.with_values({"ensure.explicit.naming": False})
    try:
        held_back = open_transactions(topology, settings.with_values({"broker.wait.timeout.ms": _WAIT_MS}))
    except StoatFlowError as error:
        if not _is_about_topics(error):
            report.findings.append(Finding.of_surroundings("broker", error.message, error.next_step))
            report.not_looked_at.append("topics and positions, as the broker can't be asked")
            return
        report.fine.append("broker")
        report.findings.append(of_error(error, "source"))
        report.not_looked_at.append("positions and open transactions, as sources are not there or can't be asked about")
    else:
        report.fine += ["broker", "sources"]
        report.look("open transactions", lambda: [None, *held_back])
        report.look("positions", lambda: progress.positions(topology, settings))
        report.look("orphans", lambda: progress.orphans(topology, settings))
    client = bridge.TopicsClient(settings.pairs())
    topics = Topics(client, topology, settings)
    report.look("permissions to read", topics.read)
    report.look("sinks and dead letters", topics.written)
    report.look("tables", topics.tables)
    report.look("changelogs", topics.changelogs)
    report.look("clock", lambda: progress.clock(client, str(settings.get("application.id"))))


def _is_about_topics(error: StoatFlowError) -> bool:
    return isinstance(error, MissingTopicError) or (
        isinstance(error, AuthorizationError) and "topic" in error.coordinates
    )
