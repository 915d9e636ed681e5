"""The files of deploy/ are valid, and their commands work on a running application."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import stoatflow as sf

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TEMPLATE = ROOT / "python" / "stoatflow" / "cli" / "template"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
BASE = DEPLOY / "kubernetes" / "base"
MANIFESTS = BASE / "word-counts.yaml"
OVERLAY = DEPLOY / "kubernetes" / "overlays" / "production"
UNIT = DEPLOY / "systemd" / "word-counts.service"
SHUTDOWN_S = 30 + 2
LONGEST_REPORT_S = 5


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The admin port of an application that is RUNNING."""
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    config = {"application.id": "deployed", "state.dir": str(tmp_path_factory.mktemp("state"))}
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            app.wait_until("RUNNING")
            assert app.admin_url is not None
            yield app.admin_url.rstrip("/").rpartition(":")[2]


def run(command: list[str], port: str) -> int:
    """Run a file's health check on another port; returns its exit code."""
    assert command[0] == "python"
    assert any(":8080/" in word for word in command)
    moved = [sys.executable, *(word.replace(":8080/", f":{port}/") for word in command[1:])]
    return subprocess.run(moved, capture_output=True, timeout=60, check=False).returncode


def instructions() -> dict[str, list[str]]:
    joined = re.sub(r"\\\n", " ", DOCKERFILE.read_text("utf-8"))
    found: dict[str, list[str]] = {}
    for line in joined.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            found.setdefault(word, []).append(rest.strip())
    return found


def test_the_image_runs_without_root_and_hears_sigterm() -> None:
    lines = instructions()
    assert lines["USER"] == ["app"]
    assert json.loads(lines["ENTRYPOINT"][0])[:2] == ["stoatflow", "run"]
    assert lines["FROM"][0].endswith("-slim")
    (volume,) = lines["VOLUME"]
    assert f"STOATFLOW_STATE_DIR={volume}" in lines["ENV"][0]


def test_the_image_matches_new_projects() -> None:
    template = (TEMPLATE / "Dockerfile.txt").read_text("utf-8")
    assert template.replace("STOATFLOW_VERSION", sf.__version__) == DOCKERFILE.read_text("utf-8")


def test_the_health_check_of_the_image_works(port: str) -> None:
    command = json.loads(instructions()["HEALTHCHECK"][0].partition("CMD ")[2])
    assert run(command, port) == 0
    assert run(command, "1") != 0


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFESTS.read_text("utf-8")))


def test_manifests_fit_the_schema_of_kubernetes() -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, "1.33", strict=True)


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """Return the objects that `kubectl apply -k` would send; none where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return []
    ran = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def test_the_base_is_the_manifests() -> None:
    def ordered(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(objects, key=lambda one: str(one["kind"]))

    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert listed == [MANIFESTS.name]
    if objects := kustomized(BASE):
        assert ordered(objects) == ordered(manifests())


def test_the_overlay_fits_the_schema_of_kubernetes() -> None:
    objects = kustomized(OVERLAY)
    if not objects:  # only kubectl can render it
        return
    assert sorted(one["kind"] for one in objects) == ["ConfigMap", "PodDisruptionBudget", "Service", "StatefulSet"]
    for one in objects:
        kubernetes_validate.validate(one, "1.33", strict=True)
        assert one["metadata"]["namespace"] == "counting"


def test_the_overlay_runs_with_its_settings(tmp_path: Path) -> None:
    """Its settings file and its variables are what the engine accepts, and each mount and reference exists."""
    objects = kustomized(OVERLAY)
    if not objects:
        return
    stateful, settings = named(objects, "StatefulSet"), named(objects, "ConfigMap")
    base = named(manifests(), "StatefulSet")
    assert stateful["spec"]["replicas"] == 1
    pod = stateful["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    assert volume["configMap"]["name"] == settings["metadata"]["name"] != "word-counts-settings"
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    (claim,) = stateful["spec"]["volumeClaimTemplates"]
    assert set(mounts) == {volume["name"], claim["metadata"]["name"]}
    assert claim["spec"]["resources"]["requests"]["storage"] == "50Gi"
    (was,) = base["spec"]["template"]["spec"]["containers"]
    assert container["image"].partition(":")[0] == was["image"].partition(":")[0]
    for kept in ("livenessProbe", "readinessProbe"):
        assert container[kept] == was[kept]
    assert pod["terminationGracePeriodSeconds"] > SHUTDOWN_S
    entry = json.loads(instructions()["ENTRYPOINT"][0])
    assert container["command"][:-1] == entry[:-1]
    file = tmp_path / "settings.toml"
    assert container["command"][-1] == f"{mounts['settings']}/{file.name}"
    file.write_text(settings["data"][file.name], "utf-8")
    variables = {each["name"]: each.get("value", "from a secret") for each in container["env"]}
    assert variables["STOATFLOW_STATE_DIR"] == mounts["state"]
    found = sf.Settings.from_file(file, environ=variables)
    found.check()
    assert found.get("bootstrap.servers") == "kafka-1.example.com:9093,kafka-2.example.com:9093"
    assert found.origin("sasl.password") == "variable STOATFLOW_SASL_PASSWORD"


def test_one_instance_with_a_disk_and_time_to_commit(port: str) -> None:
    (stateful,) = (one for one in manifests() if one["kind"] == "StatefulSet")
    assert stateful["spec"]["replicas"] == 1
    pod = stateful["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > SHUTDOWN_S
    assert pod["securityContext"]["runAsNonRoot"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["STOATFLOW_STATE_DIR"] == mount["mountPath"]
    assert mount["name"] == stateful["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    settings = sf.Settings(environ=variables | {"STOATFLOW_APPLICATION_ID": "word-counts"})
    settings.check()
    for probe in ("livenessProbe", "readinessProbe"):
        command = container[probe]["exec"]["command"]
        assert run(command, port) == 0
        assert run(command, "1") != 0


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read(UNIT, "utf-8")
    return parser


def test_systemd_does_not_restart_a_fenced_application() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) >= 2 * LONGEST_REPORT_S
    assert str(sf.FencedError.exit_code) in service["RestartPreventExitStatus"].split()
    assert str(sf.ConfigError.exit_code) in service["RestartPreventExitStatus"].split()
    assert str(sf.StalledError.exit_code) not in service["RestartPreventExitStatus"].split()
    assert int(service["TimeoutStopSec"]) > SHUTDOWN_S
    assert shlex.split(service["ExecStart"])[1] == "run"
    assert service["StateDirectory"] == "word-counts"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:  # the test above has read the unit; where there is systemd, it checks the unit too
        return
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace("/opt/word-counts/venv/bin/stoatflow", "/bin/true"), "utf-8")
    output = subprocess.run([tool, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    assert [line for line in output.stderr.splitlines() if UNIT.name in line] == []


def test_state_is_kept_in_systemds_state_directory(tmp_path: Path) -> None:
    program = (
        "import stoatflow as sf\nbroker = sf.EmbeddedBroker()\nbroker.create_topic('in')\n"
        "builder = sf.StreamsBuilder()\nbuilder.stream('in', key=str, value=str).to_table(store='kept')\n"
        "with sf.StoatFlow(builder.build(), {'application.id': 'unit', 'admin.listen': 'off'}, broker=broker) as app:\n"
        "    app.wait_until('RUNNING')\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        env={"STATE_DIRECTORY": str(tmp_path)},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert (tmp_path / "unit").is_dir()
