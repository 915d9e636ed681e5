"""The graph of the topology in a real browser, against live applications on a real Kafka broker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from topics import KafkaTopics

import stoatflow as sf
from concurrency import until
from console.chromium import Page
from console.shop import picture, running, show
from http_calls import ask

CARDS = "[...graph.cards.values()]"
BRANCHES, STEPS = 20, 9
NODES = 1 + BRANCHES * (STEPS + 1)


def slow(value: str) -> str:
    time.sleep(0.004)
    return value.upper()


def two_ways(prefix: str) -> sf.Topology:
    """Two sources that never meet; the first one's output is the third one's input."""
    builder = sf.StreamsBuilder()
    first = builder.stream(f"{prefix}-a", key=str, value=str, name="a")
    first.map_values(slow, name="slow").to(f"{prefix}-middle", key=str, value=str, name="to-middle")
    second = builder.stream(f"{prefix}-b", key=str, value=str, name="b")
    second.group_by_key(name="by-key").count(store="counts", name="count")
    third = builder.stream(f"{prefix}-middle", key=str, value=str, name="middle")
    third.filter(sf.value != "", name="keep").to(f"{prefix}-out", key=str, value=str, name="to-out")
    return builder.build()


@pytest.fixture(scope="module")
def ways(kafka: KafkaTopics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.StoatFlow]:
    for name, partitions in (("a", 2), ("b", 3), ("middle", 1), ("out", 1)):
        kafka.create(f"ways-{name}", partitions)
    with running(two_ways("ways"), "ways", kafka, tmp_path_factory.mktemp("ways"), lanes_count=1) as app:
        yield app


def large(prefix: str) -> sf.Topology:
    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{prefix}-in", key=str, value=str, name="in")
    for branch in range(BRANCHES):
        one = stream
        for step in range(STEPS):
            one = one.filter(sf.value != f"{branch}-{step}", name=f"filter-{branch}-{step}")
        one.to(f"{prefix}-out-{branch}", name=f"Sink-{branch}")
    return builder.build()


@pytest.fixture(scope="module")
def forest(kafka: KafkaTopics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.StoatFlow]:
    """An application of 201 nodes that gets records."""
    for topic in ("in", *(f"out-{branch}" for branch in range(BRANCHES))):
        kafka.create(f"forest-{topic}")
    with running(large("forest"), "forest", kafka, tmp_path_factory.mktemp("forest")) as app:
        kafka.write("forest-in", [f"value-{number}" for number in range(1_000)])
        until(lambda: app.metrics()["records_committed"] >= 1_000)
        yield app


def of(name: str) -> str:
    """The box of a node that is drawn on its own."""
    return f"{CARDS}.find(c => !c.box.group && c.box.members[0].name === {json.dumps(name)})"


def click(page: Page, name: str) -> None:
    """Click a node, as a mouse does."""
    page.run(f"{of(name)}.at.querySelector('.box').dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))")


def names(page: Page, kind: str) -> set[str]:
    """The nodes in boxes of this class."""
    return set(page.run(f"{CARDS}.filter(c => c.at.matches('.{kind}')).flatMap(c => c.box.members.map(n => n.name))"))


def facts(page: Page) -> dict[str, str]:
    """The figures of the chosen node."""
    rows: dict[str, str] = page.run(
        "Object.fromEntries([...document.querySelectorAll('#node-facts > div')]"
        ".map(d => [d.querySelector('dt').textContent, d.querySelector('dd').textContent]))"
    )
    return rows


def overlaps(page: Page) -> list[Any]:
    """Boxes that cover each other."""
    script = """(() => {
        const boxes = [...document.querySelectorAll('#graph .node .box')].map(b => b.getBoundingClientRect());
        return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
            .map(b => [a, b]));
    })()"""
    found: list[Any] = page.run(script)
    return found


def height_of_text(page: Page) -> float:
    """How high the letters of a node's name are, in CSS pixels."""
    height: float = page.run(
        "Math.min(...[...document.querySelectorAll('#graph .node text')].map(t => t)"
        ".filter(t => t.textContent).map(t => t.getBoundingClientRect().height))"
    )
    return height


