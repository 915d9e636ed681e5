"""Each user's withdrawals in an hour."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    withdrawals = builder.stream("withdrawals", key=str, value=sf.Serdes.json())
    user_to_total = (
        withdrawals.group_by_key()
        # A table without expires= accepts any late event: hence the long grace period.
        .windowed_by(sf.TimeWindows("1h", grace="1d"))
        .aggregate(sf.sum(sf.value["amount"]), store=sf.Materialized("user_to_total", caching=False))
    )
    user_to_total.to_stream(lambda user, total: user.key).to("totals", key=str)
    return builder.build()
