"""Only large orders, then by account."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=sf.Serdes.json()).filter(sf.value["amount"] > 1000)
    by_account = orders.select_key(sf.value["account"]).repartition(key=str, name="by-account")
    by_account.map_values(sf.value["amount"]).to("large", key=str, value=sf.Serdes.json())
    return builder.build()