def test_a_source_has_the_lag_of_its_topic(page: Page, ways: sf.StoatFlow, kafka: KafkaTopics) -> None:
    show(page, ways, "overview")
    page.until(f"{of('a')}.lagText.textContent === 'lag 0'")
    ways.pause()
    ways.wait_until("PAUSED")
    try:
        kafka.write("ways-b", (str(number) for number in range(1_234)), key="k")
        page.until(f"{of('b')}?.lagText.textContent === 'lag 1,234'")
        assert page.run(f"{of('a')}.lagText.textContent") == "lag 0"
        assert page.run(f"{of('slow')}.lagText.textContent") == ""
        ends, committed = kafka.ends("ways-b"), kafka.committed("ways", "ways-b")
        assert sum(end - max(0, committed[p]) for p, end in ends.items()) == 1_234
        click(page, "b")
        found = facts(page)
        assert found["Lag"] == "1,234"
        by_partition = {p: re.search(r"lag ([\d,]+),", found[f"ways-b-{p}"]) for p in ends}
        assert {p: int(m[1].replace(",", "")) for p, m in by_partition.items() if m} == {
            p: end - max(0, committed[p]) for p, end in ends.items()
        }
    finally:
        ways.resume()
    page.until(f"{of('b')}.lagText.textContent === 'lag 0'")


def test_the_node_that_takes_the_time_shows_its_share(page: Page, ways: sf.StoatFlow, kafka: KafkaTopics) -> None:
    # Its only lane sleeps 4 ms in each of these records: for eight seconds or more it does nothing else.
    kafka.write("ways-a", (str(number) for number in range(2_000)), key="k")
    show(page, ways, "overview")
    page.until(f"parseInt({of('slow')}?.shareText.textContent) >= 70")
    assert page.run(f"{of('slow')}.at.classList.contains('hot')")
    assert page.run(f"{of('slow')}.shareText.textContent").endswith("% of time")
    width = page.run(f"Number({of('slow')}.share.getAttribute('width')) / (W - 25)")
    assert width >= 0.65
    assert not page.run(f"{of('keep')}.at.classList.contains('hot')")
    assert page.run(f"parseInt({of('keep')}.shareText.textContent) || 0") < 20
    click(page, "slow")
    found = facts(page)
    assert float(found["Share of the lanes' time"].split()[0]) >= 65
    function = next(text for name, text in found.items() if "slow" in name)
    assert re.match(r"[\d,]+ calls?, .* each, .* waiting for the interpreter", function), function
    picture(page, "node")
    nodes = {n["name"]: n for n in ask(ways.admin_url, "/topology").json()["nodes"]}
    assert nodes["slow"]["busy_seconds"] > 10 * nodes["keep"]["busy_seconds"]
    # Nothing waits before the records of other tests.
    ways.wait_until(caught_up=True)


def test_left_out_records_are_counted_at_their_node(page: Page, ways: sf.StoatFlow, kafka: KafkaTopics) -> None:
    show(page, ways, "overview")
    page.until(f"{of('count')} !== undefined")
    assert names(page, "node") >= {"a", "b", "slow"}
    before = page.run(f"{CARDS}.filter(c => c.faults.getAttribute('visibility') === 'visible').length")
    assert before == 0
    # Records without a key can't be counted by their key.
    kafka.write("ways-b", ("nobody" for _ in range(17)))
    page.until(f"{CARDS}.some(c => c.count.textContent === '⚠ 17')")
    at = f"{CARDS}.find(c => c.count.textContent === '⚠ 17')"
    assert page.run(f"{at}.faults.classList.contains('now')")
    where = page.run(f"{at}.box.members[0].name")
    dropped = ask(ways.admin_url, "/topology").json()["dropped"]
    assert dropped == [{"node": where, "reason": "null_key", "count": 17}]
    click(page, where)
    assert facts(page)["Left out: null_key"].startswith("17, ")
    # It was in the past, ten seconds later.
    page.until(f"!{at}.faults.classList.contains('now')")


def test_errors_are_counted_at_their_node(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "errors")
    page.until("document.querySelectorAll('#errors .facts a').length === 1")
    page.click("#errors .facts a")
    page.until("!document.querySelector('#view-overview').hidden && !document.querySelector('#node').hidden")
    assert page.text("#node h3") == "price"
    page.until(f"{of('price')}.faults.classList.contains('now')")
    shown = page.run(f"{of('price')}.count.textContent")
    assert re.fullmatch(r"⚠ [\d.,]+k?", shown), shown
    assert page.run(f"{of('orders')}.faults.getAttribute('visibility')") == "hidden"
    page.until("document.querySelector('#node-facts').innerText.includes('ValueError')")
    found = facts(page)
    assert re.match(r"[\d,]+ times, last .*: .*no price for", found["ValueError"]), found
    assert re.match(r"[\d,]+, [\d.]+/s lately", found["Left out: processing_dead_letter"]), found
    assert "left out: processing_dead_letter" in page.run(f"{of('price')}.at.getAttribute('aria-label')")
    picture(page, "errors-on-a-node")


