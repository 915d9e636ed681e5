"""Metrics that functions and processors define: their values, where they show, and what is refused."""

from __future__ import annotations

import math
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from admin_apps import application, runs
from concurrency import until
from http_calls import ask
from stoatflow.testing import MockProcessorContext, TopologyTestDriver


class CountsShops(sf.ContextualProcessor[str, dict[str, Any], str, dict[str, Any]]):
    """Defines its metrics in each lane."""

    def init(self, context: sf.ProcessorContext[str, dict[str, Any]]) -> None:
        self.orders = context.metrics.counter("shop_orders", "Orders", labels=["shop"])
        self.prices = context.metrics.histogram("shop_price", "Prices", buckets=[10, 100])

    def process(self, record: sf.Record[str, dict[str, Any]]) -> None:
        self.orders.labels(shop=record.value["shop"]).inc()
        self.prices.observe(record.value["price"])


def orders() -> sf.StreamsBuilder:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).process(CountsShops)
    return builder


def test_a_processor_counts_in_all_lanes(tmp_path: Path) -> None:
    builder = orders()
    depth = builder.metrics.gauge("depth", 'Depth of the "queue" \\ of requests')
    depth.set(4.5)
    app = application(tmp_path, builder)
    with app, sf.EmbeddedBroker(tmp_path / "broker") as broker:
        runs(app)
        for number in range(20):
            broker.produce("in", f"k{number}", f'{{"shop": "n\\"{number % 2}", "price": {number * 10}}}')
        app.wait_until(caught_up=True)
        text = ask(app.admin_url, "/metrics").text
        assert "# TYPE shop_orders counter" in text
        assert 'shop_orders_total{application_id="app",shop="n\\"0"} 10.0' in text
        assert 'shop_orders_total{application_id="app",shop="n\\"1"} 10.0' in text
        assert '# HELP depth Depth of the \\"queue\\" \\\\ of requests' in text
        assert 'depth{application_id="app"} 4.5' in text
        assert 'shop_price_bucket{application_id="app",le="10.0"} 2' in text
        assert 'shop_price_bucket{application_id="app",le="100.0"} 11' in text
        assert 'shop_price_bucket{application_id="app",le="+Inf"} 20' in text
        assert 'shop_price_sum{application_id="app"} 1900.0' in text
        assert text.endswith("# EOF\n")
        plain = ask(app.admin_url, "/metrics", headers={"Accept": "text/plain"}).text
        assert '# HELP depth Depth of the "queue" \\\\ of requests' in plain
        assert "# TYPE shop_orders_total counter" in plain
        assert "shop_orders_total" in ask(app.admin_url, "/metrics", names="kafka-streams").text
        custom = {(one["name"], *one["labels"].values()): one for one in app.metrics()["custom"]}
        assert custom["shop_orders", 'n"0']["value"] == 10
        assert custom["shop_price",]["count"] == 20


def test_the_test_driver_shows_them() -> None:
    builder = orders()
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("1", {"shop": "a", "price": 5})
        names = [(one["name"], one["type"]) for one in driver.metrics()["custom"]]
        assert names == [("shop_orders", "counter"), ("shop_price", "histogram")]


def test_a_mock_context_has_metrics() -> None:
    context = MockProcessorContext()
    processor = CountsShops()
    context.init(processor)
    context.process(sf.Record("1", {"shop": "a", "price": 5}, 0))
    assert processor.orders.labels("a").value == 1


def test_topologies_do_not_share_metrics() -> None:
    one, other = orders(), orders()
    one.metrics.counter("seen", "Seen").inc()
    other.metrics.gauge("seen", "Seen").set(5)
    assert one.build().metrics is one.metrics
    assert one.metrics.counter("seen", "Seen").value == 1


def test_settings_of_the_run_keep_the_metrics() -> None:
    """`for_settings` compiles the topology again."""
    builder = sf.StreamsBuilder()
    seen = builder.metrics.counter("seen", "Seen")
    builder.stream("in").foreach(lambda key, value: seen.inc())
    with TopologyTestDriver(builder.build(), {"default.value.serde": "string"}) as driver:
        driver.input("in", value=str).pipe("stoat")
        assert driver.metrics()["custom"][0]["value"] == 1


def test_a_counter_only_grows() -> None:
    counter = sf.Metrics().counter("orders_total", "Orders")
    counter.inc(0)
    counter.inc(2.5)
    for amount in (-1, math.nan):
        with pytest.raises(ValueError, match="gauge"):
            counter.inc(amount)
    assert (counter.value, counter.name) == (2.5, "orders")
    assert repr(counter) == "<Counter orders 2.5>"


def test_a_gauge_rises_and_falls() -> None:
    metrics = sf.Metrics()
    gauge = metrics.gauge("depth", "Depth", labels=["queue"])
    gauge.labels("a").set(7)
    gauge.labels("a").dec()
    gauge.labels(queue="a").inc(0.5)
    gauge.labels("b").dec(2)
    assert (gauge.labels("a").value, gauge.labels("b").value) == (6.5, -2)
    gauge.labels("a").clear()
    gauge.labels("a").set(1)
    assert gauge.labels("a").value == 1


def test_a_histogram_times_a_block_even_if_it_raises() -> None:
    waits = sf.Metrics().histogram("wait_seconds", "Waits")
    with pytest.raises(KeyError), waits.time():
        raise KeyError
    assert waits.count == 1
    assert 0 <= waits.sum < 60
    with pytest.raises(ValueError, match="nan"):
        waits.observe(math.nan)
    with pytest.raises(TypeError, match="with"):
        waits.time().__exit__(None, None, None)


