"""The files of deploy/monitoring are accepted by promtool, tested by it, and described in the docs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from monitoring.finding import PrometheusError, find_prometheus
from monitoring.shipped import DASHBOARD, MONITORING, PAGE, ROOT, alerts, panels

URL = "https://github.com/stoatflow/stoatflow-python/blob/main/docs/guide/monitoring.md#"
FIRING = 'ALERTS{alertstate="firing"}'


def promtool(*arguments: str, folder: Path = MONITORING) -> subprocess.CompletedProcess[str]:
    command = [str(find_prometheus().promtool), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_promtool_accepts_the_rules() -> None:
    output = promtool("check", "rules", "alerts.yml")
    assert output.returncode == 0, output
    assert "SUCCESS" in output.stdout


def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(MONITORING / name, tmp_path)
    (tmp_path / "stoatflow.token").write_text("secret", "utf-8")
    output = promtool("check", "config", "prometheus.yml", folder=tmp_path)
    assert output.returncode == 0, output


def test_the_tests_of_the_alerts_pass() -> None:
    output = promtool("test", "rules", "alerts_test.yml")
    assert output.returncode == 0, output.stdout + output.stderr


def test_a_wrong_threshold_is_found(tmp_path: Path) -> None:
    tests = yaml.safe_load((MONITORING / "alerts_test.yml").read_text("utf-8"))
    tests["tests"] = [test for test in tests["tests"] if test["name"] == "StoatFlowStateDiskNearlyFull"]
    (tmp_path / "alerts_test.yml").write_text(yaml.safe_dump(tests), "utf-8")
    text = (MONITORING / "alerts.yml").read_text("utf-8")
    changed = text.replace("stoatflow_state_disk_size_bytes < 0.1", "stoatflow_state_disk_size_bytes < 0.01")
    assert changed != text
    (tmp_path / "alerts.yml").write_text(changed, "utf-8")
    output = promtool("test", "rules", "alerts_test.yml", folder=tmp_path)
    assert output.returncode != 0
    assert "StoatFlowStateDiskNearlyFull" in output.stdout + output.stderr


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = yaml.safe_load((MONITORING / "alerts_test.yml").read_text("utf-8"))["tests"]
    assert sorted(test["name"] for test in tests) == sorted(rule["alert"] for rule in alerts())
    for test in tests:
        assert all(check["expr"] == FIRING for check in test["promql_expr_test"])
        outcomes = [check["exp_samples"] for check in test["promql_expr_test"]]
        assert outcomes[0] == [], test["name"]
        (fired,) = outcomes[1]
        assert f'alertname="{test["name"]}"' in fired["labels"]
        assert 'instance="bad:8080"' in fired["labels"]
        assert any('instance="good:8080"' in series["series"] for series in test["input_series"])


def test_each_alert_has_a_summary_and_a_link() -> None:
    tests = yaml.safe_load((MONITORING / "alerts_test.yml").read_text("utf-8"))["tests"]
    labels = {
        test["name"]: set(re.findall(r'(\w+)="', test["promql_expr_test"][1]["exp_samples"][0]["labels"]))
        for test in tests
    }
    for rule in alerts():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        output = rule["annotations"]
        assert set(output) == {"summary", "description", "runbook_url"}
        # A label that the alert lacks would leave a gap in its text.
        used = set(re.findall(r"\$labels\.(\w+)", output["summary"] + output["description"]))
        assert used <= labels[rule["alert"]], rule["alert"]
        assert output["runbook_url"] == URL + rule["alert"].lower()
        assert output["description"].endswith(".")


def sections() -> dict[str, str]:
    """The sections of the page, by heading."""
    parts = re.split(r"^### (\w+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_describes_what_to_check_and_do_for_each_alert() -> None:
    reported = sections()
    assert list(reported) == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        text = reported[rule["alert"]].partition("\n## ")[0]
        assert f"`{rule['labels']['severity']}`" in text, rule["alert"]
        assert "```sh\n" in text, f"{rule['alert']}: no command"
        assert re.search(r"\n(See|Look at) ", text), f"{rule['alert']}: where to look"
        assert re.search(r"\nDo: ", text), f"{rule['alert']}: what to do"


def test_panels_named_on_the_page_exist() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    spans = re.findall(r'panels? ("[^"]+"(?: and "[^"]+")*)', text)
    named = {title for span in spans for title in re.findall(r'"([^"]+)"', span)}
    assert len(named) > 3
    assert named <= {panel["title"] for panel in panels()}


def test_the_dashboard_is_up_to_date_with_its_script() -> None:
    script = ROOT / "scripts" / "dashboard.py"
    ended = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_grafana_can_lay_out_the_dashboard() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, f"{panel['title']} lies on another one"
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    known = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used <= known
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)


def test_a_missing_prometheus_explains_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROMETHEUS_HOME", raising=False)
    with pytest.raises(PrometheusError, match=r"there is no apt-get to fetch it with.*PROMETHEUS_HOME"):
        find_prometheus()
    monkeypatch.setenv("PROMETHEUS_HOME", str(tmp_path))
    with pytest.raises(PrometheusError, match="can't be run"):
        find_prometheus()
