"""Writes the Grafana dashboard, `deploy/monitoring/dashboard.json`, from a table of panels; `--check` compares.

The file can be imported into Grafana, or provisioned. Uses neither Grafana nor Prometheus; tests check the queries with
both and a running application.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

DASHBOARD = Path(__file__).resolve().parents[1] / "deploy" / "monitoring" / "dashboard.json"
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Labels of the engine's metrics; metrics of the process have no application.
APP = 'job=~"$job", application_id=~"$application", instance=~"$instance"'
PROCESS = 'job=~"$job", instance=~"$instance"'


class Panel(NamedTuple):
    """A panel: its queries with their legends, and its width."""

    title: str
    says: str
    unit: str
    queries: dict[str, str]
    kind: str = "timeseries"
    width: int = 8
    mappings: tuple[tuple[str, str, str], ...] = ()


def gauge(name: str, labels: str = "") -> str:
    """Return the metric of the chosen applications."""
    return f"{name}{{{APP}{', ' if labels else ''}{labels}}}"


def rate(name: str, labels: str = "") -> str:
    """Return a counter's rate per second."""
    return f"rate({gauge(name, labels)}[$__rate_interval])"


def total(of: str, *away: str) -> str:
    """Return the sum over all labels but those of the panel."""
    return f"sum without ({', '.join(away)}) ({of})"


def quantile(of: float, histogram: str, labels: str = "") -> str:
    """Return a quantile of a histogram in the interval."""
    return f"histogram_quantile({of}, {rate(f'{histogram}_bucket', labels)})"


WHO = "{{application_id}} {{instance}}"
PARTITION = "{{topic}}-{{partition}}"
FUNCTION = "{{node}}: {{function}}"
CLIENT_API = "{{client}} {{api}}"

