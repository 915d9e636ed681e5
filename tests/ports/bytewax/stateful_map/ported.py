"""A user's paid and unpaid orders, after each event."""

import stoatflow as sf


def change(user, event, cart):
    order = event["order"]
    if event["type"] == "order":
        return cart | {"unpaid": [*cart["unpaid"], order]}
    if order in cart["unpaid"]:
        return {"paid": [*cart["paid"], order], "unpaid": [one for one in cart["unpaid"] if one != order]}
    return cart


def topology():
    json = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    events = builder.stream("events", value=json).group_by(sf.value["user"], key=str)
    carts = events.aggregate(lambda: {"paid": [], "unpaid": []}, change, store="carts", value=json)
    carts.to_stream().to("carts")
    return builder.build()
