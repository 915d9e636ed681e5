"""`stoatflow acls app.py`: the permissions that an application needs on a cluster with ACLs.

Takes a file with a topology and the application's settings; prints commands of Kafka's `kafka-acls.sh`, or JSON. Topics
that are read and written come from the checked plan, the rest from the engine's rules. Never connects.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json
from stoatflow.dlq.dead_letter_topics import dead_letter_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

# Characters that end the literal prefix of a pattern.
_SIGNS = re.compile(r"[.^$*+?{}\[\]\\|()]")
_OPTIONS = {"TOPIC": "--topic", "GROUP": "--group", "TRANSACTIONAL_ID": "--transactional-id"}


class Acl(NamedTuple):
    """Operations on one resource."""

    resource: str
    name: str
    pattern: str
    operations: tuple[str, ...]
    why: str


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "acls",
        help=COMMANDS["acls"],
        description="Print the permissions that an application needs, as commands of Kafka's kafka-acls.sh or as JSON. "
        "Nothing is asked of the cluster.",
    )
    parser.add_argument(
        "app", metavar="APP.py[:topology]", help="a Python file with a Topology in a variable, or a module"
    )
    parser.add_argument("--config", metavar="FILE", help="the application's settings, TOML or JSON")
    parser.add_argument("--application-id", metavar="ID", help="instead of the file's")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="instead of the file's")
    parser.add_argument("--principal", metavar="User:NAME", help="whose they are (default: User: with sasl.username)")
    parser.add_argument(
        "--reset", action="store_true", help="with what `stoatflow reset` needs: it deletes changelog topics"
    )
    add_json(parser, "a JSON array; what only a function knows is noted on stderr")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Load the file, list the permissions, print them."""
    from stoatflow.cli.reset import load_topology

    topology, settings = load_topology(given.app), _settings(given)
    acls = list(needed(topology, settings, with_reset=given.reset))
    if given.json:
        print_json(given, [acl._asdict() for acl in acls])
    else:
        print("\n".join(commands(acls, _principal(given, settings), str(settings.get("bootstrap.servers")))))
    for note in unknown(topology):
        print(f"# {note}")  # with --json this goes to stderr
    return 0


def needed(topology: Topology, settings: Settings, *, with_reset: bool = False) -> Iterator[Acl]:
    """List the permissions that the application needs. Read and Write include Describe."""
    plan = json.loads(topology.plan.physical_json)
    application = str(settings.get("application.id"))
    for topic in sorted({topic for source in plan["sources"] for topic in source["topics"]}):
        yield Acl("TOPIC", topic, "LITERAL", ("READ",), "is read")
    for pattern in sorted({source["pattern"] for source in plan["sources"] if source["pattern"]}):
        begins = _beginning(pattern)
        name, kind = (begins, "PREFIXED") if begins else ("*", "LITERAL")
        yield Acl("TOPIC", name, kind, ("READ",), f"topics that match {pattern} are read")
    for topic in sorted({sink["topic"] for sink in plan["sinks"] if sink["topic"]}):
        yield Acl("TOPIC", topic, "LITERAL", ("WRITE",), "is written")
    for topic in dead_letter_topics(topology, settings):
        yield Acl("TOPIC", topic, "LITERAL", ("WRITE",), "takes dead letters")
    own = ("CREATE", "READ", "WRITE", *(("DELETE",) if with_reset else ()))
    yield Acl("TOPIC", f"{application}-", "PREFIXED", own, "changelogs and committed positions")
    why = "how long they keep tombstones; without it, a day is taken, which is Kafka's default"
    yield Acl("TOPIC", f"{application}-", "PREFIXED", ("DESCRIBE_CONFIGS",), why)
    yield Acl("GROUP", application, "LITERAL", ("READ",), "positions are committed in it")
    for name in (application, f"{application}~2"):
        yield Acl("TRANSACTIONAL_ID", name, "LITERAL", ("WRITE",), "keeps instances apart, and commits")


def unknown(topology: Topology) -> Iterator[str]:
    """List permissions that the plan can't determine."""
    plan = json.loads(topology.plan.physical_json)
    if any(sink["topic"] is None for sink in plan["sinks"]):
        yield "A function chooses topics that are written: grant Write for each of them too."
    if '"handler"' in topology.plan.physical_json or plan.get("handlers"):
        yield "A handler that is a function may name a topic for dead letters: grant Write for it too."


def commands(acls: Iterable[Acl], principal: str, bootstrap: str) -> Iterator[str]:
    """Return a command for each permission."""
    for acl in acls:
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", principal]
        for operation in acl.operations:
            words += ["--operation", operation.title().replace("_", "")]
        words += [_OPTIONS[acl.resource], acl.name]
        if acl.pattern == "PREFIXED":
            words += ["--resource-pattern-type", "prefixed"]
        yield f"{shlex.join(words)}  # {acl.why}"


def _settings(given: argparse.Namespace) -> Settings:
    from stoatflow.settings import Settings

    named = {"application.id": given.application_id, "bootstrap.servers": given.bootstrap}
    arguments = {name: value for name, value in named.items() if value is not None}
    settings = Settings(arguments) if given.config is None else Settings.from_file(given.config, arguments)
    settings = settings.with_defaults({"bootstrap.servers": "localhost:9092"})
    settings.check()
    return settings


def _principal(given: argparse.Namespace, settings: Settings) -> str:
    return str(given.principal or f"User:{settings.get('sasl.username', settings.get('application.id'))}")


def _beginning(pattern: str) -> str:
    """Return the literal prefix of all matches."""
    text = pattern.removeprefix("^")
    sign = _SIGNS.search(text)
    if sign is None:
        return text
    # In `ab*` and `ab|c` not even the b is certain.
    certain = sign.start() - (sign[0] in "*?{")
    return "" if "|" in text else text[:certain]
