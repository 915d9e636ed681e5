"""The same windows, which in StoatFlow are closed by the time of the partition."""

import stoatflow as sf

DIFFERENCE = """
By default Quix closes a window when a later record of its own key comes: cyd's window and ann's last one stay open, and
ann's 32 is in time although the partition is at second 12. closing_strategy="partition" is what windows do here.
"""
START = 1704067200000


def row(user, start, total):
    return [user, {"start": START + start, "end": START + start + 10_000, "total": total}]


HERE = {
    "totals": [
        row("ann", 0, 5), row("bob", 0, 2), row("cyd", 0, 8), row("ann", 10_000, 64), row("bob", 10_000, 16),
    ]
}  # fmt: skip


def result(user, total):
    return user.key, {"start": user.window.start, "end": user.window.end, "total": total}


def topology():
    builder = sf.StreamsBuilder()
    totals = (
        builder.stream("payments", key=str, value=sf.Serdes.json())
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", grace="0s"))
        .emit_strategy(sf.EmitStrategy.on_window_close())
        .aggregate(sf.sum(sf.value["amount"]), store=sf.Materialized("totals", retention="1d"))
    )
    totals.to_stream().map(result).to("totals", key=str, value=dict)
    return builder.build()
