"""Quix Streams' guide, "Branching": prizes by a member's spending, each kind in its own topic."""


def words(prize):
    return lambda purchase: f"{purchase['name']} gets {prize}"


def define(app):
    purchases = app.dataframe(app.topic("purchases"))
    rich = purchases[purchases["total"] >= 200]
    rich[rich["total"] < 1000].apply(words("a car")).to_topic(app.topic("cars", value_serializer="str"))
    rich[rich["total"] >= 1000].apply(words("cash")).to_topic(app.topic("cash", value_serializer="str"))
    gold = purchases[(purchases["member"] == "gold") & (purchases["total"] >= 50)]
    gold.apply(words("a coupon")).to_topic(app.topic("coupons", value_serializer="str"))
