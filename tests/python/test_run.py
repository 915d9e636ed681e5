"""`stoatflow run` and `stoatflow new`: from a file to a process, from nothing to a project."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.cli.commands import COMMANDS

APP = """
import stoatflow as sf
import beside

builder = sf.StreamsBuilder()
builder.stream("in").map_values(beside.change).to("out", value=bytes)
topology = builder.build()
"""
BESIDE = "def change(value):\n    import later\n    return later.upper(value)\n"
LATER = "def upper(value):\n    return value.upper()\n"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    (tmp_path / "beside.py").write_text(BESIDE, "utf-8")
    (tmp_path / "later.py").write_text(LATER, "utf-8")
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        broker.produce("in", "k", "v")
    (tmp_path / "settings.toml").write_text(
        f'"application.id" = "ran"\n"bootstrap.servers" = "embedded:{tmp_path}/topics"\n'
        f'"state.dir" = "{tmp_path}/state"\n"admin.listen" = "off"\n',
        "utf-8",
    )
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STOATFLOW_")} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stoatflow", *arguments]


def test_a_file_runs_until_it_is_stopped(app: Path) -> None:
    with subprocess.Popen(
        command("run", "app.py", "--config", "settings.toml", "--set", "lanes.count=3"),
        cwd=app,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = json.loads(next(line for line in process.stderr if "stoatflow::start" in line))
        assert (line["application"], line["lanes"]) == ("ran", 3)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with sf.EmbeddedBroker(app / "topics") as broker:
        assert [record.value for record in broker.read("out")] == [b"V"]


def check(app: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("run", *arguments, "--check"), cwd=app, env=environment(**variables), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def test_check_builds_but_does_not_start(app: Path) -> None:
    done = check(app, "app.py", "--config", "settings.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ran: the topology and the settings are valid", "reads: in", "writes: out", "stores: none",
    ]  # fmt: skip
    assert not (app / "state").exists()


@pytest.mark.parametrize("client", ["native", "librdkafka"])
def test_check_looks_at_the_properties_of_clients(app: Path, client: str) -> None:
    """Nothing listens there, because the check doesn't contact the broker."""
    given = ("app.py", "--application-id", "w", "--bootstrap", "127.0.0.1:1", "--set", f"kafka.client={client}")
    login = ("--set", "security.protocol=SASL_PLAINTEXT", "--set", "sasl.mechanism=PLAIN", "--set", "sasl.username=u")
    good = check(app, *given, *login, "--set", "sasl.password=p")
    assert (good.returncode, good.stderr) == (0, "")
    mistyped = check(app, *given, *login, "--set", "sasl.pasword=secret")
    assert mistyped.returncode == 2
    assert "sasl.pasword" in mistyped.stderr
    assert "secret" not in mistyped.stderr
    no_file = check(app, *given, *login, "--set", f"sasl.password=file:{app}/none")
    assert no_file.returncode == 2
    assert f"file:{app}/none" in no_file.stderr
    assert "is not set" not in no_file.stderr


def test_flags_win_over_variables_and_variables_over_the_file(app: Path) -> None:
    arguments = ("app.py", "--config", "settings.toml")
    assert check(app, *arguments, STOATFLOW_APPLICATION_ID="of-env").stdout.startswith("of-env:")
    both = check(app, *arguments, "--application-id", "of-flag", STOATFLOW_APPLICATION_ID="of-env")
    assert both.stdout.startswith("of-flag:")
    wrong = check(app, *arguments, "--set", "lanes.count=none")
    assert wrong.returncode == 2
    assert "lanes.count" in wrong.stderr
    strict = check(app, *arguments, "--set", "num.stream.threads=4", "--strict")
    assert strict.returncode == 2
    assert "num.stream.threads" in strict.stderr
    assert check(app, *arguments, "--set", "num.stream.threads=4").returncode == 0


def test_a_builder_gets_the_serdes_of_the_settings(app: Path) -> None:
    (app / "app.py").write_text(
        "import stoatflow as sf\nbuilder = sf.StreamsBuilder()\n"
        "builder.stream('in').group_by(lambda k, v: v).count(store='s').to_stream().to('out')\n",
        "utf-8",
    )
    arguments = ("app.py", "--config", "settings.toml")
    refused = check(app, *arguments)
    assert (refused.returncode, "doesn't know the serde" in refused.stderr) == (2, True)
    taken = check(app, *arguments, "--set", "default.key.serde=string")
    assert (taken.returncode, taken.stdout.splitlines()[-1]) == (0, "stores: s")


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("x = 1\n", "", "defines no StoatFlow, Topology or StreamsBuilder"),
        ("import stoatflow as sf\none = sf.StreamsBuilder()\ntwo = sf.StreamsBuilder()\n", "", "say which: FILE:NAME"),
        ("import stoatflow as sf\none = sf.StreamsBuilder()\n", ":two", "it defines one (a StreamsBuilder)"),
    ],
)
def test_ambiguous_targets_are_refused(app: Path, text: str, name: str, words: str) -> None:
    (app / "app.py").write_text(text, "utf-8")
    done = check(app, f"app.py{name}", "--config", "settings.toml")
    assert done.returncode == 2
    assert words in done.stderr


