"""The last values of both sides in each hour: a cogroup in windows."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    names, emails = (
        builder.stream(topic, value=sf.Serdes.json(), timestamp=sf.value["at"]).group_by(
            sf.value["user"], key=str, name=topic
        )
        for topic in ("names", "emails")
    )
    hours = (
        names.cogroup(sf.agg(name=sf.last(sf.value["name"])))
        .cogroup(emails, sf.agg(email=sf.last(sf.value["email"])))
        .windowed_by(sf.TimeWindows("1h", grace="0s", close_when_idle="1h"))
        .aggregate(store=sf.Materialized("users", retention="1d"))
        .suppress(sf.Suppressed.until_window_closes(), name="final")
    )
    users = hours.to_stream().map(lambda user, both: (user.key, [both["name"], both["email"]]))
    users.to("users", key=str, value=sf.Serdes.json())
    return builder.build()
