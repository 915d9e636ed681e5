"""Where the boxes of the topology graph stand, for topologies that no application here has."""

from __future__ import annotations

import json
import random
from typing import Any

import stoatflow as sf
from console.chromium import Page
from console.shop import show

LAY_OUT = """(t => {
    const groups = groupsOf(t), level = levelFor(t, groups);
    return [0, 1, 2].map(of => {
        const { boxes, wires } = boxesOf(t, groups, g => g.level <= of), g = layout(t.stages, boxes, wires);
        const at = boxes.map(b => ({ ...g.place.get(b.id), id: b.id, nodes: b.members.map(n => n.id) }));
        const inside = at.every(b => {
            const c = g.columns.find(c => c.stage.id === b.stage);
            return b.x >= c.x && b.x + W <= c.right && b.y >= 0 && b.y + H <= g.height && c.right <= g.width;
        });
        const cover = (a, b) => Math.abs(a.x - b.x) < W && Math.abs(a.y - b.y) < H;
        const covered = at.some((a, i) => at.slice(i + 1).some(b => cover(a, b)));
        const backwards = wires.filter(e => !e.exchange && !e.lookup).some(e => {
            const a = g.place.get(e.from), b = g.place.get(e.to);
            return g.flat ? b.x <= a.x : b.y <= a.y;
        });
        return { level, inside, covered, backwards, boxes: boxes.length, nodes: at.flatMap(b => b.nodes) };
    });
})"""


def node(number: int, stage: int = 0, op: str = "filter", **more: object) -> dict[str, Any]:
    return {"id": number, "name": f"n{number}", "op": op, "stage": stage, "foreign": False, **more}


def edge(start: int, end: int, *, exchange: bool = False, lookup: bool = False) -> dict[str, Any]:
    return {"from": start, "to": end, "exchange": exchange, "lookup": lookup}


def random_graph(seed: int) -> dict[str, Any]:
    """Up to three stages; nodes with several parents and children, stores, exchanges, lookups."""
    rng = random.Random(seed)  # noqa: S311 # the same graphs each time
    stages, nodes, edges = rng.randint(1, 3), [], []
    for number in range(rng.randint(1, 200)):
        stage = rng.randrange(stages)
        before = [n for n in nodes if n["stage"] == stage and n["op"] not in ("sink", "exchange")]
        op = rng.choice(["filter", "filter", "filter", "map", "count", "sink", "exchange"]) if before else "source"
        more: dict[str, Any] = {"topics": [f"t{number}"]} if op in ("source", "sink") else {}
        if op == "count":
            more["store"] = f"s{number}"
        parents = rng.sample(before, min(len(before), rng.choice([1, 1, 1, 1, 2])))
        edges.extend(edge(parent["id"], number) for parent in parents)
        exchanges = [n for n in nodes if n["op"] == "exchange" and n["stage"] < stage]
        edges.extend(edge(exchange["id"], number, exchange=True) for exchange in exchanges[-1:])
        tables = [n for n in nodes if n["op"] == "count" and n["stage"] == stage]
        if tables and rng.random() < 0.1:
            edges.append(edge(rng.choice(tables)["id"], number, lookup=True))
        nodes.append(node(number, stage, op, **more))
    return {"nodes": nodes, "edges": edges, "stages": [{"id": stage} for stage in range(stages)]}


def lay_out(page: Page, topology: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.run(f"({LAY_OUT})({json.dumps(topology)})")
    return found


def test_boxes_cover_nothing_and_edges_go_forward(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "overview")
    folded = [0, 0, 0]
    for seed in range(150):
        topology = random_graph(seed)
        for level, found in enumerate(lay_out(page, topology)):
            wrong = {name: found[name] for name in ("covered", "backwards") if found[name]}
            assert (wrong, found["inside"]) == ({}, True), (seed, level)
            assert sorted(found["nodes"]) == [n["id"] for n in topology["nodes"]], (seed, level)
            folded[level] += found["boxes"] < len(topology["nodes"])
    assert folded[0] == 0
    assert min(folded[1:]) > 20, folded


def test_only_large_graphs_are_folded(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "overview")

    def pairs(count: int) -> dict[str, Any]:
        """Sources with a table each, in which nothing is a chain."""
        sources = [node(2 * at, op="source", topics=[f"t{at}"]) for at in range(count)]
        tables = [node(2 * at + 1, op="count", store=f"s{at}") for at in range(count)]
        edges = [edge(2 * at, 2 * at + 1) for at in range(count)]
        return {"nodes": sources + tables, "edges": edges, "stages": [{"id": 0}]}

    levels = {count: lay_out(page, pairs(count))[0]["level"] for count in (30, 31, 60, 61)}
    assert levels == {30: 0, 31: 1, 60: 1, 61: 2}

    def chain(length: int) -> dict[str, Any]:
        ops = ["source", *["filter"] * length, "sink"]
        nodes = [node(at, op=op, **({"topics": [f"t{at}"]} if op != "filter" else {})) for at, op in enumerate(ops)]
        edges = [edge(at, at + 1) for at in range(len(ops) - 1)]
        return {"nodes": nodes, "edges": edges, "stages": [{"id": 0}]}

    assert [found["boxes"] for found in lay_out(page, chain(2))] == [4, 4, 1]
    assert [found["boxes"] for found in lay_out(page, chain(3))] == [5, 3, 1]


def test_an_exchange_runs_around_the_boxes_beside_it(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "overview")
    # The target in the next stage is higher than the exchange, and a table is between them.
    nodes = [node(0, op="source", topics=["t"]), node(1), node(2, op="count", store="s"), node(3, op="exchange")]
    nodes.append(node(4, stage=1, op="count", store="other"))
    edges = [edge(0, 1), edge(0, 2), edge(1, 3), edge(3, 4, exchange=True)]
    topology = {"nodes": nodes, "edges": edges, "stages": [{"id": 0}, {"id": 1}]}
    script = """(t => {
        const { boxes, wires } = boxesOf(t, groupsOf(t), () => false), g = layout(t.stages, boxes, wires);
        const path = draw("path", { d: route(wires.find(e => e.exchange), g.place.get(3), g.place.get(4), g, []) });
        const points = Array.from({ length: 400 }, (_, i) => path.getPointAtLength(path.getTotalLength() * i / 400));
        return [0, 1, 2].map(id => g.place.get(id)).flatMap(b =>
            points.filter(p => p.x > b.x && p.x < b.x + W && p.y > b.y && p.y < b.y + H)).length;
    })"""
    assert page.run(f"({script})({json.dumps(topology)})") == 0
