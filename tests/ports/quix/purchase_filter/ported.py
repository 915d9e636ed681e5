"""Names and emails of members who spent enough."""

import stoatflow as sf

TAX = 1.1


def spent(items):
    return sum(item["price"] * item["quantity"] for item in items)


def topology():
    builder = sf.StreamsBuilder()
    purchases = builder.stream("purchases", key=str, value=sf.Serdes.json())
    members = purchases.filter(sf.value["member"].is_in(["silver", "gold"]))
    qualified = members.filter(lambda key, purchase: spent(purchase["items"]) * TAX >= 100.0)
    name = sf.value["first"] + " " + sf.value["last"]
    qualified.map_values(sf.obj(name=name, email=sf.value["email"])).to("coupons")
    return builder.build()
