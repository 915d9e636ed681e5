"""Topics of a real Kafka broker, through Spark's connector and the client that comes with it.

Takes a SparkSession that has the connector, a bootstrap address, further client properties. Creates topics, returns
offsets and a DataFrame of all committed records of a topic, and writes rows to a topic. Avoids the pitfalls of the
connector:

* Only ``kafka.isolation.level`` hides aborted records; without the prefix it is silently ignored.
* To a committed reader "latest" is the last stable offset: an open transaction hides the tail of the topic. So
  `stable_ends` requires that it equals the high watermark, and reads end exactly there.
* An end offset that cannot be reached hangs for two minutes, and ``failOnDataLoss=false`` shortens ranges silently: so
  begin and end are passed as numbers, and lost data stays an error.
* The sink ignores a ``timestamp`` column: Kafka stamps records when they arrive.
* Writing to a partition that does not exist waits a minute and fails: `create` compares the counts first.

Needs no Kafka client in Python: Spark's JVM has one.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stoatflow.spark import connected
from stoatflow.spark.client_properties import java_client
from stoatflow.spark.errors import OpenTransactionError, TopicError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

_ANSWER_MS = 20_000


class KafkaTopics:
    """The topics of one broker, seen from one SparkSession."""

    def __init__(self, spark: SparkSession, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        """Remember the address of the broker; connections are opened by the first call.

        ``client`` holds Kafka client properties, such as ``security.protocol``, with the names of Java's clients or of
        librdkafka.
        """
        connected.need_classic(spark, "a topic of a broker", connected.FRAMES)
        self._spark = spark
        self._bootstrap = bootstrap
        self._client = java_client(client or {})

    def create(self, topic: str, partitions: int) -> int:
        """Create a topic unless it exists; return its number of partitions, at least ``partitions``."""
        with self._admin() as admin:
            count = self._partitions(admin, topic)
            if count is None:
                util = self._jvm.java.util
                # The broker's default replication.
                new = self._jvm.org.apache.kafka.clients.admin.NewTopic(
                    topic, util.Optional.of(partitions), util.Optional.empty()
                )
                admin.createTopics(util.Collections.singletonList(new)).all().get()
                count = self._wait_until_known(admin, topic)
        if count < partitions:
            message = (
                f"topic {topic} at {self._bootstrap} has {count} partition(s), {partitions} are needed: "
                f"ask for {count}, delete the topic, or add partitions with kafka-topics.sh --alter"
            )
            raise TopicError(message)
        return count

    def begins(self, topic: str) -> dict[int, int]:
        """Return the first offset of every partition."""
        with self._admin() as admin:
            return self._offsets(admin, topic, "earliest", "READ_UNCOMMITTED")

    def high_watermarks(self, topic: str) -> dict[int, int]:
        """Return one past the last offset of every partition, open transactions included."""
        with self._admin() as admin:
            return self._offsets(admin, topic, "latest", "READ_UNCOMMITTED")

    def stable_ends(self, topic: str, wait: float = 0.0) -> dict[int, int]:
        """Return the high watermarks, once everything below them is committed or aborted.

        Raises:
            OpenTransactionError: after ``wait`` seconds a transaction is still open.

        """
        until = time.monotonic() + wait
        with self._admin() as admin:
            while True:
                # The high watermark first: records written in between then cannot look like an open
                # transaction.
                high = self._offsets(admin, topic, "latest", "READ_UNCOMMITTED")
                stable = self._offsets(admin, topic, "latest", "READ_COMMITTED")
                hidden = {p: end for p, end in high.items() if stable[p] < end}
                if not hidden:
                    return high
                if time.monotonic() >= until:
                    break
                time.sleep(0.25)
        partition, end = next(iter(hidden.items()))
        message = (
            f"topic {topic}, partition {partition}: a transaction is open (last stable offset {stable[partition]}, "
            f"high watermark {end}), its records are not to be seen yet. Stop the application with a clean close and "
            "run this again; after a crash start the application once more (it aborts what it left), or wait for "
            "transaction.timeout.ms."
        )
        raise OpenTransactionError(message)

    def commit(
        self, group: str, positions: Mapping[tuple[str, int], int], metadata: Mapping[tuple[str, int], str]
    ) -> None:
        """Set the offsets of a group without members, for tools that show its lag."""
        kafka = self._jvm.org.apache.kafka
        wanted = self._jvm.java.util.HashMap()
        for (topic, partition), offset in positions.items():
            text = metadata.get((topic, partition), "")
            place = kafka.common.TopicPartition(topic, partition)
            wanted.put(place, kafka.clients.consumer.OffsetAndMetadata(offset, text))
        with self._admin() as admin:
            admin.alterConsumerGroupOffsets(group, wanted).all().get()

    def read_committed(self, topic: str, wait: float = 0.0, *, headers: bool = False) -> DataFrame:
        """Return all committed records: partition, offset, key and value (binary), timestamp (milliseconds)."""
        return self._read(topic, "read_committed", self.stable_ends(topic, wait), headers)

    def read_aborted(self, topic: str) -> DataFrame:
        """Return the records of aborted (and open) transactions, with the columns of `read_committed`."""
        ends = self.high_watermarks(topic)
        everything = self._read(topic, "read_uncommitted", ends, False)
        committed = self._read(topic, "read_committed", self.stable_ends(topic), False)
        return everything.join(committed.select("partition", "offset"), ["partition", "offset"], "left_anti")

    def _read(self, topic: str, isolation: str, ends: Mapping[int, int], headers: bool) -> DataFrame:
        from pyspark.sql import functions as f

        begins = self.begins(topic)
        frame = (
            self._spark.read.format("kafka")
            .options(**{f"kafka.{name}": value for name, value in self._client.items()})
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("kafka.isolation.level", isolation)
            .option("subscribe", topic)
            .option("startingOffsets", json.dumps({topic: {str(p): at for p, at in begins.items()}}))
            .option("endingOffsets", json.dumps({topic: {str(p): at for p, at in ends.items()}}))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true" if headers else "false")
            .load()
        )
        millis = f.unix_millis("timestamp").alias("timestamp")
        return frame.select("partition", "offset", "key", "value", millis, *(["headers"] if headers else []))

    def write(self, rows: DataFrame, topic: str, progress: Callable[[int], None] | None = None) -> int:
        """Append the columns partition, key, value (and headers); return by how many offsets the topic has grown.

        The connector writes at least once. In a local session failed tasks are not retried, so a write either succeeds
        exactly once or raises.
        """
        from py4j.protocol import Py4JJavaError

        before = sum(self.high_watermarks(topic).values())
        columns = ["partition", "key", "value", *(["headers"] if "headers" in rows.columns else [])]
        writer = (
            rows.select(*columns)
            .write.format("kafka")
            .options(**{f"kafka.{name}": value for name, value in self._client.items()})
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("topic", topic)
        )
        try:
            with self._watched(topic, before, progress):
                writer.save()
        except Py4JJavaError as error:
            message = (
                f"writing to topic {topic} at {self._bootstrap} failed part of the way: {_reason(error)}. Delete the "
                "topic before loading it again, or load into another one."
            )
            raise TopicError(message) from error
        grown = sum(self.high_watermarks(topic).values()) - before
        if progress is not None:
            progress(grown)
        return grown

    @contextmanager
    def _watched(self, topic: str, before: int, progress: Callable[[int], None] | None) -> Iterator[None]:
        """Report the growth of a topic once a second: only records in the broker count as progress."""
        if progress is None:
            yield
            return
        done = threading.Event()

        def watch(report: Callable[[int], None]) -> None:
            while not done.wait(1.0):
                report(sum(self.high_watermarks(topic).values()) - before)

        watcher = threading.Thread(target=watch, args=(progress,), name="load-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    @property
    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        """Open Kafka's admin client for a few calls; Java's exceptions are raised as `TopicError`."""
        from py4j.protocol import Py4JJavaError

        properties = self._jvm.java.util.Properties()
        limits = {"request.timeout.ms": str(_ANSWER_MS // 2), "default.api.timeout.ms": str(_ANSWER_MS)}
        for name, value in {**limits, **self._client, "bootstrap.servers": self._bootstrap}.items():
            properties.setProperty(name, value)
        try:
            admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
            try:
                yield admin
            finally:
                admin.close(self._jvm.java.time.Duration.ofSeconds(5))
        except Py4JJavaError as error:
            message = (
                f"the broker at {self._bootstrap} did not answer as hoped: {_reason(error)}. Check that it runs, that "
                "the address is right, and that this user may read, write and describe the topic."
            )
            raise TopicError(message) from error

    def _partitions(self, admin: Any, topic: str) -> int | None:
        from py4j.protocol import Py4JJavaError

        names = self._jvm.java.util.Collections.singletonList(topic)
        try:
            described = admin.describeTopics(names).allTopicNames().get()
        except Py4JJavaError as error:
            if "UnknownTopicOrPartition" in _reason(error):
                return None
            raise
        return int(described.get(topic).partitions().size())

    def _wait_until_known(self, admin: Any, topic: str) -> int:
        until = time.monotonic() + _ANSWER_MS / 1000
        while (count := self._partitions(admin, topic)) is None:
            if time.monotonic() > until:
                raise TopicError(f"topic {topic} was made, but {self._bootstrap} does not know it yet: run this again")
            time.sleep(0.1)
        return count

    def _offsets(self, admin: Any, topic: str, which: str, isolation: str) -> dict[int, int]:
        count = self._partitions(admin, topic)
        if count is None:
            raise TopicError(f"topic {topic} does not exist at {self._bootstrap}: check its name, or make it first")
        kafka = self._jvm.org.apache.kafka
        spec = getattr(kafka.clients.admin.OffsetSpec, which)
        wanted = self._jvm.java.util.HashMap()
        keys = [kafka.common.TopicPartition(topic, partition) for partition in range(count)]
        for key in keys:
            wanted.put(key, spec())
        level = getattr(kafka.common.IsolationLevel, isolation)
        answer = admin.listOffsets(wanted, kafka.clients.admin.ListOffsetsOptions(level))
        return {p: int(answer.partitionResult(key).get().offset()) for p, key in enumerate(keys)}


def _reason(error: Any) -> str:
    """Return the innermost cause of a Java exception, in one line."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())
