"""The settings files of docs/guide/providers: each runs a word count, with our address, user and files.

What a page says about a provider is not tested here, only that its file connects this way, on Apache Kafka.
"""

from __future__ import annotations

import itertools
import re
import sys
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import ALLOWED
from counting import by_hand, check_every_update, consume, lines, table
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.cli.word_count import topology

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "guide" / "providers").glob("*.md"))
# Their certificates are signed by a public CA; the machine trusts ours instead.
PUBLIC = {"confluent-cloud", "amazon-msk"}
WAYS_IN = {
    ("SSL", None): "MTLS",
    ("SASL_SSL", "PLAIN"): "SASL_SSL_PLAIN",
    ("SASL_SSL", "SCRAM-SHA-256"): "SASL_SSL_SCRAM",
    ("SASL_SSL", "SCRAM-SHA-512"): "SASL_SSL_SCRAM",
    ("SASL_SSL", "OAUTHBEARER"): "SASL_SSL_OAUTHBEARER",
}
PARTITIONS = 3

pytestmark = pytest.mark.xdist_group("secured")


class File(NamedTuple):
    """A settings file of a page."""

    page: Path
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.stem}-{self.number}"

    @property
    def values(self) -> dict[str, str]:
        """By name, as far as they are single-line strings: all that the tests look at or change."""
        return dict(named for line, named in _named(self.text) if named)

    @property
    def way_in(self) -> tuple[str, str | None]:
        """Protocol and mechanism."""
        return self.values["security.protocol"], self.values.get("sasl.mechanism")

    def with_values(self, ours: Mapping[str, str]) -> str:
        """The file with other values for some names, which the page must have."""
        return "\n".join(
            re.sub(r'".*"', f'"{ours[named[0]]}"', line) if named and named[0] in ours else line
            for line, named in _named(self.text)
        )


def _named(text: str) -> list[tuple[str, tuple[str, str] | None]]:
    """Each line, with the name and value it sets, if any."""
    found: list[tuple[str, tuple[str, str] | None]] = []
    prefix = ""
    for line in text.splitlines():
        if is_table := re.fullmatch(r"\[([\w.]+)\]", line):
            prefix = f"{is_table[1]}."
        given = re.fullmatch(r'(\w+) = "(.*)"', line)
        found.append((line, (prefix + given[1], given[2]) if given else None))
    return found


def blocks(page: Path, marker: str) -> list[str]:
    return re.findall(rf"```{re.escape(marker)}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


FILES = [File(page, number, text) for page in PAGES for number, text in enumerate(blocks(page, "toml"), 1)]


def each_way_first() -> list[object]:
    """All files; those whose protocol and mechanism an earlier one has are for the long tests."""
    seen = set[tuple[str, str | None]]()
    found: list[object] = []
    for file in FILES:
        marks = [pytest.mark.long] if file.way_in in seen else []
        seen.add(file.way_in)
        found.append(pytest.param(file, marks=marks, id=str(file)))
    return found


@pytest.fixture
def ours(secured: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[File], Path]:
    """Writes a settings file for our cluster, and what it refers to: the password, the function for tokens."""

    def write(file: File) -> Path:
        client = secured.client(WAYS_IN[file.way_in], mechanism=file.way_in[1])
        (tmp_path / "password").write_text(client.get("sasl.password", "") + "\n")
        named = {key: value for key, value in client.items() if key == "sasl.username" or key.endswith(".location")}
        text = file.with_values({**named, "sasl.password": f"file:{tmp_path / 'password'}"})
        brokers = itertools.cycle(client["bootstrap.servers"].split(","))
        text, places = re.subn(r"[\w-]+(\.[\w-]+)+:\d+", lambda _: next(brokers), text)
        assert places
        if file.page.stem in PUBLIC:
            monkeypatch.setenv("SSL_CERT_FILE", client["ssl.ca.location"])
        path = tmp_path / "orders.toml"
        path.write_text(text)
        return path

    def generate_auth_token(region: str) -> tuple[str, int]:
        return secured.tokens.token(ALLOWED, lifetime_s=600.0), int((time.time() + 600) * 1000)

    stand_in = types.ModuleType("aws_msk_iam_sasl_signer")
    vars(stand_in)["MSKAuthTokenProvider"] = types.SimpleNamespace(generate_auth_token=generate_auth_token)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", stand_in)
    for page in PAGES:
        for function in blocks(page, 'python title="msk_tokens.py"'):
            (tmp_path / "msk_tokens.py").write_text(function)
    monkeypatch.delitem(sys.modules, "msk_tokens", raising=False)
    monkeypatch.chdir(tmp_path)
    return write


def counting(path: Path, name: str, state: Path) -> sf.StoatFlow:
    """Like `stoatflow run --config FILE --strict` with an id and a folder of this test."""
    given = {
        "application.id": name,
        "state.dir": state,
        "statestore.cache.max.bytes": 0,
        "config.strict": True,
        # It fails quickly if it can't connect.
        "broker.wait.timeout.ms": 15_000,
    }
    settings = sf.Settings.from_file(path, given, environ={})
    return sf.StoatFlow(topology(f"{name}-in", f"{name}-out", "native"), settings)


def written(secured: KafkaCluster, name: str, seed: int) -> list[str]:
    given = lines(seed, 300)
    KafkaTopics(secured.bootstrap()).write(f"{name}-in", given)
    return given


def check(secured: KafkaCluster, name: str, given: list[str]) -> None:
    """Output and changelog agree with the count by hand: nothing lost, nothing duplicated."""
    kafka = KafkaTopics(secured.bootstrap())
    check_every_update(kafka.read(f"{name}-out"), given)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)


def test_pages_cover_every_authentication() -> None:
    assert {file.way_in for file in FILES} == WAYS_IN.keys()
    assert {file.page for file in FILES} == set(PAGES)


@pytest.mark.parametrize("file", each_way_first())
def test_the_file_of_a_page_runs_exactly_once(
    secured: KafkaCluster, name: str, tmp_path: Path, ours: Callable[[File], Path], file: File
) -> None:
    for topic in ("in", "out"):
        secured.create_topic(f"{name}-{topic}", PARTITIONS)
    given = written(secured, name, 1)
    consume(counting(ours(file), name, tmp_path / "state"))
    check(secured, name, given)
    if "factor = 3" in file.text:
        assert len(secured.replicas(f"{name}-counts-changelog")) == 3


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_mistyped_setting_is_refused(
    tmp_path: Path, ours: Callable[[File], Path], monkeypatch: pytest.MonkeyPatch, file: File
) -> None:
    """This shows that each name in the file is read."""
    good = ours(file).read_text()
    counting(tmp_path / "orders.toml", "orders", tmp_path / "state")
    for number, (line, named) in enumerate(_named(good)):
        if named is None or named[0] == "application.id":
            continue
        mistyped = good.splitlines()
        mistyped[number] = re.sub(r"^(\w+)\w =", r"\1 =", line)
        (tmp_path / "mistyped.toml").write_text("\n".join(mistyped))
        monkeypatch.delitem(sys.modules, "msk_tokens", raising=False)
        with pytest.raises(sf.ConfigError) as refused:
            counting(tmp_path / "mistyped.toml", "orders", tmp_path / "state")
        assert named[0][:-1] in str(refused.value), named[0]
