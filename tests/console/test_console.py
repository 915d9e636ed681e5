"""The console in a real browser, against a live application: each view, its texts, and that it reports no errors."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from console.chromium import Page
from console.shop import EVIL, show, topology
from http_calls import ask

VIEWS = ["overview", "busy", "stores/last-order", "errors", "dead-letters", "doctor", "settings"]


@contextlib.contextmanager
def quiet(name: str, folder: Path) -> Iterator[sf.StoatFlow]:
    """The same application without input."""
    with sf.EmbeddedBroker() as broker:
        for topic in ("orders", "out", "bad"):
            broker.create_topic(topic)
        settings = sf.Settings({"application.id": name, "state.dir": str(folder / "state")}, environ={})
        with sf.StoatFlow(topology(), settings, broker=broker) as running:
            yield running


def test_the_overview_updates(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "overview")
    assert "Records in" in page.text("#tiles")
    names = page.run("[...document.querySelectorAll('#graph .node title')].map(t => t.textContent.split(' ')[0])")
    assert {"orders", "price"} <= set(names)
    counted = "Number(document.querySelector('#tiles small').textContent.replace(/[^0-9]/g, ''))"
    first = page.run(counted)
    page.until(f"{counted} > {first}")
    # It is polled every two seconds.
    page.until("document.querySelector('#error-count').innerText === '1'")


def test_each_lane_has_a_row_of_its_barriers(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "overview")
    lanes = len(ask(app.admin_url, "/debug/threads").json()["lanes"])
    assert lanes > 1
    page.until("document.querySelectorAll('#lane-ends rect').length > 0")
    rects = page.run("document.querySelectorAll('#lane-ends rect').length")
    assert rects % lanes == 0
    title = page.run("document.querySelector('#lane-ends rect title').textContent")
    assert re.fullmatch(
        r"epoch \d+, lane 0: reached the barrier after .+, passed it after .+, waited for other lanes .+, sealed in .+",
        title,
    ), title
    note = page.text("#lane-ends-note")
    assert re.match(r"Slowest to its barrier: lane \d+, ", note), note
    assert page.run("document.querySelector('#lane-ends').getBoundingClientRect().height") > 5 * lanes


def test_stores_are_browsed(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "stores")
    page.until("document.querySelectorAll('#store-list a').length === 3")
    assert page.text("#rows-problem") == "Choose a store."
    page.run(
        "[...document.querySelectorAll('#store-list a')].find(a => a.textContent.startsWith('last-order')).click()"
    )
    page.until("document.querySelectorAll('#rows tr').length === 100")
    page.click("#rows-more")
    page.until("document.querySelectorAll('#rows tr').length === 200")
    page.type("#rows-ask [name=key]", "customer-01*")
    page.click("#rows-ask button")
    page.until("document.querySelectorAll('#rows tr').length === 10")
    page.type("#rows-ask [name=key]", "customer-017")
    page.click("#rows-ask button")
    page.until("document.querySelectorAll('#rows tr').length === 1")
    assert '"price"' in page.text("#rows")
    page.type("#rows-ask [name=key]", "nobody")
    page.click("#rows-ask button")
    page.until("document.querySelector('#rows-problem').textContent.includes('has nothing for this key')")
    assert page.run("document.querySelectorAll('#rows tr').length") == 0
    page.complaints.clear()  # the 404 of a missing key


def test_rows_are_found_by_their_contents(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "stores/last-order")
    page.until("document.querySelectorAll('#rows tr').length === 100")
    page.type("#rows-ask [name=where]", "_key in ('customer-017', 'customer-018') and price > 0")
    page.click("#rows-ask button")
    page.until("document.querySelectorAll('#rows tr').length === 2")
    assert page.text("#rows-note").endswith(", by key, 2 read")
    page.type("#rows-ask [name=where]", "price <= 0 or price is null")
    page.click("#rows-ask button")
    page.until("document.querySelector('#rows-problem').textContent.includes('all rows would be read')")
    page.complaints.clear()  # the 400 of a query that would read everything
    page.click("#rows-ask [name=scan]")
    page.click("#rows-ask button")
    page.until("document.querySelector('#rows-note').textContent.includes('by reading all rows')")
    assert page.text("#rows-note").startswith("0 rows")
    page.type("#rows-ask [name=key]", "customer-017")
    page.click("#rows-ask button")
    page.until("document.querySelector('#rows-problem').textContent.includes('a key or a condition')")


def test_windows_have_their_times(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "stores/per-minute")
    page.until("document.querySelectorAll('#rows tr').length > 0")
    heads = page.run("[...document.querySelectorAll('#rows-head th')].map(h => h.textContent)")
    assert heads == ["key", "from", "to", "value", "time"]


def test_record_data_is_escaped_as_text(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "stores/last-order")
    page.until("document.querySelectorAll('#rows tr').length === 100")
    assert EVIL in page.text("#rows")
    assert page.run("document.images.length") == 0


def test_an_open_traceback_stays_open(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "errors")
    page.until("document.querySelectorAll('#errors .fault').length === 1")
    page.click("#errors summary")
    output = page.text("#errors .facts")
    page.until(f"document.querySelector('#errors .facts').innerText !== {json.dumps(output)}")
    assert page.run("document.querySelector('#errors details').open")
    assert "in price" in page.text("#errors pre")
    assert "stoatflow explain processing_dead_letter" in page.text("#errors")


def test_dead_letters_are_listed_with_their_records(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "dead-letters")
    page.until("document.querySelectorAll('#letters .letter').length >= 20")
    first = page.text("#letters .letter")
    assert first.startswith("ValueError")
    assert re.search(r"from orders-\d, offset \d+", first)
    assert "to bad" in first
    assert "node price" in first
    assert "no price for" in first
    page.click("#letters .letter summary")
    shown = page.text("#letters .letter .payload:nth-of-type(2)")
    # The payload was JSON on one line.
    assert re.search(r'value\s*\d+ bytes\s*\{\s*"n": \d+,', shown), shown
    assert EVIL in shown
    assert page.run("document.images.length") == 0
    page.click("#letters .letter details:last-of-type summary")
    assert "in price" in page.text("#letters .letter details:last-of-type pre")


def test_older_dead_letters_load_on_request_and_open_ones_stay_open(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "dead-letters")
    page.until("document.querySelectorAll('#letters .letter').length >= 20")
    page.click("#letters .letter summary")
    opened = page.run("document.querySelector('#letters details[open]').parentNode.dataset.id")
    page.click("#letters-more")
    page.until("document.querySelectorAll('#letters .letter').length >= 40")
    ids = "[...document.querySelectorAll('#letters .letter')].map(l => Number(l.dataset.id))"
    assert page.run(ids) == sorted(page.run(ids), reverse=True)
    # There are ten failing records per second, so a new one is soon above it.
    page.until(f"{ids}[0] > {opened}")
    assert page.run("document.querySelector('#letters details[open]').parentNode.dataset.id") == opened
    assert "the last 100 can be seen here; all are in: bad" in page.text("#letters-note")


def test_findings_show_their_next_step(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "doctor")
    page.until("document.querySelector('#findings').innerText.includes('topic of dead letters')")
    output = page.text("#findings")
    assert "Next: see them in /dead-letters" in output
    order = ["critical", "warning", "info"]
    found = page.run("[...document.querySelectorAll('#findings .badge')].map(b => b.textContent)")
    assert found == sorted(found, key=order.index)
    assert int(page.text("#doctor-count")) == sum(severity != "info" for severity in found)
    assert "It looked at" in page.text("#doctor-looked")
    page.run("[...document.querySelectorAll('#findings a')].find(a => a.hash === '#dead-letters').click()")
    page.until("!document.querySelector('#view-dead-letters').hidden")


def test_empty_views_say_so_with_the_time_of_the_check(page: Page, tmp_path: Path) -> None:
    with quiet("idle", tmp_path) as running:
        show(page, running, "dead-letters")
        page.until("document.querySelector('#letters-none').innerText.includes('No dead letter was written since')")
        assert "Those from before are in: bad" in page.text("#letters-none")
        page.run("location.hash = 'doctor'")
        page.until("document.querySelector('#doctor-looked').innerText.includes('It looked at')")
        # This finding depends on the test machine.
        full = page.run("document.querySelector('#findings').innerText.includes('state.dir')")
        assert full or re.fullmatch(r"Nothing was found. It looked at [\d:]+\.", page.text("#doctor-looked"))


def test_dead_letters_support_dark_mode_and_keyboard(page: Page, app: sf.StoatFlow) -> None:
    page.prefer_dark()
    show(page, app, "dead-letters")
    page.until("document.querySelectorAll('#letters .letter').length >= 20")
    page.run("document.querySelector('#letters summary').focus()")
    page.press("Enter")
    assert page.run("document.querySelector('#letters details').open")
    page.press("Tab")
    assert page.run("document.activeElement.matches('#letters .payload pre')")
    ink, ground = "getComputedStyle(document.querySelector('#letters pre'))", "background-color"
    brightness = "c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)"
    light = page.run(f"({brightness})({ink}.color) - ({brightness})({ink}['{ground}'])")
    assert light > 300, "light signs on a dark ground"


def test_busy_functions_are_listed(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "busy")
    page.until("document.querySelectorAll('#busy .card').length === 6")
    page.until("document.querySelector('#busy').innerText.includes('processing_dead_letter')")
    widths = page.run(
        "[...document.querySelectorAll('#busy .share')].map(s => s.firstChild.offsetWidth / s.offsetWidth)"
    )
    shares = page.run(
        "[...document.querySelectorAll('#busy .share')].map(s => parseFloat(s.parentNode.innerText) / 100)"
    )
    assert len(shares) >= 2
    assert all(abs(width - share) < 0.1 for width, share in zip(widths, shares, strict=True))


def test_settings_are_found(page: Page, app: sf.StoatFlow) -> None:
    show(page, app, "settings")
    page.until("document.querySelectorAll('#settings tr').length > 40")
    page.click("#settings-ask [name=changed]")
    page.until("document.querySelectorAll('#settings tr').length < 10")
    page.type("#settings-ask [name=words]", "APPLICATION")
    page.until("document.querySelectorAll('#settings tr').length === 1")
    assert page.text("#settings").split() == ["application.id", "shop", "code"]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [400, 900, 1_400])
def test_nothing_is_wider_than_the_window(page: Page, app: sf.StoatFlow, view: str, width: int) -> None:
    page.resize(width, 900)
    show(page, app, view)
    time.sleep(0.5)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_a_joined_table_has_an_edge(page: Page, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    rates = builder.table("rates", key=str, value=int, store="rates")
    stream = builder.stream("in", key=str, value=int)
    stream.join(rates, sf.left * sf.right, name="join").to("out", key=str, value=int)
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "rates", "out"):
            broker.create_topic(topic)
        settings = sf.Settings({"application.id": "joins", "state.dir": str(tmp_path / "state")}, environ={})
        with sf.StoatFlow(builder.build(), settings, broker=broker) as running:
            show(page, running, "overview")
            page.until("document.querySelectorAll('#graph .edge.lookup').length === 1")
            assert page.run("document.querySelector('#graph .edge.lookup').getTotalLength()") > 30


def test_a_stopped_application_is_shown(page: Page, tmp_path: Path) -> None:
    with quiet("ends", tmp_path) as running:
        show(page, running, "stores/last-order")
    page.until("['STOPPED', 'GONE'].includes(document.querySelector('#badge').textContent)")
    assert "reconnects by itself" in page.text("#gone")
    page.complaints.clear()  # requests that were not answered any more