def test_the_way_of_a_record_is_followed(page: Page, ways: sf.StoatFlow) -> None:
    show(page, ways, "overview")
    page.until(f"{of('slow')} !== undefined")
    click(page, "slow")
    # Also through the topic that one of its sinks writes and one of its sources reads.
    first, second = {"a", "slow", "to-middle", "middle", "keep", "to-out"}, names(page, "node")
    assert names(page, "way") == first
    assert len(second - first) >= 2
    assert names(page, "chosen") == {"slow"}
    dim = "Math.max(..." + CARDS + ".filter(c => !c.at.matches('.way')).map(c => getComputedStyle(c.at).opacity))"
    assert page.run(dim) < 0.5
    assert page.run(f"getComputedStyle({of('to-out')}.at).opacity") == "1"
    seen = "graph.wires.filter(w => getComputedStyle(w.path).visibility !== 'hidden' && w.path.matches('.edge'))"
    pairs = page.run(
        f"{seen}.filter(w => getComputedStyle(w.path).display !== 'none')"
        ".map(w => w.edges.map(e => `${nodeOf(e.from).name} ${nodeOf(e.to).name}`)).flat()"
    )
    assert sorted(pairs) == ["a slow", "keep to-out", "middle keep", "slow to-middle", "to-middle middle"]
    note = page.text("#node .way-note")
    assert note == "1 node before it, 4 nodes after it, from ways-a, to ways-middle, ways-out", note
    assert page.run("location.hash") == "#overview/slow"
    picture(page, "way")
    page.press("Escape")
    assert names(page, "way") == set()
    assert page.run("document.querySelector('#node').hidden")
    assert page.run("location.hash") == "#overview"
    # What is before a node, and what is after it, but no other branch.
    click(page, "count")
    assert names(page, "way") == second - first
    page.run("[...document.querySelectorAll('#node .next-nodes a')].find(a => a.textContent === 'counts').click()")
    page.until("!document.querySelector('#view-stores').hidden")
    page.run("location.hash = 'overview/keep'")
    page.until("document.querySelector('#node h3')?.textContent === 'keep'")


