"""What the application must have written, computed by PySpark from its input topics alone.

Takes a broker and the application's name; returns `Findings`. Reads outputs and changelogs `read_committed`,
completely. Knows neither the generator nor the engine: keys of windows are decoded here, joins and windows are
Spark's own. Covers only results that don't depend on the order between partitions; for the others it checks
invariants.

`python tests/integration/chaos/recompute.py --bootstrap HOST:PORT --name chaos-7`; exit code 0: right, 1: wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in {None, ""}:  # run as a script: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from transactions import Transaction, committed_on

from chaos import application as app
from chaos.comparing import counting, last_values, multisets, tables
from chaos.findings import Findings, Part
from chaos.inputs import END
from stoatflow.spark import wordcount
from stoatflow.spark.kafka import KafkaTopics
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TICK = "id long, v long, side string"


class Recompute:
    """One application's topics, as Spark sees them."""

    def __init__(self, spark: SparkSession, bootstrap: str, name: str) -> None:
        self._topics, self._name = KafkaTopics(spark, bootstrap), name
        self._spark, self._bootstrap = spark, bootstrap
        self.rows = cache(self._rows)

    def all(self) -> Findings:
        """Every part."""
        began = time.monotonic()
        parts = [*self.words(), *self.windows(), *self.processor(), *self.readings(), *self.joins(), *self.tables(),
                 *self.bank(), *self.alarms()]  # fmt: skip
        inputs = sum(self.rows(topic).count() for topic in app.INPUTS)
        return Findings(inputs, parts, time.monotonic() - began)

    # -- reading

    def _rows(self, topic: str) -> DataFrame:
        return self._topics.read_committed(f"{self._name}-{topic}", 30.0).cache()

    def transactions(self, topic: str) -> list[Transaction]:
        """The committed transactions of a topic with one partition."""
        return committed_on(self._bootstrap, f"{self._name}-{topic}")

    def read(self, topic: str, key: str = "text", value: str = "long") -> DataFrame:
        """Partition, offset, key columns and value, decoded."""
        from pyspark.sql import functions as f

        rows = self.rows(topic)
        body = f.col("value")
        decoded = {"long": _long(body), "text": body.cast("string"), "json": body.cast("string")}[value]
        keys = {
            "text": [f.col("key").cast("string").alias("key")],
            "window": _window_key(f.col("key"), 8),
            "stored": _window_key(f.col("key"), 12),
            "session": [
                *_window_key(f.col("key"), 16),
                _long(f.substring("key", f.length("key") - 7, f.lit(8))).alias("from"),
            ],
        }[key]
        return rows.select("partition", "offset", "timestamp", *keys, decoded.alias("value"))

    @property
    def ticks(self) -> DataFrame:
        """Key, at, id, v, side."""
        from pyspark.sql import functions as f

        tick = f.from_json("value", TICK)
        rows = self.read("ticks", value="json").withColumnRenamed("timestamp", "at")
        return rows.select("key", "offset", "at", tick.alias("t")).select("key", "offset", "at", "t.*")

    @property
    def end(self) -> int:
        """The time of the closing records."""
        from pyspark.sql import functions as f

        return int(self.ticks.where(f.col("key") == END).agg(f.max("at")).collect()[0][0])

    # -- parts

    def words(self) -> list[Part]:
        """Every word counts from one; the store has the same counts."""
        lines = self.read("lines", value="text").select("value")
        updates = self.read("words")
        result = wordcount.reconcile(lines, updates, every_update=True)
        counts = wordcount.expected_counts(lines).withColumnsRenamed({"word": "key", "count": "value"})
        part = Part("words, every update", result.input_words, result.output_records, result.missing, result.duplicated,
                    result.wrong, examples=tuple(str(example) for example in result.examples))  # fmt: skip
        return [
            part, counting("words, order of updates", updates, counts, ["key"]), self._log("words", counts),
            self._letters(lines),
        ]  # fmt: skip

    def _letters(self, lines: DataFrame) -> Part:
        """Each failed line, with its number of occurrences."""
        from pyspark.sql import functions as f

        words = f.split(f.trim("value"), r"\s+")
        times = (words[0] == app.BAD_LINE).cast("int") + f.size(f.filter(words, lambda word: word == app.BAD_WORD))
        refused = lines.withColumn("times", times).where(f.col("times") > 0)
        wanted = refused.select(f.explode(f.array_repeat("value", f.col("times"))).alias("value"))
        return multisets("dead letters", self.read("letters", value="text"), wanted, ["value"])

    def windows(self) -> list[Part]:
        """Sums with suppress, counts on close, sessions."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        window, ticks, end = ["key", "start"], self.ticks, self.end
        start = (f.col("at") - f.col("at") % app.WINDOW_MS).alias("start")
        sums = ticks.groupBy("key", start).agg(f.sum("v").alias("value"))
        newest = f.col("at") - f.col("at") % app.ADVANCE_MS
        starts = f.explode(f.sequence(newest - app.CLOSED_MS + app.ADVANCE_MS, newest, f.lit(app.ADVANCE_MS)))
        closed = ticks.select("key", starts.alias("start")).groupBy(*window).agg(f.count("*").alias("value"))
        order = Window.partitionBy("key").orderBy("at", "offset")
        new = f.coalesce((f.col("at") - f.lag("at").over(order) > app.GAP_MS).cast("int"), f.lit(1))
        numbered = ticks.withColumn("new", new).withColumn("session", f.sum("new").over(order))
        sessions = numbered.groupBy("key", "session").agg(
            f.max("at").alias("start"), f.min("at").alias("from"), f.count("*").alias("value")
        )
        last = ["key", "start", "from"]
        return [
            multisets(
                "windowed sums, suppressed", self.read("sums", "window"),
                sums.where(f.col("start") + app.WINDOW_MS + app.GRACE_MS <= end), [*window, "value"],
            ),
            self._log("sums", sums, "stored", window),
            multisets(
                "window counts, on close", self.read("closed", "window"),
                closed.where(f.col("start") + app.CLOSED_MS <= end), [*window, "value"],
            ),
            self._log("closed", closed, "stored", window),
            tables("sessions", last_values(self.read("sessions", "session"), last), sessions, last),
            self._log("sessions", sessions, "session", last),
        ]  # fmt: skip

    def processor(self) -> list[Part]:
        """Counts of a processor; reported sums and unreported ones together are complete."""
        from pyspark.sql import functions as f

        seen = self.ticks.groupBy("key").agg(f.count("*").alias("value"))
        total = self.ticks.groupBy("key").agg(f.sum("v").alias("value"))
        left = last_values(self.read("since-changelog"), ["key"]).select("key", "value")
        reported = self.read("reports").select("key", "value").unionByName(left)
        reported = reported.groupBy("key").agg(f.sum("value").alias("value"))
        return [
            counting("processor, every total", self.read("totals"), seen, ["key"]),
            self._log("totals", seen),
            tables("processor, reports by schedule", reported, total, ["key"]),
        ]

    def alarms(self) -> list[Part]:
        """Timers fire once per requested time; the scheduled source skips nothing."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        at = (f.floor(f.col("at") / app.ALARM_MS) + 1) * app.ALARM_MS
        full = self.ticks.select("key", at.alias("value")).distinct().where(f.col("value") <= self.end)
        alarm = ["key", "value"]
        changes = self.rows("snooze-changelog")
        newest = Window.partitionBy("key").orderBy(f.col("offset").desc())
        kept = changes.withColumn("nth", f.row_number().over(newest)).where("nth = 1 and value is not null")
        # A domain, a time with inverted sign, the key.
        time_of = _long(f.substring("key", 2, 8)).bitwiseXOR(f.lit(-(2**63)))
        word = f.expr("substring(key, 10)").cast("string")
        pending = kept.select(word.alias("key"), time_of.alias("value"))
        asked = self.read("asked").select(*alarm).distinct().join(pending, alarm, "left_anti")
        beats = self.read("beats").select("value")
        first, last = beats.agg(f.min("value"), f.max("value")).collect()[0]
        grid = beats.sparkSession.range(first, last + 1, app.BEAT_MS).withColumnRenamed("id", "value")
        return [
            multisets("timers by event time", self.read("alarms").select(*alarm), full, alarm),
            multisets("timers by the clock", self.read("rung").select(*alarm), asked, alarm),
            multisets("ticks of a scheduled source", beats, grid, ["value"]),
        ]

    def readings(self) -> list[Part]:
        """Late records depend on the order of partitions: updates count from one, each result is the last, once."""
        from pyspark.sql import functions as f

        window = ["key", "start"]
        updates = self.read("updates", "window")
        counts = updates.groupBy(*window).agg(f.count("*").alias("value"))
        return [
            counting("windows with late records, every update", updates, counts, window),
            multisets(
                "windows with late records, results", self.read("finals", "window"),
                counts.where(f.col("key") != END), [*window, "value"],
            ),
            self._log("readings", counts, "stored", window),
        ]  # fmt: skip

    def joins(self) -> list[Part]:
        """Stream-stream, both outer; stream-table; topics chosen by a function."""
        from pyspark.sql import functions as f

        pair = ["key", "value"]
        ticks, end = self.ticks.withColumn("text", f.col("id").cast("string")), self.end
        left, right = (ticks.where(f.col("side") == side).select("key", "at", "text") for side in ("l", "r"))
        clicks, views = (
            self.read(t, value="text").select("key", f.col("timestamp").alias("at"), f.col("value").alias("text"))
            for t in ("clicks", "views")
        )
        both, alone = _outer(clicks, views, app.MEET_MS, end - app.MEET_MS - app.MEET_GRACE_MS)
        met = self.read("meetings", value="text").select(*pair)
        lonely = f.col("value").startswith("None|") | f.col("value").endswith("|None")
        # A record that arrives after its window is emitted without a partner immediately, though one may
        # still arrive: allowed, once each.
        extra = met.where(lonely).distinct().join(alone, pair, "left_anti")
        visits = self.read("visits", value="text").select("key", f.split("value", r"\|").getItem(0).alias("value"))
        wanted = clicks.select("key", f.col("text").alias("value"))
        even = f.col("value").cast("long") % 2 == 0
        found, lost = _outer(left, right, app.PAIR_MS, end - app.PAIR_MS - app.PAIR_GRACE_MS)
        return [
            multisets("outer join of ticks", self.read("pairs", value="text"), found.unionByName(lost), pair),
            multisets("outer join of clicks and views, pairs", met.where(~lonely), both, pair),
            multisets("outer join of clicks and views, alone", met.where(lonely), alone.unionByName(extra), pair),
            multisets("stream with table, each click once", visits, wanted, pair),
            multisets("topic by function, even", self.read("even", value="text"), wanted.where(even), pair),
            multisets("topic by function, odd", self.read("odd", value="text"), wanted.where(~even), pair),
        ]

    def tables(self) -> list[Part]:
        """Tables, grouped tables, the foreign-key join."""
        from pyspark.sql import functions as f

        key = ["key"]
        raw = last_values(self.read("users", value="json"), key)
        user = f.from_json("value", "city string, amount long, version long").alias("u")
        users = raw.select("key", user).select("key", "u.*")
        ever = (
            self.read("users", value="json").select(user).select(f.col("u.city").alias("key")).where("key is not null")
        )
        cities = ever.distinct().join(users.withColumnRenamed("key", "who"), f.col("key") == f.col("city"), "left")
        people = cities.groupBy("key").agg(f.count("who").alias("value"))
        sums = cities.groupBy("key").agg(f.coalesce(f.sum("amount"), f.lit(0)).alias("value"))
        order = f.from_json("value", "product string, amount long").alias("o")
        orders = last_values(self.read("orders", value="json"), key).select("key", order).select("key", "o.*")
        products = last_values(self.read("products", value="text"), key)
        products = products.select(f.col("key").alias("product"), f.col("value").alias("label"))
        label = f.concat_ws("|", f.col("amount").cast("string"), f.coalesce("label", f.lit("None")))
        named = orders.join(products, "product", "left").select("key", label.alias("value"))
        found = last_values(self.read("named", value="text"), key)
        return [
            self._log("users", raw, kind="json"),
            tables("join by foreign key", found, named, key),
            self._log("named", named, kind="text"),
            tables("people of cities", last_values(self.read("people"), key), people, key),
            self._log("people", people),
            tables("sums of cities", last_values(self.read("cities"), key), sums, key),
            self._log("cities", sums),
        ]

    def bank(self) -> list[Part]:
        """Each transfer moves two balances once, and every committed cut adds up to nothing."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        transfer = f.from_json("value", "`from` string, `to` string, amount long").alias("t")
        moves = self.read("transfers", value="json").select(transfer).select("t.*")
        moved = moves.select(f.col("from").alias("key"), (-f.col("amount")).alias("value")).unionAll(
            moves.select(f.col("to"), f.col("amount"))
        )
        balances = self.read("balances")
        before = f.coalesce(f.lag("value").over(Window.partitionBy("key").orderBy("offset")), f.lit(0))
        steps = balances.select("key", "offset", (f.col("value") - before).alias("value"))
        in_order = Window.partitionBy(f.lit(0)).orderBy("offset")
        total = f.sum("value").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        ends = [(each.last,) for each in self.transactions("balances")]
        cuts = steps.select(f.col("offset").alias("key"), total.alias("value")).join(
            self._spark.createDataFrame(ends, "key long"), "key", "right"
        )
        last = last_values(balances, ["key"])
        return [
            multisets("bank, each transfer once", steps, moved, ["key", "value"]),
            tables("bank, every committed cut is zero", cuts, cuts.select("key", f.lit(0).alias("value")), ["key"]),
            self._log("accounts", last),
        ]

    def _log(
        self, store: str, wanted: DataFrame, key: str = "text", keys: list[str] | None = None, kind: str = "long"
    ) -> Part:
        """The last values in the changelog of a store are this table."""
        keys = keys or ["key"]
        found = last_values(self.read(f"{store}-changelog", key, kind), keys)
        return tables(f"store of {store}, from its changelog", found, wanted, keys)


def _outer(left: DataFrame, right: DataFrame, reach: int, before: int) -> tuple[DataFrame, DataFrame]:
    """Pairs, and records before this time without a partner, which can't get one any more."""
    from pyspark.sql import functions as f

    one, two = left.alias("one"), right.alias("two")
    near = (f.col("one.key") == f.col("two.key")) & (f.abs(f.col("one.at") - f.col("two.at")) <= reach)

    def row(key: str, first: Column, second: Column) -> list[Column]:
        return [f.col(key).alias("key"), f.concat_ws("|", first, second).alias("value")]

    none = f.lit("None")
    both = one.join(two, near).select(*row("one.key", f.col("one.text"), f.col("two.text")))
    no_right = one.join(two, near, "left_anti").where(f.col("one.at") < before)
    no_left = two.join(one, near, "left_anti").where(f.col("two.at") < before)
    alone = no_right.select(*row("one.key", f.col("one.text"), none)).unionAll(
        no_left.select(*row("two.key", none, f.col("two.text")))
    )
    return both, alone


def _long(data: Column) -> Column:
    from pyspark.sql import functions as f

    # The negative base makes `conv` read two's complement.
    return f.conv(f.hex(data), 16, -10).cast("long")


def _window_key(data: Column, behind: int) -> list[Column]:
    """Key and start, which is this many bytes before the end."""
    from pyspark.sql import functions as f

    length = f.length(data)
    return [
        f.substring(data, f.lit(1), length - behind).cast("string").alias("key"),
        _long(f.substring(data, length - (behind - 1), f.lit(8))).alias("start"),
    ]


def reconcile(bootstrap: str, name: str) -> Findings:
    """Runs all checks in its own Spark session."""
    conf = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "false"}
    with local_session(kafka=True, cores=2, memory="6g", conf=conf) as spark:
        return Recompute(spark, bootstrap, name).all()


def main() -> int:
    """Check topics that still exist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--name", required=True)
    given = parser.parse_args()
    found = reconcile(given.bootstrap, given.name)
    sys.stdout.write(found.render() + "\n")
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