def test_labels_need_their_values() -> None:
    metrics = sf.Metrics()
    orders = metrics.counter("orders", "Orders", labels=["shop", "kind"])
    with pytest.raises(ValueError, match=r"\.labels"):
        orders.inc()
    wrong: list[tuple[tuple[object, ...], dict[str, object]]] = [
        ((), {}),
        (("a",), {}),
        (("a", "b", "c"), {}),
        ((), {"shop": "a"}),
        ((), {"shop": "a", "other": "b"}),
        (("a",), {"kind": "b"}),
    ]
    for values, named in wrong:
        with pytest.raises(ValueError, match="shop"):
            orders.labels(*values, **named)
    orders.labels("a", 7).inc()
    assert orders.labels(kind="7", shop="a").value == 1
    with pytest.raises(ValueError, match="orders"):
        orders.labels("a", "b").labels("c", "d")
    with pytest.raises(ValueError, match="plain"):
        metrics.counter("plain", "Plain").labels("x")


def test_a_function_with_a_metric_can_be_sent_to_another_process() -> None:
    """As to a worker of Spark: there it counts for itself."""
    metrics = sf.Metrics()
    counter = metrics.counter("orders", "Orders", labels=["shop"])
    plain, wait = metrics.gauge("depth", "Depth"), metrics.histogram("wait", "Waits", buckets=[1, 2])
    sent = pickle.loads(pickle.dumps(counter))  # noqa: S301
    sent.labels("a").inc()
    series = pickle.loads(pickle.dumps(counter.labels("a")))  # noqa: S301
    series.inc()
    assert (series.value, counter.labels("a").value) == (2, 0)
    pickle.loads(pickle.dumps(plain)).set(3)  # noqa: S301
    pickle.loads(pickle.dumps(wait)).observe(3)  # noqa: S301
    assert (plain.value, wait.count) == (0, 0)


def test_the_number_of_series_is_bounded(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    seen = builder.metrics.counter("seen", "Seen", labels=["user"], max_series=2)
    builder.stream("in", key=str, value=str).foreach(lambda key, value: seen.labels(key).inc())
    app = application(tmp_path, builder)
    with app:
        runs(app)
        for number in range(10):
            seen.labels(f"u{number}").inc()
        text = ask(app.admin_url, "/metrics").text
        assert 'seen_total{application_id="app",user="_other"} 8.0' in text
        assert 'stoatflow_custom_metric_overflows_total{application_id="app",metric="seen"} 8' in text


def test_what_is_refused() -> None:
    metrics = sf.Metrics()
    metrics.counter("orders", "Orders")
    metrics.histogram("wait", "Waits")
    assert metrics.counter("orders_total", "Orders").name == "orders"
    refused: list[tuple[Any, str]] = [
        (lambda: metrics.gauge("orders", "Orders"), "twice"),
        (lambda: metrics.counter("orders", "Other help"), "twice"),
        (lambda: metrics.gauge("wait_count", "Waits"), "wait_count"),
        (lambda: metrics.gauge("stoatflow_mine", "Mine"), "prefix"),
        (lambda: metrics.gauge("no-name", "Mine"), "no name"),
        (lambda: metrics.gauge("mine", ""), "help"),
        (lambda: metrics.gauge("mine", "Mine", labels=["le"]), "le"),
        (lambda: metrics.gauge("mine", "Mine", labels="shop"), "labels="),
        (lambda: metrics.histogram("mine", "Mine", buckets=[2, 1]), "ascending"),
        (lambda: metrics.gauge("mine", "Mine", labels=["a"], function=lambda: 1), "function"),
        (lambda: metrics.gauge("mine2", "Mine", function=lambda: 1, every="0s"), "every"),
        (lambda: metrics.gauge("mine3", "Mine", function=3), "function"),  # type: ignore[arg-type]
    ]
    for define, said in refused:
        with pytest.raises(sf.ConfigError, match=said):
            define()


def test_a_function_sets_a_gauge_at_intervals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    calls: list[str] = []

    def entries() -> int:
        calls.append(threading.current_thread().name)
        if len(calls) == 2:
            raise RuntimeError("the cache is gone")
        return len(calls)

    builder.metrics.gauge("cache_entries", "Entries", function=entries, every="50ms")
    builder.metrics.gauge("fixed", "Fixed", function=lambda: 3, every="1h")
    app = application(tmp_path, builder)
    assert not calls, "nothing is called before the start"
    with app:
        runs(app)
        until(lambda: len(calls) >= 5)
        text = ask(app.admin_url, "/metrics").text
        assert "cache_entries{" in text
        assert 'fixed{application_id="app"} 3.0' in text
    assert set(calls) == {"stoatflow-gauges"}
    assert "the function of the gauge cache_entries failed" in caplog.text
    after = len(calls)
    until(lambda: not any(thread.name == "stoatflow-gauges" for thread in threading.enumerate()))
    assert len(calls) <= after + 1, "it ends with the application"


def test_a_scrape_calls_no_python(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    called = threading.Event()

    def value() -> int:
        called.set()
        return 1

    builder.metrics.gauge("hourly", "Hourly", function=value, every="1h")
    app = application(tmp_path, builder)
    with app:
        runs(app)
        assert called.wait(30)
        until(lambda: "hourly{" in ask(app.admin_url, "/metrics").text)
        called.clear()
        for _ in range(5):
            ask(app.admin_url, "/metrics")
        assert not called.is_set()
