"""`stoatflow dlq` on an embedded broker: dead letters are listed, shown, and replayed once."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker
from stoatflow._runtime import bridge
from stoatflow.cli import main
from stoatflow.dlq.dead_letter import Header
from stoatflow.dlq.dead_letter_topics import dead_letter_topics
from stoatflow.dlq.replay import Replay
from stoatflow.dlq.selection import Selection
from stoatflow.dlq.topic import DeadLetterTopic
from stoatflow.settings import Settings

NOON = 1_769_860_800_000
ORDERS = [
    ("ann", '{"cents": 250, "count": 2}'),
    ("bob", '{"cents": 400}'),
    ("eve", '{"cents": 100, "cou'),
    ("kim", '{"cents": 90}'),
]
STREAMS: list[Header] = [
    ("__streams.errors.exception", b"java.lang.IllegalStateException: no"),
    ("__streams.errors.topic", b"orders"),
    ("__streams.errors.partition", b"1"),
    ("__streams.errors.offset", b"9"),
]


def as_bought(order: Any) -> int:
    return int(order["cents"] * order["count"])


def mended(order: Any) -> int:
    return int(order["cents"] * order.get("count", 1))


class Shop:
    """An application with a bug, on a broker."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self._folder, self.broker = folder, broker
        for topic in ("orders", "totals", "bad"):
            broker.create_topic(topic, 2 if topic == "orders" else 1)
        broker.produce_many("orders", [(1, k.encode(), v.encode(), NOON + n) for n, (k, v) in enumerate(ORDERS)])
        self.address = f"embedded:{broker.path}"
        self.client = bridge.TopicsClient([("application.id", "test")], broker.native)

    def work(self, total: Callable[[Any], int]) -> None:
        builder = sf.StreamsBuilder()
        orders = builder.stream("orders", key=str, value=dict, on_error=sf.DLQ("bad"))
        orders.map_values(total, name="total", on_error=sf.DLQ("bad")).to("totals", key=str, value=int)
        settings = {"application.id": "shop", "state.dir": str(self._folder / "state")}
        with sf.StoatFlow(builder.build(), settings, broker=self.broker) as app:
            while str(app.state) != "RUNNING" or app.lag():
                assert not app.wait(0.01)

    def totals(self) -> list[tuple[str, int]]:
        rows = self.broker.read("totals")
        return sorted((r.key.decode(), int.from_bytes(r.value, "big")) for r in rows if r.key and r.value)

    def dlq(self, *arguments: str) -> int:
        return main(["dlq", *arguments, "--bootstrap", self.address])

    def read(self, topic: str, partition: int = 0) -> list[tuple[int, int, bytes | None, bytes | None, list[Header]]]:
        found = self.client.topic(topic)
        assert found is not None
        begin, end = self.client.ranges(topic, found[0])[partition]
        return self.client.read(topic, partition, begin, end).next(10_000)

    def write(self, *records: tuple[str, bytes | None, list[Header]]) -> None:
        """Records of topic, value and headers."""
        writer = self.client.writer("by hand")
        writer.begin()
        writer.send([(topic, 0, b"k", value, NOON, headers) for topic, value, headers in records])
        assert writer.commit()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield Shop(tmp_path, broker)


