"""Prizes by a member's spending, each kind in its own topic."""

import stoatflow as sf


def words(prize):
    return sf.value["name"] + f" gets {prize}"


def topology():
    builder = sf.StreamsBuilder()
    total = sf.value["total"]
    purchases = builder.stream("purchases", key=str, value=sf.Serdes.json())
    rich = purchases.filter(total >= 200)
    rich.filter(total < 1000).map_values(words("a car")).to("cars", value=str)
    rich.filter(total >= 1000).map_values(words("cash")).to("cash", value=str)
    gold = purchases.filter((sf.value["member"] == "gold") & (total >= 50))
    gold.map_values(words("a coupon")).to("coupons", value=str)
    return builder.build()
