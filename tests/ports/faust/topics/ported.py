"""Two topics, read as one stream."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    both = builder.stream(["orders-uk", "orders-de"], key=str, value=sf.Serdes.json())
    both.select_key(sf.value["id"]).to("orders", key=str)
    return builder.build()
