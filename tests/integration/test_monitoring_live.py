"""Alert rules and dashboard on a real Prometheus server that scrapes an application which runs, and fails."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from broker.kafka_broker import KafkaBroker
from monitoring.finding import find_prometheus
from monitoring.server import PrometheusServer
from monitoring.shipped import (
    MONITORING,
    PAGE,
    TARGET_LABELS,
    alerts,
    dashboard_queries,
    hurried,
    labels_in,
    matched_labels,
    metrics_in,
    rules,
)
from monitoring.watched import APPLICATION, TOKEN, on_kafka, troubled, watched

import stoatflow as sf

# Sequentially in one process: the last tests change what the others see.
pytestmark = pytest.mark.xdist_group("monitoring")

SPAN = "2s"
THEIR_NAMES = "kafka-streams-names"
RECORDED = "application:stoatflow_dropped_records:increase10m"
# Depends on the machine that runs the test.
DISK = "StoatFlowStateDiskNearlyFull"
IN_TROUBLE = {
    "StoatFlowAsyncCallsFail",
    "StoatFlowDeadLetters",
    "StoatFlowLateRecords",
    "StoatFlowParkedAtBound",
    "StoatFlowRecordsDropped",
    "StoatFlowWatermarkHeldBack",
}
# Older names without the base unit, and quantiles from before the histogram: names are only added.
OLDER_NAMES = {
    "stoatflow_commit_duration_quantile_seconds",
    "stoatflow_parked_oldest_ms",
    "stoatflow_partition_watermark_lag_ms",
    "stoatflow_partition_watermark_ms",
    "stoatflow_watermark_lag_ms",
    "stoatflow_watermark_ms",
}


class Watching(NamedTuple):
    """An application in trouble, and the Prometheus that watches it."""

    app: sf.StoatFlow
    prometheus: PrometheusServer


def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain; last seen: {what()}"
        time.sleep(0.1)


def ask(app: sf.StoatFlow, path: str, method: str = "GET", accept: str = "*/*") -> str:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept}
    request = urllib.request.Request(f"{app.admin_url}{path.lstrip('/')}", method=method, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # our own port
        return str(answer.read().decode())


def configuration(folder: Path, targets: list[str]) -> Path:
    """The shipped files, for these targets and for a test that has no minutes."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = targets
    (folder / config["scrape_configs"][0]["authorization"]["credentials_file"]).write_text(TOKEN, "utf-8")
    (folder / "alerts.yml").write_text(hurried((MONITORING / "alerts.yml").read_text("utf-8"), SPAN, "500ms"), "utf-8")
    theirs = {**config["scrape_configs"][0], "job_name": THEIR_NAMES, "params": {"names": ["kafka-streams"]}}
    config["scrape_configs"].append(theirs)
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory, cluster: KafkaBroker) -> Iterator[Watching]:
    folder = tmp_path_factory.mktemp("monitoring")
    with watched(folder) as (app, broker), troubled(broker), on_kafka(folder, cluster.bootstrap) as calm:
        targets = [str(of.admin_url).partition("://")[2].rstrip("/") for of in (app, calm)]
        with PrometheusServer(configuration(folder, targets), folder) as prometheus:
            # The last of its metrics to appear.
            late = 'stoatflow_dropped_records_total{reason="late"}'
            until(lambda: bool(prometheus.query(late)), lambda: prometheus.ask("targets"))
            yield Watching(app, prometheus)


def test_prometheus_evaluates_every_rule(watching: Watching) -> None:
    known: list[dict[str, Any]] = []

    # The health of a rule is unknown until its group was evaluated.
    def is_evaluated() -> bool:
        groups = watching.prometheus.ask("rules")["groups"]
        known[:] = [rule for group in groups for rule in group["rules"]]
        return all(rule["health"] == "ok" for rule in known)

    until(is_evaluated, lambda: [rule["name"] for rule in known if rule["health"] != "ok"])
    assert {rule["name"] for rule in known} == {rule.get("alert", rule.get("record")) for rule in rules()}


def test_every_metric_that_is_named_exists_with_its_labels(watching: Watching) -> None:
    asked = [rule["expr"] for rule in rules()] + [query for _, query in dashboard_queries(SPAN)]
    series: dict[str, list[dict[str, str]]] = {}

    def missing() -> set[str]:
        return {name for expression in asked for name in metrics_in(expression) if not series.get(name)}

    # After a scrape that a busy machine has delayed there is no data until the next one, so the query is
    # repeated.
    def is_all_there() -> bool:
        series.update(
            (name, [row["metric"] for row in watching.prometheus.query(f'{{__name__="{name}"}}')])
            for name in {name for expression in asked for name in metrics_in(expression)}
        )
        return missing() == set()

    until(is_all_there, missing)
    for expression in asked:
        known = {label for name in metrics_in(expression) for row in series[name] for label in row}
        if metrics_in(expression):
            assert matched_labels(expression) <= known | TARGET_LABELS, expression
        for name, label, words in labels_in(expression):
            if name == "up":
                continue
            assert all(label in row for row in series[name]), f"{name} has no label {label}: {expression}"
            if name in {"stoatflow_not_ready", "stoatflow_state"}:
                assert set(words) <= {row[label] for row in series[name]}, expression