ROWS: dict[str, list[Panel]] = {
    "Is it well?": [
        Panel(
            "Ready",
            "What /health/ready says.",
            "short",
            {gauge("stoatflow_ready"): WHO},
            "stat",
            4,
            (("0", "no", "red"), ("1", "yes", "green")),
        ),
        Panel("State", "Its lifecycle.", "short", {f"{gauge('stoatflow_state')} == 1": "{{state}}"}, "stat", 4),
        Panel(
            "Lag",
            "Readable records that are not committed yet.",
            "short",
            {total(gauge("stoatflow_partition_lag"), "topic", "partition"): WHO},
            "stat",
            4,
        ),
        Panel(
            "Since the last commit",
            "Grows too while there is nothing to commit.",
            "s",
            {f"time() - {gauge('stoatflow_last_commit_timestamp_seconds')}": WHO},
            "stat",
            4,
        ),
        Panel("Runs for", "", "s", {f"time() - {gauge('stoatflow_start_time_seconds')}": WHO}, "stat", 4),
        Panel("Version", "", "short", {gauge("stoatflow_build_info"): "{{version}}"}, "stat", 4),
        Panel(
            "Why it is not ready",
            "The reason of /health/ready, over time.",
            "short",
            {gauge("stoatflow_not_ready"): "{{reason}}"},
            "state-timeline",
            16,
            (("0", "no", "transparent"), ("1", "yes", "red")),
        ),
        Panel(
            "Starts and restarts",
            "Of the process, and by itself from its last commit.",
            "short",
            {
                f"changes({gauge('stoatflow_start_time_seconds')}[15m])": "starts in 15 minutes",
                f"increase({gauge('stoatflow_restarts_total')}[15m])": "restarts by itself in 15 minutes",
            },
        ),
    ],
    "Records": [
        Panel(
            "Records by second",
            "Admitted and committed stay close.",
            "ops",
            {
                rate("stoatflow_records_in_total"): "admitted",
                rate("stoatflow_records_committed_total"): "committed",
                rate("stoatflow_records_out_total"): "to output topics",
                rate("stoatflow_changelog_records_total"): "to changelogs",
            },
        ),
        Panel("Lag by partition", "", "short", {f"topk(20, {gauge('stoatflow_partition_lag')})": PARTITION}),
        Panel(
            "Records by node",
            "The busiest ten.",
            "ops",
            {f"topk(10, {rate('stoatflow_node_records_total')})": "{{node}} ({{op}})"},
        ),
        Panel(
            "Dropped records",
            "Nothing is dropped silently: by node and reason.",
            "ops",
            {rate("stoatflow_dropped_records_total"): "{{node}}: {{reason}}"},
        ),
        Panel(
            "Late records",
            "Older than the watermark, whatever became of them.",
            "ops",
            {rate("stoatflow_late_records_total"): "{{topic}}: {{policy}}"},
        ),
        Panel(
            "Behind open transactions",
            "Records that can't be read, and for how long a transaction of another producer has been open.",
            "short",
            {
                gauge("stoatflow_partition_held_back_records"): f"{PARTITION} records",
                gauge("stoatflow_partition_held_back_seconds"): f"{PARTITION} seconds",
            },
        ),
    ],
    "Commits": [
        Panel(
            "Duration of commits",
            "From barrier to local store.",
            "s",
            {
                quantile(0.5, "stoatflow_commit_duration_seconds"): "half",
                quantile(0.99, "stoatflow_commit_duration_seconds"): "99 %",
            },
        ),
        Panel(
            "Phases of commits",
            "99 % of them take at most so long: align waits for lanes, the others are the steps of the commit.",
            "s",
            {quantile(0.99, "stoatflow_commit_phase_duration_seconds"): "{{phase}}"},
        ),
        Panel(
            "Age of records at their commit",
            "Of the oldest record in each commit, by its timestamp.",
            "s",
            {
                quantile(0.5, "stoatflow_record_latency_seconds"): "half",
                quantile(0.99, "stoatflow_record_latency_seconds"): "99 %",
            },
        ),
        Panel("The last commit by phase", "", "s", {gauge("stoatflow_last_commit_seconds"): "{{phase}}"}),
        Panel(
            "Commits by second",
            "",
            "ops",
            {rate("stoatflow_commits_total"): WHO},
        ),
        Panel(
            "Bytes in flight",
            "At the budget no more are read. It is what lanes get through within a commit interval.",
            "bytes",
            {
                gauge("stoatflow_in_flight_bytes"): "in flight",
                gauge("stoatflow_in_flight_budget_bytes"): "budget",
                gauge("stoatflow_in_flight_max_bytes"): "in.flight.max.bytes",
            },
        ),
        Panel(
            "Slowed down by quotas",
            "Share of the time for which brokers make it wait.",
            "percentunit",
            {rate("stoatflow_broker_throttle_seconds_total"): WHO},
        ),
        Panel(
            "Epochs",
            "The one that admits records, and the last committed one.",
            "short",
            {gauge("stoatflow_open_epoch"): "open", gauge("stoatflow_committed_epoch"): "committed"},
        ),
    ],
    "Kafka clients": [
        Panel(
            "Answers to requests",
            "99 % arrive within this time. A Fetch waits for records.",
            "s",
            {quantile(0.99, "stoatflow_client_request_duration_seconds"): CLIENT_API},
        ),
        Panel(
            "Requests by second",
            "Native client only, as all panels of this row.",
            "ops",
            {rate("stoatflow_client_requests_total"): CLIENT_API},
        ),
        Panel(
            "Requests in trouble",
            "By second: without an answer, and sent again.",
            "ops",
            {
                rate("stoatflow_client_requests_unanswered_total"): f"{CLIENT_API} unanswered",
                rate("stoatflow_client_retries_total"): f"{CLIENT_API} again",
            },
        ),
        Panel(
            "Errors in answers",
            "By second. Those that come and go with a new leader are retried.",
            "ops",
            {rate("stoatflow_client_errors_total"): f"{CLIENT_API}: {{{{error}}}}"},
        ),
        Panel(
            "Connections",
            "Open ones, and how many were opened again or failed in 15 minutes.",
            "short",
            {
                gauge("stoatflow_client_connections"): "{{client}} open",
                f"increase({gauge('stoatflow_client_reconnects_total')}[15m])": "{{client}} opened again",
                f"increase({gauge('stoatflow_client_connections_failed_total')}[15m])": "{{client}} failed",
            },
        ),
        Panel(
            "Bytes by second",
            "Of requests and answers.",
            "Bps",
            {
                total(rate("stoatflow_client_sent_bytes_total"), "api"): "{{client}} sent",
                total(rate("stoatflow_client_received_bytes_total"), "api"): "{{client}} received",
            },
        ),
    ],
    "Event time": [
        Panel(
            "Watermark behind the clock",
            "",
            "s",
            {gauge("stoatflow_watermark_lag_seconds"): WHO},
        ),
        Panel(
            "Partitions behind the clock",
            "",
            "s",
            {f"topk(20, {gauge('stoatflow_partition_watermark_lag_seconds')})": PARTITION},
        ),
        Panel(
            "Who holds it back",
            "1: the watermark of the application waits for this partition.",
            "short",
            {gauge("stoatflow_partition_holds_back"): PARTITION},
        ),
    ],
    "Lanes and functions": [
        Panel(
            "Lanes at work",
            "Share of the time. One far above the others: one key far above the others.",
            "percentunit",
            {rate("stoatflow_lane_busy_seconds_total"): "lane {{lane}}"},
        ),
        Panel("Waiting for lanes", "", "bytes", {gauge("stoatflow_lane_queue_bytes"): "lane {{lane}}"}),
        Panel(
            "Functions",
            "Seconds in each by second, the longest ten.",
            "percentunit",
            {f"topk(10, {rate('stoatflow_function_seconds_total')})": FUNCTION},
        ),
        Panel(
            "Waiting for the GIL",
            "Of functions, or for their concurrency limit: seconds by second, the longest ten.",
            "percentunit",
            {f"topk(10, {rate('stoatflow_function_wait_seconds_total')})": FUNCTION},
        ),
        Panel(
            "Async calls",
            "Under way, and parked because they outlived an epoch.",
            "short",
            {
                gauge("stoatflow_async_calls_under_way"): f"{FUNCTION} under way",
                gauge("stoatflow_async_calls_parked"): f"{FUNCTION} parked",
            },
        ),
        Panel(
            "Async calls in trouble",
            "By second.",
            "ops",
            {
                rate("stoatflow_async_calls_failed_total"): f"{FUNCTION} failed",
                rate("stoatflow_async_calls_timed_out_total"): f"{FUNCTION} timed out",
                rate("stoatflow_async_calls_retried_total"): f"{FUNCTION} tried again",
            },
        ),
        Panel("The oldest async call", "", "s", {gauge("stoatflow_async_oldest_call_seconds"): FUNCTION}),
        Panel(
            "Parked for workers",
            "Records of offloads. At the bound their input is not read on.",
            "short",
            {
                gauge("stoatflow_parked_records"): "{{node}}",
                gauge("stoatflow_parked_records_most"): "{{node}} bound",
            },
        ),
        Panel("Parked for how long", "The oldest.", "s", {gauge("stoatflow_parked_oldest_seconds"): "{{node}}"}),
    ],
    "State": [
        Panel(
            "Memory of stores",
            "",
            "bytes",
            {
                gauge("stoatflow_state_memory_bytes"): "block cache and write buffers",
                gauge("stoatflow_state_staged_bytes"): "of open epochs",
            },
        ),
        Panel(
            "Disk under state.dir",
            "",
            "bytes",
            {
                gauge("stoatflow_state_disk_free_bytes"): "free",
                gauge("stoatflow_state_disk_size_bytes"): "size",
            },
        ),
        Panel(
            "Restore",
            "Changelog records to be read before it runs, and those that are.",
            "short",
            {
                gauge("stoatflow_restore_records"): "{{store}}",
                gauge("stoatflow_restore_records_done"): "{{store}} read",
            },
        ),
    ],
    "Process": [
        Panel(
            "Processors",
            "How many it keeps busy.",
            "short",
            {f"rate(process_cpu_seconds_total{{{PROCESS}}}[$__rate_interval])": "{{instance}}"},
        ),
        Panel("Memory", "", "bytes", {f"process_resident_memory_bytes{{{PROCESS}}}": "{{instance}}"}),
        Panel(
            "File handles",
            "",
            "short",
            {
                f"process_open_fds{{{PROCESS}}}": "{{instance}} open",
                f"process_max_fds{{{PROCESS}}}": "{{instance}} bound",
            },
        ),
    ],
}


