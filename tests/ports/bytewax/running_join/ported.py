"""The values of both sides whenever one of them changes: an outer join of two tables."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    one, two = (
        builder.stream(topic, value=dict)
        .map(lambda key, each, field=topic[:-1]: (each["user"], each[field]))
        .to_table(store=sf.Materialized(topic, key=str, value=str))
        for topic in ("names", "emails")
    )
    users = one.outer_join(two, lambda name, email: [name, email])
    users.to_stream().to("users", key=str, value=sf.Serdes.json())
    return builder.build()