def listed(shop: Shop, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    """The listing by exception."""
    capsys.readouterr()
    assert shop.dlq("list", "bad", "--json", *arguments) == 0
    return {str(cause["exception"]): cause for cause in json.loads(capsys.readouterr().out)["causes"]}


def test_a_replay_from_listing_to_end(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.work(as_bought)
    assert shop.totals() == [("ann", 500)]
    assert shop.dlq("list", "bad") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"3 dead letters in 'bad' at {shop.address}, 2 causes\n")
    assert [line.split()[1:] for line in printed.splitlines()[3:]] == [
        ["2", "0", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", "orders", "total", "KeyError"],
        ["1", "0", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", "orders", "KSTREAM-SOURCE-0000000000", "SerdeError"],
    ]

    assert shop.dlq("show", "bad", "--node", "total") == 0
    printed = capsys.readouterr().out
    assert "source       orders, 1:3\n" in printed, "the newest one"
    assert "key\n  kim\n" in printed
    assert 'value\n  {\n    "cents": 90\n  }\n' in printed
    assert "KeyError: 'count'" in printed.partition("traceback\n")[2]

    assert shop.dlq("replay", "bad", "--cause", "KeyError", "--yes") == 0
    printed = capsys.readouterr().out
    assert "to be sent back: 2\n" in printed
    assert printed.endswith("\nreplayed: 2\n")
    shop.work(mended)
    assert shop.totals() == [("ann", 500), ("bob", 400), ("kim", 90)]
    reported = [dict(row[4]).get("__stoatflow.replay.topic") for row in shop.read("totals")]
    assert reported == [None, b"bad", b"bad"], "outputs have the headers of their input"

    # The second replay sees the marks, and so does the list.
    assert shop.dlq("replay", "bad", "--yes", "--node", "total") == 0
    printed = capsys.readouterr().out
    assert "left out, replayed before (--again takes them too): 2\n" in printed
    assert printed.endswith("\nthere is nothing to replay\n")
    causes = listed(shop, capsys)
    assert (causes["KeyError"]["replayed"], causes["SerdeError"]["replayed"]) == (2, 0)
    shop.work(mended)
    assert len(shop.totals()) == 3


def test_a_replayed_record_is_the_input_record(shop: Shop) -> None:
    shop.write(("orders", b"{", [("trace", b"7"), ("none", None)]))
    shop.work(mended)
    (bad,) = (row for row in shop.read("bad") if row[3] == b"{")
    assert shop.dlq("replay", "bad", "--offset", f"0:{bad[0]}", "--yes") == 0
    assert shop.read("orders")[-1] == (
        1,
        NOON,
        b"k",
        b"{",
        [
            ("trace", b"7"),
            ("none", None),
            ("__stoatflow.replay.topic", b"bad"),
            ("__stoatflow.replay.partition", b"0"),
            ("__stoatflow.replay.offset", str(bad[0]).encode()),
            ("__stoatflow.replay.attempt", b"1"),
        ],
    )


def test_a_record_that_fails_again_is_a_new_dead_letter(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.work(as_bought)
    assert shop.dlq("replay", "bad", "--cause", "KeyError", "--yes") == 0
    shop.work(as_bought)
    cause = listed(shop, capsys)["KeyError"]
    assert (cause["count"], cause["replayed"], cause["failed_again"]) == (4, 2, 2)
    assert shop.dlq("replay", "bad", "--cause", "KeyError", "--yes") == 0
    again = [dict(row[4])["__stoatflow.replay.attempt"] for row in shop.read("orders", 1) if row[4]]
    assert again == [b"1", b"1", b"2", b"2"]
    assert all(len(row[4]) in {0, 4} for row in shop.read("orders", 1)), "the marks of before are replaced"
    shop.work(mended)
    assert shop.totals() == [("ann", 500), ("bob", 400), ("kim", 90)]


def test_the_again_option_replays_once_more(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.work(as_bought)
    for _ in range(2):
        assert shop.dlq("replay", "bad", "--again", "--yes") == 0
    assert len(shop.read("orders", 1)) == len(ORDERS) + 6
    assert shop.dlq("replay", "bad", "--dry-run") == 0
    assert "to be sent back: 0\n" in capsys.readouterr().out


def test_listing_changes_nothing(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.work(as_bought)
    topics = shop.broker.topics()
    assert shop.dlq("replay", "bad", "--dry-run", "--yes") == 0
    assert capsys.readouterr().out.endswith("\nnothing was changed (--dry-run)\n")
    assert shop.dlq("replay", "bad", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sent"] == 3
    # There is no terminal to ask for confirmation.
    assert shop.dlq("replay", "bad") == 2
    assert "Next: add --yes to do it" in capsys.readouterr().err
    # The confirmation is refused.
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", lambda question: "no")
    assert shop.dlq("replay", "bad") == 1
    assert shop.broker.topics() == topics
    assert len(shop.read("orders", 1)) == len(ORDERS)
    monkeypatch.setattr(builtins, "input", lambda question: "yes")
    assert shop.dlq("replay", "bad") == 0
    assert len(shop.read("orders", 1)) == len(ORDERS) + 3


def test_dead_letters_that_cannot_be_replayed(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that was deleted can't be fetched, and a timer has no record."""
    source = [(name.replace("__streams", "__stoatflow"), value) for name, value in STREAMS]
    shop.write(
        ("bad", None, [*source, ("__stoatflow.errors.gone", b"true")]),
        ("bad", b"timer", source[:1]),
        ("bad", b"sent", STREAMS),
        ("bad", b"no letter", [("h", b"1")]),
    )
    assert shop.dlq("replay", "bad", "--yes") == 0
    printed = capsys.readouterr().out
    assert "to be sent back: 1\n" in printed
    assert "left out, without their record: it had left its topic before the letter was written: 1\n" in printed
    assert "left out, from no record: of a timer or a punctuation, or their topic is not named: 1\n" in printed
    assert [row[3] for row in shop.read("orders", 1)][len(ORDERS) :] == [b"sent"]
    assert shop.dlq("list", "bad") == 0
    assert "1 record in it without headers of a dead letter: not counted" in capsys.readouterr().out
    assert shop.dlq("show", "bad", "0:0") == 0
    assert "no key, no value" in capsys.readouterr().out


def test_selecting_dead_letters(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.work(as_bought)
    cause = listed(shop, capsys)["SerdeError"]["cause"]
    assert list(listed(shop, capsys, "--cause", cause)) == ["SerdeError"]
    assert list(listed(shop, capsys, "--source", "orders", "--node", "total")) == ["KeyError"]
    assert listed(shop, capsys, "--since", "2026-01-31T12:00:01Z") == {}
    assert len(listed(shop, capsys, "--since", "2026-01-31T12:00:00Z")) == 2
    assert shop.dlq("show", "bad", "--since", "-1h") == 2
    assert "there is no such dead letter" in capsys.readouterr().err
    assert shop.dlq("replay", "bad", "--cause", "KeyErorr", "--yes") == 2
    assert "no dead letter in 'bad' matches --cause KeyErorr. Next: see what there is" in capsys.readouterr().err


def test_errors_name_the_next_step(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def result_of(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["dlq", *arguments]) != 0
        return capsys.readouterr().err

    at = ("--bootstrap", shop.address)
    assert "the topic 'worse' does not exist at embedded:" in result_of("list", "worse", *at)
    assert "'orders' is no topic of dead letters: none of its 4 records has headers such as" in result_of(
        "list", "orders", *at
    )
    nowhere = tmp_path / "nowhere"
    assert "there is no embedded broker at" in result_of("list", "bad", "--bootstrap", f"embedded:{nowhere}")
    assert not nowhere.exists(), "a look makes no folder"
    assert "bootstrap.servers" in result_of("list", "bad")

    # Its source topic is gone, or has fewer partitions: nothing is sent, not even other letters.
    sent = [(name, b"2" if name.endswith("partition") else value) for name, value in STREAMS]
    gone = [(name, b"left" if name.endswith("topic") else value) for name, value in STREAMS]
    shop.write(("bad", b"fine", STREAMS), ("bad", b"partition", sent))
    assert "came from partition 2 of 'orders', which has only 2 partition(s) now" in result_of(
        "replay", "bad", "--yes", *at
    )
    shop.write(("bad", b"topic", gone))
    refused = result_of("replay", "bad", "--yes", *at)
    assert "the topic 'left', where dead letters came from, does not exist" in refused
    assert "Next: create it with 2 or more partitions" in refused
    assert result_of("replay", "bad", "--dry-run", *at) == refused, "the dry run says so, too"
    assert len(shop.read("orders", 1)) == len(ORDERS)
    assert shop.dlq("replay", "bad", "--offset", "0:0", "--yes") == 0
    assert len(shop.read("orders", 1)) == len(ORDERS) + 1


def test_a_concurrent_replay_is_detected(shop: Shop) -> None:
    """Marks are read when no other replay can write them any more."""
    shop.work(as_bought)
    first = Replay(shop.client, DeadLetterTopic(shop.client, "bad"), Selection())

    class Late:
        """Between the start of a replay and its writer, another one replays everything."""

        def __getattr__(self, name: str) -> Any:
            return getattr(shop.client, name)

        def writer(self, of: str) -> Any:
            assert first.make(lambda _: None) == 3
            return shop.client.writer(of)

    late: Any = Late()
    assert Replay(late, DeadLetterTopic(late, "bad"), Selection()).make(lambda _: None) == 0
    assert len(shop.read("orders", 1)) == len(ORDERS) + 3


def test_invalid_marks_stop_a_replay(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.work(as_bought)
    shop.broker.create_topic("bad-replayed")
    shop.write(("bad-replayed", b"{}", []))
    assert shop.dlq("replay", "bad", "--yes") != 0
    assert "offset 0 of partition 0 of 'bad-replayed' is no mark" in capsys.readouterr().err
    assert listed(shop, capsys)["SerdeError"]["replayed"] is None, "a look goes on without them"
    assert shop.dlq("list", "bad") == 0
    printed = capsys.readouterr()
    assert "which letters were replayed is not known: offset 0" in printed.err
    assert [line.split()[2] for line in printed.out.splitlines() if "SerdeError" in line] == ["?"]
    assert shop.dlq("show", "bad") == 0
    assert "replayed     not known\n" in capsys.readouterr().out
    assert len(shop.read("orders", 1)) == len(ORDERS)


def test_marks_behind_the_end_stop_a_replay(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.work(as_bought)
    shop.broker.create_topic("bad-replayed")
    shop.write(("bad-replayed", b'{"format":1,"topic_id":null,"ranges":{"0":[[0,3]]}}', []))
    assert shop.dlq("replay", "bad", "--yes") != 0
    printed = capsys.readouterr().err
    assert "says that the letter 0:3 was replayed, and 'bad' ends before it" in printed
    assert "send the letters that are missing there with --again and --offset" in printed
    assert shop.dlq("replay", "bad", "--again", "--offset", "0:1", "--yes") == 0, "as it says"


def test_an_empty_topic(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert shop.dlq("list", "bad") == 0
    assert capsys.readouterr().out.startswith("0 dead letters in 'bad'")
    assert shop.dlq("replay", "bad", "--yes") == 0
    assert capsys.readouterr().out.endswith("\nthere is nothing to replay\n")


@pytest.mark.parametrize(
    ("handler", "written"),
    [
        ("log_and_continue", ["letters"]),
        ("org.apache.kafka.streams.errors.LogAndContinueExceptionHandler", ["letters"]),
        ("dlq:others", ["others"]),
        ("log_and_fail", []),
    ],
)
def test_acls_name_the_topic_that_the_settings_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], handler: str, written: list[str]
) -> None:
    app, config = tmp_path / "app_with_letters.py", tmp_path / "app.json"
    app.write_text(
        "import stoatflow as sf\nbuilder = sf.StreamsBuilder()\n"
        "builder.stream('in', key=str, value=str).foreach(print)\ntopology = builder.build()\n"
    )
    given = {"application.id": "app", "errors.dead.letter.queue.topic.name": "letters"}
    config.write_text(json.dumps(given | {"processing.exception.handler": handler}))
    assert main(["acls", str(app), "--config", str(config), "--json"]) == 0
    acls = json.loads(capsys.readouterr().out)
    assert [acl["name"] for acl in acls if acl["why"] == "takes dead letters"] == written


def test_the_topics_of_handlers_are_found_in_the_plan_and_in_the_settings() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str, on_error=sf.DLQ("of-the-source"))
    stream.to("out")
    settings = Settings({"application.id": "a", "processing.exception.handler": "dlq:of-the-setting"})
    assert dead_letter_topics(builder.build(), settings) == ["of-the-setting", "of-the-source"]
