"""`Serdes.encrypted`: only cipher text leaves the process; other keys, and key services that don't answer."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

CARD = "4111-1111-1111-1111"
FERNET = Fernet(Fernet.generate_key())


def encrypted(inner: Any, cipher: Any = FERNET) -> sf.Serde[Any]:
    return sf.Serdes.encrypted(inner, encrypt=cipher.encrypt, decrypt=cipher.decrypt)


ORDERS = encrypted(dict)


def shop(values: sf.Serde[Any], counts: sf.Serde[Any]) -> sf.Topology:
    """A table, windows, a join of streams, a held-back table, a count and a function: each keeps values."""
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=values)
    builder.table("cards", key=str, value=values, store="cards")
    windows = orders.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s"))
    last = windows.reduce(lambda old, new: new, store=sf.Materialized("last", value=values))
    last.suppress(sf.Suppressed.until_window_closes(), name="held").to_stream().to("minutes")
    paid = orders.join(
        orders.map_values(lambda order: order),
        lambda one, other: one,
        sf.JoinWindows("1m", grace="0s"),
        joined=sf.StreamJoined(str, values, values, name="paid"),
    )
    paid.to("paid", key=str, value=values)
    orders.group_by_key().count(store=sf.Materialized("counts", value=counts)).to_stream().to("counts")
    orders.map_values(lambda order: order | {"seen": True}).to("seen", key=str, value=values)
    return builder.build()


def run(folder: Path, values: sf.Serde[Any], counts: sf.Serde[Any]) -> dict[str, list[bytes | None]]:
    """The values of all topics after a run."""
    config = {"application.id": "shop", "state.dir": str(folder / "state"), "changelog.num.partitions": 1}
    with sf.EmbeddedBroker(folder / "broker") as broker:
        for topic in ("orders", "cards", "minutes", "paid", "counts", "seen"):
            broker.create_topic(topic)
        for at in (0, 90_000):
            data = values.serialize({"card": CARD})
            broker.produce("cards", b"ann", data, timestamp=at)
            broker.produce("orders", b"ann", data, timestamp=at)
        with sf.StoatFlow(shop(values, counts), config, broker=broker):
            until = time.monotonic() + 60
            while len(list(broker.read("seen"))) < 2 or not list(broker.read("minutes")):
                assert time.monotonic() < until
                time.sleep(0.02)
        return {topic: [record.value for record in broker.read(topic)] for topic in broker.topics()}


def files_with_the_card(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and CARD.encode() in path.read_bytes()]


def test_topics_changelogs_and_disks_hold_cipher_text_only(tmp_path: Path) -> None:
    topics = run(tmp_path, ORDERS, encrypted(int))
    changelogs = {topic: found for topic, found in topics.items() if topic.endswith("-changelog")}
    for store in ("cards", "last", "held", "counts", "paid"):
        assert any(store in topic and any(found) for topic, found in changelogs.items()), (store, changelogs)
    for topic, found in topics.items():
        assert not any(CARD.encode() in (value or b"") for value in found), topic
    assert files_with_the_card(tmp_path) == []
    assert [ORDERS.deserialize(value) for value in topics["seen"] if value] == [{"card": CARD, "seen": True}] * 2
    assert [encrypted(int).deserialize(value) for value in topics["counts"] if value][-1] == 2


def test_without_encryption_the_same_files_hold_the_card(tmp_path: Path) -> None:
    assert run(tmp_path, sf.Serdes.json(decode="dict"), sf.Serdes.int64())
    assert files_with_the_card(tmp_path)


def test_entries_of_indexes_are_not_encrypted(tmp_path: Path) -> None:
    """The page says so."""
    builder = sf.StreamsBuilder()
    by_card = sf.Index("by_card", sf.value["card"])
    builder.table("cards", key=str, value=ORDERS, store=sf.Materialized("cards", indexes=[by_card]))
    config = {"application.id": "app", "state.dir": str(tmp_path / "state"), "admin.listen": "127.0.0.1:0"}
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("cards")
        broker.produce("cards", b"ann", ORDERS.serialize({"card": CARD}))
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            app.wait_until("RUNNING")
            until = time.monotonic() + 60
            while not app.store("cards").get("ann"):
                assert time.monotonic() < until
                time.sleep(0.02)
            assert app.store("cards").get("ann") == {"card": CARD}
            found = urllib.request.urlopen(f"{app.admin_url}stores/cards/ann", timeout=30).read()  # noqa: S310  # ours
    assert CARD.encode() not in found
    assert ORDERS.deserialize(base64.b64decode(json.loads(found)["value"])) == {"card": CARD}
    assert files_with_the_card(tmp_path)


def test_state_is_restored_from_encrypted_changelogs() -> None:
    # In memory, so that a restart reads the changelogs.
    with TopologyTestDriver(shop(ORDERS, encrypted(int)), {"default.dsl.store": "in_memory"}) as driver:
        driver.input("cards", str, ORDERS).pipe("ann", {"card": CARD})
        driver.input("orders", str, ORDERS).pipe("ann", {"card": CARD}, timestamp=0)
        driver.crash()
        driver.restart()
        driver.input("orders", str, ORDERS).pipe("ann", {"card": "other"}, timestamp=1)
        assert driver.store("cards").get("ann") == {"card": CARD}
        assert driver.output("counts", str, encrypted(int)).read_value() == 1
        assert driver.store("counts").get("ann") == 2
        driver.input("cards", str, ORDERS).pipe("ann", None)
        assert driver.store("cards").get("ann") is None


def test_another_key_is_a_record_that_cannot_be_read() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("orders", key=str, value=ORDERS, on_error=sf.DLQ("bad")).map_values(lambda v: v["n"]).to(
        "out", key=str, value=int
    )
    with TopologyTestDriver(builder.build()) as driver:
        other = encrypted(dict, Fernet(Fernet.generate_key()))
        driver.input("orders", str, other).pipe("ann", {"n": 1, "card": CARD})
        driver.input("orders", str, ORDERS).pipe("bob", {"n": 2})
        assert driver.output("out", str, int).read_key_values_to_list() == [("bob", 2)]
        letter = driver.output("bad", str, bytes).read()
        assert other.deserialize(letter.value) == {"n": 1, "card": CARD}
        told = {name: text.decode() for name, text in letter.headers}
        assert "can't decrypt" in told["__stoatflow.errors.message"]
        assert "InvalidToken" in told["__stoatflow.errors.message"]
        assert "SerdeError" in told["__stoatflow.errors.exception"]


def test_old_keys_are_read_while_the_new_one_is_written() -> None:
    new = Fernet(Fernet.generate_key())
    both = encrypted(str, MultiFernet([new, FERNET]))
    assert both.deserialize(encrypted(str).serialize("old")) == "old"
    assert new.decrypt(both.serialize("new")) == b"new"


class AwayError(ConnectionError):
    """The key service doesn't answer."""


