"""The text of `describe()` as a graph: Mermaid, DOT for Graphviz, or plain data.

Takes the text, as Kafka Streams prints it too; pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORMATS", "Graph", "parse"]

_NODE = re.compile(r"^    (Source|Processor|Sink): (\S+) \((topics?|stores|extractor class): (.*)\)$")
_PART = re.compile(r"^ {2,3}Sub-topology: (.*)$")
_KINDS = {"Source": "source", "Processor": "processor", "Sink": "sink"}


@dataclass(frozen=True)
class Node:
    """A node of the topology."""

    name: str
    kind: str
    part: str
    topics: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass
class Graph:
    """Nodes, and the names that an edge leads from and to."""

    parts: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)

    @property
    def topics(self) -> list[str]:
        """All topics, in the order of their first use."""
        return list(dict.fromkeys(topic for node in self.nodes for topic in node.topics))

    @property
    def stores(self) -> list[str]:
        """All stores, in the order of their first use."""
        return list(dict.fromkeys(store for node in self.nodes for store in node.stores))

    def _of_topics(self) -> list[tuple[str, str]]:
        """Edges from topics to sources and from sinks to topics: topic, node; node, topic."""
        uses = [(node, _id("node", node.name), _id("topic", topic)) for node in self.nodes for topic in node.topics]
        reads = [(topic, name) for node, name, topic in uses if node.kind == "source"]
        writes = [(name, topic) for node, name, topic in uses if node.kind == "sink"]
        return reads + writes

    def _of_nodes(self) -> list[tuple[str, str]]:
        return [(_id("node", left), _id("node", right)) for left, right in self.edges]

    def _of_stores(self) -> list[tuple[str, str]]:
        return [(_id("node", node.name), _id("store", store)) for node in self.nodes for store in node.stores]

    def mermaid(self) -> str:
        """Return a flow chart for Mermaid, which GitHub, GitLab and many wikis draw."""
        lines = ["flowchart TB"]
        lines += [f'  {_id("topic", topic)}[["{_escaped(topic)}"]]' for topic in self.topics]
        lines += [f'  {_id("store", store)}[("{_escaped(store)}")]' for store in self.stores]
        for part in self.parts:
            lines.append(f'  subgraph {_id("part", part)}["Sub-topology {_escaped(part)}"]')
            lines += [f'    {_id("node", n.name)}["{_escaped(n.name)}"]' for n in self.nodes if n.part == part]
            lines.append("  end")
        lines += [f"  {left} --> {right}" for left, right in [*self._of_topics(), *self._of_nodes()]]
        lines += [f"  {left} -.- {right}" for left, right in self._of_stores()]
        return "\n".join(lines) + "\n"

    def dot(self) -> str:
        """Return a graph for Graphviz: `stoatflow describe app.py --format dot | dot -Tsvg > app.svg`."""
        lines = ["digraph topology {", '  node [shape=box, style=rounded, fontname="sans-serif"]']
        lines += [f"  {_id('topic', topic)} [label={json.dumps(topic)}, shape=cds]" for topic in self.topics]
        lines += [f"  {_id('store', store)} [label={json.dumps(store)}, shape=cylinder]" for store in self.stores]
        for at, part in enumerate(self.parts):
            lines.append(f"  subgraph cluster_{at} {{")
            lines.append(f"    label={json.dumps(f'Sub-topology {part}')}")
            lines += [f"    {_id('node', n.name)} [label={json.dumps(n.name)}]" for n in self.nodes if n.part == part]
            lines.append("  }")
        lines += [f"  {left} -> {right}" for left, right in [*self._of_topics(), *self._of_nodes()]]
        lines += [f"  {left} -> {right} [style=dashed, dir=none]" for left, right in self._of_stores()]
        return "\n".join([*lines, "}"]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return sub-topologies, nodes and edges as plain data."""
        nodes = [
            {
                "name": node.name,
                "kind": node.kind,
                "sub_topology": node.part,
                "topics": node.topics,
                "stores": node.stores,
            }
            for node in self.nodes
        ]
        edges = [{"from": left, "to": right} for left, right in self.edges]
        return {"sub_topologies": self.parts, "nodes": nodes, "edges": edges}


def parse(text: str) -> Graph:
    """Return the graph of a description."""
    graph = Graph()
    for line in text.splitlines():
        if found := _PART.match(line):
            graph.parts.append(found[1])
        elif found := _NODE.match(line):
            kind, name, what, inside = found.groups()
            names = tuple(filter(None, inside.strip("[]").split(", ")))
            topics, stores = (names, ()) if what.startswith("topic") else ((), names)
            graph.nodes.append(Node(name, _KINDS[kind], graph.parts[-1], topics, stores))
        elif line.startswith("      --> "):
            children = line.removeprefix("      --> ").split(", ")
            graph.edges += [(graph.nodes[-1].name, child) for child in children if child != "none"]
    return graph


FORMATS = {"mermaid": Graph.mermaid, "dot": Graph.dot}
"""How a graph is drawn."""


def _id(kind: str, name: str) -> str:
    """Return an identifier that Mermaid and DOT accept, different for each kind and name."""
    plain = re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
    return f"{kind}_{plain}"


def _escaped(text: str) -> str:
    return text.replace('"', "#quot;")
