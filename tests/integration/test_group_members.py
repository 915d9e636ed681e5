"""An application doesn't run beside members of its group, because both would process all input.

It joins no group itself, and brokers accept its offsets even when the group has members.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from broker.kafka_since import KAFKA_4
from counting import PATIENCE_S, check_every_update, lines, make, until, until_consumed, until_running
from members import PROTOCOLS, Member
from topics import KafkaTopics

import stoatflow as sf

CLIENTS = {"native": "native", "librdkafka": "librdkafka"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=KAFKA_4)])
def test_a_start_waits_for_other_members_and_then_fails(
    kafka: KafkaTopics, name: str, tmp_path: Path, protocol: str, client: str, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    given = lines(1, 50)
    kafka.write(f"{name}-in", given)
    with Member(kafka.address, name, PROTOCOLS[protocol]) as member:
        refused = make(kafka.address, name, tmp_path, kafka_client=client, broker_wait_timeout_ms=2000)
        with pytest.raises(sf.FencedError, match=f"has members \\('{name}-other' on 127.0.0.1\\)") as error, refused:
            until_running(refused)
        assert "give this application another application.id" in error.value.next_step
        assert kafka.count(f"{name}-out") == 0
        waiting = make(kafka.address, name, tmp_path, kafka_client=client)
        capfd.readouterr()
        logged: list[str] = []

        def says(text: str) -> bool:
            logged.extend(capfd.readouterr())
            return text in "".join(logged)

        with waiting:
            until(lambda: says(f"'{name}-other' on 127.0.0.1; waiting until they have left"), "it says so")
            assert str(waiting.state) == "STARTING"
            member.leave()
            until_consumed(waiting)
    check_every_update(kafka.read(f"{name}-out"), given)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=KAFKA_4)])
def test_the_application_ends_when_another_member_joins(
    kafka: KafkaTopics, name: str, tmp_path: Path, protocol: str, client: str
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    kafka.write(f"{name}-in", lines(1, 50))
    app = make(kafka.address, name, tmp_path, kafka_client=client, metadata_max_age_ms=200)
    reported = f"has got members while this application runs \\('{name}-other' on 127.0.0.1\\)"

    def beside_a_member() -> None:
        with app:
            until_running(app)
            with Member(kafka.address, name, PROTOCOLS[protocol]):
                assert app.wait(PATIENCE_S), "it runs on"

    with pytest.raises(sf.FencedError, match=reported):
        beside_a_member()