@pytest.mark.parametrize("error", [AwayError("no route"), sf.BrokerUnavailableError("throttled", next_step="wait")])
@pytest.mark.parametrize("side", ["decrypt", "encrypt"])
def test_a_key_service_that_is_away_drops_no_record(side: str, error: Exception) -> None:
    def away(data: bytes) -> bytes:
        raise error

    ciphers: dict[str, Any] = {"encrypt": FERNET.encrypt, "decrypt": FERNET.decrypt} | {side: away}
    serde = sf.Serdes.encrypted(str, **ciphers)
    config = {
        "deserialization.exception.handler": "log_and_continue",
        "production.exception.handler": "log_and_continue",
        "processing.exception.handler": "log_and_continue",
    }
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=serde if side == "decrypt" else str)
    stream.to("out", key=str, value=str if side == "decrypt" else serde)
    with TopologyTestDriver(builder.build(), config) as driver:
        with pytest.raises(sf.BrokerUnavailableError, match=r"no route|throttled") as caught:
            driver.input("in", str, bytes).pipe("ann", FERNET.encrypt(b"x"))
        assert caught.value.next_step in {"check the key service and the network", "wait"}


def test_an_application_restarts_until_the_key_service_answers(tmp_path: Path) -> None:
    calls: list[bytes] = []

    def decrypt(data: bytes) -> bytes:
        calls.append(data)
        if len(calls) < 3:
            raise AwayError("no route")
        return FERNET.decrypt(data)

    serde = sf.Serdes.encrypted(str, encrypt=FERNET.encrypt, decrypt=decrypt)
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=serde).map_values(str.upper).to("out", key=str, value=str)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        broker.produce("in", b"ann", FERNET.encrypt(b"x"))
        config = {"application.id": "app", "deserialization.exception.handler": "log_and_continue"}
        with sf.StoatFlow(builder.build(), config, broker=broker):
            until = time.monotonic() + 60
            while not (found := [record.value for record in broker.read("out")]):
                assert time.monotonic() < until
                time.sleep(0.02)
        assert found == [b"X"]
    assert len(calls) == 3