def test_two_edits_within_a_second_are_both_seen(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for store in ("counts", "totals", "values"):
        text = f"""
import stoatflow as sf
builder = sf.StreamsBuilder()
builder.table("in", key=str, value=str, store="{store}")
topology = builder.build()
"""
        (app / "app.py").write_text(text, "utf-8")
        assert main(["describe", str(app / "app.py")]) == 0
        assert f"(stores: [{store}])" in capsys.readouterr().out


def test_the_traceback_of_a_user_file_begins_in_the_file(app: Path) -> None:
    (app / "app.py").write_text("def f():\n    return 1 / 0\n\nf()\n", "utf-8")
    for done in (
        check(app, "app.py"),
        subprocess.run(command("describe", "app.py"), cwd=app, capture_output=True, text=True, check=False),
    ):
        assert done.returncode == 1
        assert done.stderr.count("File ") == 2
        assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_describe_names_the_builder_that_was_not_built(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (app / "app.py").write_text("import stoatflow as sf\nbuilder = sf.StreamsBuilder()\n", "utf-8")
    assert main(["describe", str(app / "app.py")]) == 2
    assert "topology = builder.build()" in capsys.readouterr().err
    assert main(["describe", str(app / "none.py")]) == 2
    assert "name a Python file" in capsys.readouterr().err


def test_describe_says_which_topics_are_not_made(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
import stoatflow as sf
builder = sf.StreamsBuilder()
orders = builder.table("orders", key=str, value=str)
people = builder.table("people", key=str, value=str)
kept = sf.Materialized("joined", value=str)
joined = orders.join(people, lambda order, person: order + person, foreign_key=lambda it: it, store=kept, name="who")
joined.group_by(lambda key, value: (value, value), key=str, value=str).count(store="counts").to_stream().to("out")
topology = builder.build()
"""
    (app / "app.py").write_text(text, "utf-8")
    assert main(["describe", str(app / "app.py")]) == 0
    printed = capsys.readouterr()
    assert printed.out == runpy.run_path(str(app / "app.py"))["topology"].describe()
    note, topics = printed.err.strip().split(": ", 1)[1].rsplit(": ", 1)
    assert note == "Kafka Streams would create these topics; here their records stay in memory"
    assert sorted(topics.split(", ")) == [
        "counts-repartition",
        "who-subscription-registration-topic",
        "who-subscription-response-topic",
    ]

    (app / "app.py").write_text(
        "import stoatflow as sf\nbuilder = sf.StreamsBuilder()\n"
        "builder.stream('in').to('out')\ntopology = builder.build()\n",
        "utf-8",
    )
    assert main(["describe", str(app / "app.py")]) == 0
    assert capsys.readouterr().err == ""


GRAPH = """
import stoatflow as sf
builder = sf.StreamsBuilder()
rates = builder.table("rates", key=str, value=int, store="rates")
names = builder.global_table("names", key=str, value=str, store="names")
prices = builder.stream("prices", key=str, value=int, name="read-prices")
joined = prices.join(rates, sf.left * sf.right, name="join-rates")
joined.group_by(sf.value, key=int).count(store="counts").to_stream().to("out", name="write-out")
topology = builder.build()
"""


def described(app: Path, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    (app / "app.py").write_text(GRAPH, "utf-8")
    assert main(["describe", str(app / "app.py"), "--format", form]) == 0
    return capsys.readouterr().out


def test_a_topology_is_described_as_json(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = json.loads(described(app, "json", capsys))
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert nodes["read-prices"]["kind"] == "source"
    assert nodes["read-prices"]["topics"] == ["prices"]
    assert nodes["join-rates"]["stores"] == ["rates"]
    assert nodes["write-out"]["kind"] == "sink"
    assert nodes["write-out"]["topics"] == ["out"]
    assert nodes["write-out"]["sub_topology"] == graph["sub_topologies"][-1]
    assert {"from": "read-prices", "to": "join-rates"} in graph["edges"]
    assert {edge["from"] for edge in graph["edges"]} | {edge["to"] for edge in graph["edges"]} <= nodes.keys()
    assert any("global store" in part for part in graph["sub_topologies"])
    # Each line of the text that names a node is one.
    text = described(app, "text", capsys)
    assert len(nodes) == len(re.findall(r"^    (?:Source|Processor|Sink): ", text, re.MULTILINE))


def test_a_topology_is_drawn_for_mermaid(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = described(app, "mermaid", capsys).splitlines()
    assert lines[0] == "flowchart TB"
    assert '    node_join_2d_rates["join-rates"]' in lines
    assert "  topic_prices --> node_read_2d_prices" in lines
    assert "  node_read_2d_prices --> node_join_2d_rates" in lines
    assert "  node_join_2d_rates -.- store_rates" in lines
    assert "  node_write_2d_out --> topic_out" in lines
    assert sum("subgraph" in line for line in lines) == sum(line.strip() == "end" for line in lines) == 3


def test_a_topology_is_drawn_for_graphviz(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = described(app, "dot", capsys)
    assert '  node_join_2d_rates [label="join-rates"]' in text
    assert "  node_read_2d_prices -> node_join_2d_rates\n" in text
    assert "  node_join_2d_rates -> store_rates [style=dashed, dir=none]" in text
    assert text.count("{") == text.count("}")
    if dot := shutil.which("dot"):
        drawn = subprocess.run([dot, "-Tsvg"], input=text, capture_output=True, text=True, check=True)
        assert "join&#45;rates" in drawn.stdout


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = subprocess.run(command("completion", "bash"), capture_output=True, text=True, check=True).stdout
    typed = " ".join(f"'{word}'" for word in words)
    program = f'{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _stoatflow; echo "${{COMPREPLY[@]}}"'
    ran = subprocess.run(["/bin/bash", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes_commands_and_options() -> None:
    assert completed("stoatflow", "des") == ["describe"]
    assert completed("stoatflow", "re") == ["reconcile", "record", "reset"]
    assert completed("stoatflow", "describe", "--f") == ["--format"]
    assert completed("stoatflow", "dlq", "rep") == ["replay"]
    assert "--dry-run" in completed("stoatflow", "dlq", "replay", "--d")
    assert completed("stoatflow", "nothing", "x") == []


def test_the_help_imports_no_command() -> None:
    program = (
        "import sys; sys.argv = ['stoatflow', '--help']\n"
        "from stoatflow.cli import main\n"
        "try: main()\n"
        "except SystemExit: print([name for name in sys.modules if name.startswith('stoatflow.')])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "show what keeps a running application busy" in ran.stdout
    loaded = ran.stdout.splitlines()[-1]
    assert "stoatflow.cli.commands" in loaded
    assert "stoatflow.plan" not in loaded
    assert "stoatflow.cli.run" not in loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: stoatflow {name}" in capsys.readouterr().out


def test_a_closed_pipe_is_no_failure(app: Path) -> None:
    line = f"{sys.executable} -m stoatflow run app.py --config settings.toml --check | head -c 1"
    done = subprocess.run(["/bin/sh", "-c", line], cwd=app, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr


def test_a_new_project_works(tmp_path: Path) -> None:
    made = subprocess.run(
        command("new", "orders-by-customer"), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    project = tmp_path / "orders-by-customer"
    files = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert files == {
        ".dockerignore", ".github/workflows/test.yml", ".gitignore", "Dockerfile", "README.md", "app.py",
        "pyproject.toml", "settings.toml", "test_app.py", "try_it.py",
    }  # fmt: skip
    first, folder, *commands = made.stdout.splitlines()
    assert (first, folder) == ("orders-by-customer is made. Next:", "  cd orders-by-customer")
    workflow = (project / ".github/workflows/test.yml").read_text("utf-8")
    readme = (project / "README.md").read_text("utf-8")
    printed = []
    for line in map(str.strip, commands):
        assert line in readme
        words = {"pytest": [sys.executable, "-m", "pytest"], "python": [sys.executable], "stoatflow": command()}
        program, *arguments = line.split()
        done = subprocess.run(
            [*words[program], *arguments], cwd=project, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        assert f"run: {line}\n" in workflow or program == "python"
        printed.append(done.stdout)
    assert "2 passed" in printed[0]
    assert printed[1].splitlines() == ["ann 2", "bob 1"]
    assert printed[2].startswith("orders-by-customer: the topology and the settings are valid")
    again = subprocess.run(command("new", "orders-by-customer"), cwd=tmp_path, capture_output=True, check=False)
    assert again.returncode == 2
    for name in files:
        text = (project / name).read_text("utf-8")
        assert "PROJECT_NAME" not in text
        assert "STOATFLOW_VERSION" not in text


def test_missing_settings_name_the_file_beside_the_application(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.replace("beside.change", "bytes.upper").replace("import beside", ""), "utf-8")
    done = check(tmp_path, "app.py")
    assert done.returncode == 2, done.stderr
    assert "application.id is not set" in done.stderr
    assert "Next: give --application-id ID and --bootstrap HOST:PORT (embedded:PATH needs no broker)" in done.stderr
    (tmp_path / "settings.toml").write_text("", "utf-8")
    done = check(tmp_path, "app.py")
    assert done.stderr.splitlines()[-2].endswith("Next: add --config settings.toml")
    done = check(tmp_path, "app.py", "--config", "settings.toml")
    assert "Next: fix what is listed" in done.stderr


def test_names_of_projects_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bad in ("Orders", "../x", "a b", "-x"):
        assert main(["new", "--in", str(tmp_path), "--", bad]) == 2
        assert "a letter first" in capsys.readouterr().err