def test_the_budget_alert_fires(watching: Watching) -> None:
    def now(name: str) -> float:
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = watching.prometheus.query(f'stoatflow_in_flight_{name}_bytes{{application_id="{APPLICATION}"}}')
            return bool(found)

        until(is_there, lambda: name)
        (row,) = found
        return float(row["value"][1])

    assert 4096 <= now("budget") <= now("max") == 16 << 20


def test_a_second_job_has_the_names_of_kafka_streams(watching: Watching) -> None:
    wanted = {
        "kafka_streams_stream_thread_metrics_process_rate": "sum",
        "kafka_streams_stream_task_metrics_dropped_records_total": "sum",
        "kafka_streams_stream_processor_node_metrics_process_total": "sum",
        "kafka_streams_stream_metrics_client_state": "max",
    }
    empty: list[str] = []

    def is_all_there() -> bool:
        job = f'{{job="{THEIR_NAMES}"}}'
        empty[:] = [name for name, of in wanted.items() if not watching.prometheus.query(f"{of}({name}{job}) > 0")]
        return not empty

    until(is_all_there, lambda: empty)
    ours = watching.prometheus.query(f'{{__name__=~"stoatflow_.+", job="{THEIR_NAMES}"}}')
    assert ours == [], "they would be there twice"


def test_exactly_the_right_alerts_fire(watching: Watching) -> None:
    firing: dict[str, list[dict[str, Any]]] = {}

    # On a machine that is held up for a moment, ranges of two seconds are empty, so the query is repeated.
    def as_wanted() -> bool:
        firing.clear()
        firing.update(watching.prometheus.firing())
        return set(firing) - {DISK} == IN_TROUBLE and dropping() == {"parse", "look-up"}

    def dropping() -> set[str]:
        return {alert["labels"]["node"] for alert in firing.get("StoatFlowRecordsDropped", ())}

    until(as_wanted, lambda: (sorted(firing), dropping()))
    reasons = {alert["labels"]["reason"] for alert in firing["StoatFlowRecordsDropped"]}
    assert reasons == {"processing_error"}
    (held,) = firing["StoatFlowWatermarkHeldBack"]
    assert (held["labels"]["topic"], held["labels"]["partition"]) == ("quiet", "0")
    texts = [text for of_one in firing.values() for alert in of_one for text in alert["annotations"].values()]
    assert [text for text in texts if re.search(r"<|%!|\{\{|  ", text)] == []
    assert f"parse of {APPLICATION} has left out " in " ".join(texts)
    assert all(alert["labels"]["application_id"] == APPLICATION for of_one in firing.values() for alert in of_one)


def test_drop_reasons_in_rules_exist_in_the_engine() -> None:
    source = (MONITORING.parents[1] / "crates" / "operators" / "src" / "support" / "dropped.rs").read_text("utf-8")
    known = set(re.findall(r'= "(\w+)";', source))
    words = {
        word
        for rule in rules()
        for name, label, words in labels_in(rule["expr"].replace(RECORDED, "stoatflow_dropped"))
        if name.startswith("stoatflow_dropped") and label == "reason"
        for word in words
    }
    assert len(words) >= 6
    assert words <= known


def test_every_panel_has_data(watching: Watching) -> None:
    def empty() -> list[tuple[str, str]]:
        return [(title, query) for title, query in dashboard_queries(SPAN) if not watching.prometheus.query(query)]

    until(lambda: empty() == [], empty)


def test_promtool_finds_nothing_in_the_metrics_but_older_names(watching: Watching) -> None:
    output = subprocess.run(
        [find_prometheus().promtool, "check", "metrics"],
        input=ask(watching.app, "/metrics", accept="text/plain"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line for line in (output.stdout + output.stderr).splitlines() if line]
    assert {line.split(" ")[0] for line in lines} == OLDER_NAMES, output


def test_the_commands_of_the_page_are_answered(watching: Watching) -> None:
    asked = set(re.findall(r'curl [^\n]*?http://127\.0\.0\.1:8080(/[^\s"\']*)', PAGE.read_text("utf-8")))
    assert len(asked) > 5
    for path in asked - {"/pause", "/resume"}:
        assert ask(watching.app, path), path


# The last tests: they change what the others see.


def test_a_pause_is_alerted(watching: Watching) -> None:
    ask(watching.app, "/pause", "POST")
    firing = watching.prometheus.firing
    # A paused application drops nothing, and its missing commits are no alert.
    calm = {"StoatFlowPaused", "StoatFlowParkedAtBound"}
    until(lambda: set(firing()) - {DISK} == calm, lambda: sorted(firing()))
    ask(watching.app, "/resume", "POST")
    until(lambda: "StoatFlowPaused" not in firing(), lambda: sorted(firing()))


def test_an_end_is_alerted(watching: Watching) -> None:
    watching.app.close("60s")
    firing = watching.prometheus.firing
    until(lambda: set(firing()) - {DISK} == {"StoatFlowDown"}, lambda: sorted(firing()))
    assert {rule["alert"] for rule in alerts()} >= set(firing())
