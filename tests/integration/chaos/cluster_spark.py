"""PySpark's verdict on the word counts of three brokers: nothing missing, duplicated or wrong.

Takes the applications and how each connects; returns what is wrong, and figures. Spark reads each application's topics
through the listener of that application. At-least-once results may be repeated: for those only missing words count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chaos.cluster_checks import EXACTLY
from stoatflow.spark import wordcount
from stoatflow.spark.kafka import KafkaTopics
from stoatflow.spark.report import Fault
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from chaos.supervised import Counted

CONF = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "false"}
WAIT_S = 90.0
"""How long the markers of a transaction may take after its application was stopped cleanly."""


def reconcile(applications: Sequence[Counted], clients: Mapping[str, Mapping[str, str]]) -> tuple[list[str], str]:
    """What is wrong, and a line for each application. `clients` has the properties of a reader, by application."""
    from pyspark.sql import functions as f

    wrong: list[str] = []
    lines: list[str] = []
    with local_session(kafka=True, conf=CONF) as spark:
        for of in applications:
            client = dict(clients[of.name])
            topics = KafkaTopics(spark, client.pop("bootstrap.servers"), client)
            given = topics.read_committed(of.source, WAIT_S).select(f.col("value").cast("string"))
            # The negative base makes `conv` read two's complement.
            count = f.conv(f.hex("value"), 16, -10).cast("long").alias("value")
            updates = topics.read_committed(of.sink, WAIT_S)
            updates = updates.select("partition", "offset", f.col("key").cast("string"), count)
            found = wordcount.reconcile(given, updates, every_update=of.guarantee == EXACTLY)
            counted = Fault if of.guarantee == EXACTLY else (Fault.MISSING_WORD, Fault.EXTRA_WORD, Fault.BAD_VALUE)
            faults = {fault.name: found.faults[fault] for fault in counted if found.faults[fault]}
            if faults or not found.input_words:
                wrong.append(f"{of.name}, PySpark: {faults or 'no input'}, {[str(one) for one in found.examples]}")
            how = client.get("security.protocol", "PLAINTEXT")
            lines.append(
                f"PySpark through {how}, {of.name}: {found.input_words:,} words in {found.input_records:,} lines, "
                f"{found.output_records:,} updates, {sum(faults.values())} missing, duplicated or wrong\n"
            )
    return wrong, "".join(lines)
