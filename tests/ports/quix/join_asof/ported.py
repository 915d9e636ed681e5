"""A measurement with the sensor's data as of its time: a join with a versioned table."""

import stoatflow as sf


def topology():
    json = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    metadata = builder.table("metadata", key=str, value=json, store=sf.Materialized("metadata", history="14d"))
    measurements = builder.stream("measurements", key=str, value=json)
    joined = measurements.join(metadata, lambda measurement, known: known | measurement)
    joined.to("joined", value=json)
    return builder.build()