def test_200_nodes_stay_readable(page: Page, forest: sf.StoatFlow) -> None:
    show(page, forest, "overview")
    page.until("document.querySelector('#topology-note').textContent.includes('201 nodes in 41 boxes')")
    assert page.run("document.querySelectorAll('#graph .node').length") == 1 + 2 * BRANCHES
    assert page.run("document.querySelectorAll('#graph .node.folded').length") == BRANCHES
    assert "filter-0-0 … filter-0-8" in page.run("document.querySelector('#graph').textContent")
    assert overlaps(page) == []
    assert height_of_text(page) >= 10
    assert page.run("document.documentElement.scrollWidth") <= 1_400
    # All boxes fit the width; only branches are below each other.
    assert page.run("(r => r.scrollWidth <= r.clientWidth)(document.querySelector('#graph-room'))")
    picture(page, "200-nodes")
    # One chain is unfolded, then all, then one is folded again.
    page.run(
        "document.querySelector('#graph .node.folded .box').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert page.run("document.querySelectorAll('#graph .node').length") == 2 * BRANCHES + STEPS
    assert overlaps(page) == []
    level = "document.querySelector('#graph-ask').level"
    page.run(f"{level}.value = '0'; {level}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
    assert page.run("document.querySelectorAll('#graph .node').length") == NODES
    assert overlaps(page) == []
    assert height_of_text(page) >= 10
    click(page, "filter-3-4")
    page.run("[...document.querySelectorAll('#node button')].find(b => b.textContent === 'Fold its chain').click()")
    assert page.run("document.querySelectorAll('#graph .node').length") == NODES - STEPS + 1
    page.run(f"{level}.value = '2'; {level}.dispatchEvent(new Event('change', {{ bubbles: true }}))")
    assert page.run("document.querySelectorAll('#graph .node').length") == 1
    assert "sub-topology · 201 nodes" in page.run("document.querySelector('#graph').textContent")
    page.until("document.querySelector('#topology-note').textContent.includes('201 nodes in 1 boxes')")


def test_a_folded_box_has_the_figures_of_its_nodes(page: Page, forest: sf.StoatFlow, kafka: KafkaTopics) -> None:
    show(page, forest, "overview")
    page.until("document.querySelectorAll('#graph .node.folded').length === 20")
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    end, seen = time.monotonic() + 20, ""
    while not re.fullmatch(r"[1-9][\d.,]*k?/s", seen):
        assert time.monotonic() < end, seen
        for number in range(200):
            producer.produce("forest-in", str(number).encode())
        producer.flush(10)
        seen = page.run(f"{CARDS}.find(c => c.box.group).rateText.textContent")
        time.sleep(0.1)


def test_nodes_are_found(page: Page, forest: sf.StoatFlow) -> None:
    show(page, forest, "overview")
    page.until("document.querySelectorAll('#graph .node.folded').length === 20")
    page.press("/")
    assert page.run("document.activeElement.name") == "words"
    page.type("#graph-ask [name=words]", "filter-13-")
    assert page.text("#graph-found") == "9 of 201 nodes"
    # The chain that contains them, although it is folded.
    assert names(page, "hit") == {f"filter-13-{step}" for step in range(STEPS)}
    assert page.run("getComputedStyle(document.querySelector('#graph .node:not(.hit)')).opacity") < "0.5"
    page.type("#graph-ask [name=words]", "FILTER-13-4")
    assert page.text("#graph-found") == "1 of 201 nodes"
    page.press("Enter")
    # It is unfolded, and in sight.
    assert page.text("#node h3") == "filter-13-4"
    inside = """(() => {
        const at = document.querySelector('#graph .chosen .box').getBoundingClientRect();
        const room = document.querySelector('#graph-room').getBoundingClientRect();
        return at.left >= room.left && at.right <= room.right && at.top >= room.top && at.bottom <= room.bottom;
    })()"""
    assert page.run(inside)
    assert overlaps(page) == []
    way = {"in", "Sink-13", *(f"filter-13-{step}" for step in range(STEPS))}
    assert names(page, "way") == way
    picture(page, "found")
    page.type("#graph-ask [name=words]", "sINK-1")
    assert page.text("#graph-found") == "11 of 201 nodes"
    # By topic; Enter goes on to the next one.
    page.type("#graph-ask [name=words]", "forest-out-1")
    assert page.text("#graph-found") == "11 of 201 nodes"
    page.press("Enter")
    page.press("Enter")
    assert page.text("#node h3") == "Sink-10"
    page.press("Escape")
    assert page.text("#graph-found") == ""
    assert page.run("document.querySelector('#node').hidden")


def test_the_graph_is_used_by_keyboard(page: Page, forest: sf.StoatFlow) -> None:
    show(page, forest, "overview")
    page.until("document.querySelectorAll('#graph .node.folded').length === 20")
    # One box is in the order of Tab, not two hundred.
    assert page.run("document.querySelectorAll('#graph [tabindex=\"0\"]').length") == 1
    page.run("document.querySelector('[data-zoom=fit]').focus()")
    page.press("Tab")
    here = f"{CARDS}.find(c => c.at === document.activeElement)?.box"
    for _ in range(3):
        if page.run(f"!!{here}"):
            break
        page.press("Tab")
    assert page.run(f"{here}.members[0].name") == "in"
    outline = page.run("getComputedStyle(document.activeElement.querySelector('.box')).strokeWidth")
    assert outline == "3px"
    page.press("ArrowRight")
    assert page.run(f"{here}.members.length") == STEPS
    first = page.run(f"{here}.members[0].name")
    page.press("ArrowDown")
    assert page.run(f"{here}.members[0].name") != first
    page.press("ArrowUp")
    assert page.run(f"{here}.members[0].name") == first
    page.press("Enter")
    # The focus is on the first node of the chain that was unfolded.
    assert page.run(f"!{here}.group && {here}.members[0].name") == first
    page.press("Enter")
    assert page.text("#node h3") == first
    # The focus stays while figures change.
    time.sleep(2.2)
    assert page.run(f"{here}.members[0].name") == first
    page.press(" ")
    assert page.run("document.querySelector('#node').hidden")


@pytest.mark.parametrize("dark", [False, True])
def test_the_graph_has_contrast(page: Page, app: sf.StoatFlow, *, dark: bool) -> None:
    if dark:
        page.prefer_dark()
    show(page, app, "overview")
    page.until(f"{of('price')}?.faults.classList.contains('now')")
    click(page, "price")
    script = """(() => {
        const parts = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const linear = c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
        const bright = colour => parts(colour).map(c => linear(c / 255))
            .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
        const ratio = (a, b) => (Math.max(bright(a), bright(b)) + .05) / (Math.min(bright(a), bright(b)) + .05);
        const of = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
        const card = of('#graph .node .box', 'fill');
        return {
            name: ratio(of('#graph .node text', 'fill'), card), below: ratio(of('#graph .node .sub', 'fill'), card),
            faults: ratio(of('#graph .faults.now text', 'fill'), of('#graph .faults.now rect', 'fill')),
            facts: ratio(of('#node-facts dt', 'color'), of('#topology-card', 'backgroundColor')),
            card: bright(card),
        };
    })()"""
    ratios = page.run(script)
    brightness = ratios.pop("card")
    assert (brightness < 0.1) is dark
    assert all(ratio >= 4.5 for ratio in ratios.values()), ratios
    picture(page, f"overview-{'dark' if dark else 'light'}")


def test_on_a_phone(page: Page, app: sf.StoatFlow) -> None:
    page.resize(390, 844)
    show(page, app, "overview")
    page.until(f"{of('price')} !== undefined")
    click(page, "price")
    page.run("document.querySelector('#topology-card').scrollIntoView()")
    picture(page, "phone-graph")
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert height_of_text(page) >= 9
    # What can be touched is inside of the window, and large enough.
    small = page.run(
        "[...document.querySelectorAll('#graph-ask input, #graph-ask select, #graph-ask button, #node button, nav a')]"
        ".map(e => [e.getBoundingClientRect(), e.outerHTML.slice(0, 90)])"
        ".filter(([r]) => r.left < 0 || r.right > 391 || r.height < 24 || r.width < 24).map(([r, html]) => html)"
    )
    assert small == []
    page.run("document.querySelector('#node').scrollIntoView()")
    picture(page, "phone-node")
    assert "Share of the lanes' time" in page.text("#node-facts")
    # The graph scrolls in its card, so that the page doesn't.
    page.run("document.querySelector('#graph-room').scrollLeft = 1e6")
    assert page.run("document.documentElement.scrollLeft") == 0


def test_lanes_have_a_heat_map(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "overview")
    lanes = len(ask(app.admin_url, "/debug/threads").json()["lanes"])
    page.until("document.querySelectorAll('#heat rect').length > 0")
    assert page.run("document.querySelectorAll('#heat rect').length") == 60 * lanes
    newest = "[...document.querySelectorAll('#heat rect')].filter((_, i) => i % 60 >= 55)"
    page.until(f"{newest}.every(r => Number(r.getAttribute('fill-opacity')) > 0)")
    cells = page.run(f"{newest}.map(r => [r.textContent, Number(r.getAttribute('fill-opacity'))])")
    shares = {}
    for title, opacity in cells:
        found = re.fullmatch(r"lane (\d+): (\d+) % busy (now|\d s ago)", title)
        assert found, title
        assert abs(0.07 + 0.93 * int(found[2]) / 100 - opacity) < 0.01
        shares[found[1]] = shares.get(found[1], 0) + int(found[2])
    assert len(shares) == lanes
    assert sum(shares.values()) > 0
    assert "was the busiest" in page.run("document.querySelector('#heat').getAttribute('aria-label')")


def test_the_console_is_small(page: Page, app: sf.StoatFlow) -> None:
    for view in ("overview", "busy", "stores", "errors", "dead-letters", "doctor", "settings"):
        show(page, app, view)
    assert page.run("performance.getEntriesByType('navigation')[0].decodedBodySize") < 300_000
    # Everything else are answers of the port.
    others = "r => r.initiatorType !== 'fetch' && !r.name.endsWith('/favicon.ico')"
    assert page.run(f"performance.getEntriesByType('resource').filter({others}).map(r => r.name)") == []
