"""`stoatflow describe app.py`: print the topology of a file as Kafka Streams does; also loads topologies."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.plan import Node
    from stoatflow.spark.twin.faithful import Verdict
    from stoatflow.spark.twin.parts import Part
    from stoatflow.topology import Topology

_SINK = re.compile(r"^    Sink: .* \(topic: (.*)\)$", re.MULTILINE)


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("describe", help=COMMANDS["describe"])
    add_target(parser)
    parser.add_argument(
        "--engine",
        choices=["stoatflow", "spark"],
        default="stoatflow",
        help="spark: where it is cut there, what differs",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--format",
        choices=["text", "mermaid", "dot", "json"],
        default="text",
        help="text as Kafka Streams prints it (the default), or a graph for Mermaid, Graphviz or a program",
    )
    add_json(how, "a JSON object, as --format json does")
    parser.set_defaults(run=run)


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select a topology."""
    parser.add_argument(
        "file", metavar="APP.py[:topology]", help="a Python file with a Topology in a variable, or a module"
    )
    parser.add_argument("--variable", default="topology", help="the variable's name (default: topology)")


def run(given: argparse.Namespace) -> int:
    """Load the file, print its topology."""
    topology = target(given)
    as_json = given.json or given.format == "json"
    if given.engine == "spark":
        if as_json:
            print_json(given, _on_spark(topology).to_json())
        else:
            print(_on_spark(topology).text(), end="")
        return 0
    if as_json or given.format != "text":
        from stoatflow.cli.topology_graph import FORMATS, parse

        graph = parse(topology.describe())
        if as_json:
            print_json(given, {**graph.to_json(), "topics_not_made": topics_not_made(topology)})
        else:
            print(FORMATS[given.format](graph), end="")
        return 0
    print(topology.describe(), end="", flush=True)
    if topics := topics_not_made(topology):
        # Not among the lines that Kafka Streams would print.
        print(
            f"note: Kafka Streams would create these topics; here their records stay in memory: {', '.join(topics)}",
            file=sys.stderr,
        )
    return 0


def topics_not_made(topology: Topology) -> list[str]:
    """List the repartition and subscription topics that `describe()` names but that aren't created."""
    plan = json.loads(topology.plan.physical_json)
    real = {sink.get("topic") for sink in plan["sinks"]}
    return [topic for topic in dict.fromkeys(_SINK.findall(topology.describe())) if topic not in real]


class OnSpark(NamedTuple):
    """The parts that Spark runs, and what differs there."""

    parts: list[Part]
    differs: list[tuple[Node, Verdict]]
    as_stream: list[tuple[Node, Verdict]]
    """What differs only as a stream."""
    no_stream: str | None
    """Why there is no streaming twin."""

    def text(self) -> str:
        """Return lines for people."""
        lines = [part.describe() for part in self.parts]
        lines += [f"{node.line} {node.op} differs: {verdict.text}" for node, verdict in self.differs]
        lines += [f"{node.line} {node.op} differs as a stream: {verdict.text}" for node, verdict in self.as_stream]
        lines += [] if self.no_stream is None else [self.no_stream]
        return "".join(f"{line}\n" for line in lines)

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain data."""
        return {
            "parts": [part.to_json() for part in self.parts],
            "differs": [
                {"line": node.line, "operator": node.op, "only_streaming": only, "text": verdict.text}
                for only, found in ((False, self.differs), (True, self.as_stream))
                for node, verdict in found
            ],
            "no_streaming": self.no_stream,
        }


def _on_spark(topology: Topology) -> OnSpark:
    """Return what Spark runs; raise `TopologyError` if the topology is refused."""
    from stoatflow.errors import TopologyError
    from stoatflow.spark.twin import faithful
    from stoatflow.spark.twin.parts import cut

    differs = faithful.check(topology)
    try:
        streaming = faithful.check(topology, streaming=True)
    except TopologyError as error:
        return OnSpark(cut(topology), differs, [], str(error))
    return OnSpark(cut(topology), differs, [found for found in streaming if found not in differs], None)


def target(given: argparse.Namespace) -> Topology:
    """Return the topology that the arguments name."""
    file, _, variable = given.file.rpartition(":")
    if file and variable.isidentifier():
        return load(file, variable, "FILE:NAME")
    return load(given.file, given.variable)


def load(file: str, variable: str, choose: str = "--variable") -> Topology:
    """Return the topology of a file or module; `choose` is the option that selects another variable."""
    from stoatflow.builder import StreamsBuilder
    from stoatflow.cli.loading import names_of
    from stoatflow.errors import ConfigError
    from stoatflow.topology import Topology

    found = names_of(file)
    topology = found.get(variable)
    if isinstance(topology, Topology):
        return topology
    others = [name for name, value in found.items() if isinstance(value, Topology)]
    builders = [name for name, value in found.items() if isinstance(value, StreamsBuilder)]
    if others:
        raise ConfigError(
            f"{file} defines no Topology named '{variable}'; it defines {', '.join(others)}: choose with {choose}",
            next_step=f"choose one of them with {choose}",
        )
    if builders:
        raise ConfigError(
            f"{file} defines no Topology named '{variable}', but the StreamsBuilder {builders[0]}",
            next_step=f"add: {variable} = {builders[0]}.build()",
        )
    raise ConfigError(f"{file} defines no Topology named '{variable}'", next_step=f"add: {variable} = builder.build()")
