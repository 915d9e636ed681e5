"""Loads and reconciles on a real broker, in its own process, because Spark leaves a JVM and its sockets behind.

`spark_audit.py BOOTSTRAP NAME COUNT` prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import stoatflow as sf
from stoatflow.spark.audit.reconciling import reconcile
from stoatflow.spark.errors import TopicError
from stoatflow.spark.load import load
from stoatflow.spark.session import local_session


def topology(name: str) -> sf.Topology:
    """The reconciled topology: only a filter, so that Python knows the result too."""
    builder = sf.StreamsBuilder()
    orders = builder.stream(f"{name}-in", key=str, value=dict)
    orders.filter(sf.value["amount"] >= 50).to(f"{name}-out", key=str, value=dict)
    return builder.build()


def spec(name: str, count: int) -> dict[str, Any]:
    """The input, with headers."""
    orders = {
        "records": count,
        "partitions": 2,
        "key": {"kind": "uniform", "count": count // 10},
        "fields": {"amount": {"kind": "int", "high": 99}, "id": {"kind": "index"}},
        "headers": {"trace": {"kind": "index"}},
        "faults": {"duplicates": 0.01},
    }
    return {"seed": 1, "topics": {f"{name}-in": orders}}


def read(bootstrap: str, topic: str) -> list[Any]:
    """All records of two partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)[1] for partition in range(2)]
    found: list[Any] = []
    while len(found) < sum(ends):
        found += consumer.consume(sum(ends) - len(found), timeout=5)
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def write_outputs(bootstrap: str, name: str, records: list[Any]) -> None:
    """Write the right output except for five records of different keys."""
    right = [r for r in records if json.loads(r.value())["amount"] >= 50]
    keys = list(dict.fromkeys(r.key() for r in right))
    of = {key: [at for at, r in enumerate(right) if r.key() == key] for key in keys}
    several = [key for key in keys if len(of[key]) >= 3]
    lost, doubled, altered, moved, aborted = (of[key] for key in several[:5])
    order = list(range(len(right)))
    order[moved[0]], order[moved[2]] = order[moved[2]], order[moved[0]]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "queue.buffering.max.messages": 10**7}
    )
    producer.init_transactions(30)

    def send(record: Any, value: bytes | None = None) -> None:
        producer.produce(
            f"{name}-out", value or record.value(), record.key(), record.partition(), timestamp=record.timestamp()[1]
        )

    producer.begin_transaction()
    for at in order:
        if at in {lost[0], aborted[0]}:
            continue
        send(right[at], b'{"amount":50,"id":-1}' if at == altered[0] else None)
        if at == doubled[0]:
            send(right[at])
    producer.commit_transaction(60)
    producer.begin_transaction()
    send(right[aborted[0]])
    producer.flush(30)
    producer.abort_transaction(60)


def main() -> None:
    """Load, write, reconcile, print."""
    bootstrap, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with local_session(kafka=True) as spark:
        manifest = load(spec(name, count), bootstrap, spark=spark)
        records = read(bootstrap, f"{name}-in")
        write_outputs(bootstrap, name, records)
        audit = reconcile(spark, topology(name), bootstrap)
        found = json.loads(audit.to_json())
        partition = TopicPartition(f"{name}-in", 0, 5)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_records([partition])[partition].result(30)
        try:
            reconcile(spark, topology(name), bootstrap)
            removed = ""
        except TopicError as error:
            removed = str(error)
        headers = [[key, value.decode()] for key, value in records[-1].headers()]
        made = manifest.topics[f"{name}-in"]
        output = {
            "loaded": made.records,
            "kinds": made.kinds,
            "bytes": made.bytes,
            "headers": headers,
            "removed": removed,
        }
        sizes = sum(len(r.key()) + len(r.value()) for r in records)
        print(json.dumps(found | output | {"sizes": sizes, "read": len(records)}))  # noqa: T201


if __name__ == "__main__":
    main()