def options(panel: Panel) -> dict[str, Any]:
    """Return the options of a panel's kind."""
    if panel.kind == "stat":
        text = "name" if panel.title in {"State", "Version"} else "auto"
        reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        return {"colorMode": "value", "graphMode": "none", "textMode": text, "reduceOptions": reduce}
    if panel.kind == "state-timeline":
        return {"mergeValues": True, "showValue": "never", "legend": {"showLegend": False}}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def drawn(panel: Panel, number: int, at: tuple[int, int], height: int) -> dict[str, Any]:
    """Return a panel in Grafana's format."""
    named = {value: {"text": text, "color": color} for value, text, color in panel.mappings}
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        defaults |= {"min": 0, "custom": {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}}
    if named:
        defaults["mappings"] = [{"type": "value", "options": named}]
    targets = [
        {"datasource": DATASOURCE, "editorMode": "code", "expr": query, "legendFormat": legend, "refId": chr(65 + n)}
        for n, (query, legend) in enumerate(panel.queries.items())
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": DATASOURCE,
        "gridPos": {"x": at[0], "y": at[1], "w": panel.width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options(panel),
        "targets": targets,
    }


def panels() -> list[dict[str, Any]]:
    """Return all panels, row by row from the left."""
    found: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        found.append({"id": len(found) + 1, "type": "row", "title": title, "gridPos": place, "collapsed": False})
        y += 1
        x, height = 0, 0
        for panel in row:
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            height = 4 if panel.kind == "stat" else 8
            found.append(drawn(panel, len(found) + 1, (x, y), height))
            x += panel.width
        y += height
    return found


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """Return a variable that is chosen above the panels."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    """Return the whole dashboard."""
    info = "stoatflow_build_info"
    chosen = 'job=~"$job"'
    variables = [
        {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "current": {}},
        variable("job", "Job", f"label_values({info}, job)"),
        variable("application", "Application", f"label_values({info}{{{chosen}}}, application_id)"),
        variable("instance", "Instance", f'label_values({info}{{{chosen}, application_id=~"$application"}}, instance)'),
    ]
    alerts = {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "expr": 'ALERTS{alertname=~"StoatFlow.+", alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{application_id}} {{instance}}",
        "iconColor": "red",
    }
    return {
        "uid": "stoatflow",
        "title": "StoatFlow",
        "description": "What its applications do, where they wait, and what is wrong.",
        "tags": ["stoatflow", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": variables},
        "annotations": {"list": [alerts]},
        "panels": panels(),
    }


def main() -> int:
    """Write or check."""
    text = json.dumps(dashboard(), indent=2) + "\n"
    if "--check" in sys.argv[1:]:
        if DASHBOARD.is_file() and DASHBOARD.read_text("utf-8") == text:
            return 0
        print("deploy/monitoring/dashboard.json is not what scripts/dashboard.py says; run: make docs", file=sys.stderr)
        return 1
    DASHBOARD.write_text(text, "utf-8")
    print("written: deploy/monitoring/dashboard.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
