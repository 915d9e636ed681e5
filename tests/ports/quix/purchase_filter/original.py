"""Quix Streams' tutorial "Purchase filtering": names and emails of members who spent enough."""

TAX = 1.1


def spent(items):
    return sum(item["price"] * item["quantity"] for item in items)


def full_name(customer):
    return f"{customer['first']} {customer['last']}"


def define(app):
    sdf = app.dataframe(app.topic("purchases"))
    sdf = sdf[(sdf["items"].apply(spent) * TAX >= 100.0) & (sdf["member"].isin(["silver", "gold"]))]
    sdf["name"] = sdf.apply(full_name)
    sdf = sdf[["name", "email"]]
    sdf.to_topic(app.topic("coupons"))