def test_expressions_read_decrypted_values() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=ORDERS).filter(sf.value["n"] > 1)
    stream.map_values(sf.value["card"].cast(str)).to("out", key=str, value=encrypted(str))
    with TopologyTestDriver(builder.build()) as driver:
        for number in (1, 2):
            driver.input("in", str, ORDERS).pipe("ann", {"n": number, "card": CARD})
        (written,) = driver.output("out", str, bytes).read_values_to_list()
        assert FERNET.decrypt(written) == CARD.encode()


class Odd(sf.Serde[Any]):
    """A serde of the user whose messages show everything."""

    def serialize(self, value: Any) -> bytes:
        raise ValueError(f"can't write {value!r}")

    def deserialize(self, data: bytes) -> Any:
        raise ValueError(f"can't read {data!r}")


def shown(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("inner", [int, Odd()])
def test_messages_show_no_value(inner: Any) -> None:
    serde = encrypted(inner)
    with pytest.raises(sf.SerdeError, match="can't write a value of the type str") as caught:
        serde.serialize(CARD)
    assert CARD not in shown(caught.value)
    with pytest.raises(sf.SerdeError, match="can't read the result") as caught:
        serde.deserialize(FERNET.encrypt(CARD.encode()))
    assert CARD not in shown(caught.value)
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=serde).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(sf.SerdeError, match="can't read the result") as caught:
            driver.input("in", str, bytes).pipe("ann", FERNET.encrypt(CARD.encode()))
        assert CARD not in shown(caught.value)


def test_functions_of_a_wrong_kind_are_refused() -> None:
    async def later(data: bytes) -> bytes:
        return data

    wrong: Any = later
    with pytest.raises(
        sf.TopologyError, match=r"test_encrypted_values\.py:\d+ Serdes\.encrypted\(encrypt=\).* is async"
    ):
        sf.Serdes.encrypted(str, encrypt=wrong, decrypt=FERNET.decrypt)
    wrong = b"key"
    with pytest.raises(sf.TopologyError, match=r"decrypt=\) needs a function of bytes, not a bytes"):
        sf.Serdes.encrypted(str, encrypt=FERNET.encrypt, decrypt=wrong)
    wrong = bytes.decode
    with pytest.raises(sf.SerdeError, match="returned a str"):
        sf.Serdes.encrypted(str, encrypt=wrong, decrypt=FERNET.decrypt).serialize("x")


def test_keys_need_a_deterministic_cipher() -> None:
    def count(serde: sf.Serde[Any]) -> list[tuple[Any, Any]]:
        builder = sf.StreamsBuilder()
        builder.stream("in", key=serde, value=str).group_by_key().count(store="counts").to_stream().to("out")
        with TopologyTestDriver(builder.build()) as driver:
            for _ in range(2):
                driver.input("in", serde, str).pipe("ann", "x")
            return driver.output("out", serde, int).read_key_values_to_list()

    with pytest.raises(sf.TopologyError, match=r"encrypted\(string\)' is for values") as caught:
        count(encrypted(str))
    assert "deterministic=True" in caught.value.next_step
    siv = AESSIV(AESSIV.generate_key(256))
    same = sf.Serdes.encrypted(
        str,
        encrypt=lambda data: siv.encrypt(data, None),
        decrypt=lambda data: siv.decrypt(data, None),
        deterministic=True,
    )
    assert count(same) == [("ann", 1), ("ann", 2)]
    claimed = sf.Serdes.encrypted(str, encrypt=FERNET.encrypt, decrypt=FERNET.decrypt, deterministic=True)
    with pytest.raises(sf.SerdeError, match="two results for the same bytes"):
        claimed.serialize("ann")


@pytest.mark.parametrize("where", ["window", "store", "default", "list"])
def test_keys_are_found_wherever_they_are(where: str) -> None:
    serde = encrypted(str)
    builder = sf.StreamsBuilder()
    config: dict[str, Any] = {}
    if where == "window":
        builder.stream("in", key=sf.Serdes.time_windowed(serde, "1s"), value=str).to("out")
    elif where == "store":
        builder.stream("in", key=str, value=str).to_table(store=sf.Materialized("kept", key=serde, value=str))
    elif where == "list":
        builder.stream("in", key=sf.Serdes.list(serde), value=str).to("out")
    else:
        config = {"default.key.serde": serde}
        builder.stream("in", value=str).to("out")
    with pytest.raises(sf.TopologyError, match="is for values"):
        builder.build(config)
