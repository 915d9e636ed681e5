"""W7 as a StoatFlow topology, with expressions, functions and batches: see `workloads/shop.py` for the job.

Takes four inputs, five outputs. Builds a topology of 10 stores (two tables, six aggregations, two sides of a join) and
3 re-keyings (by region, by product, by tier), equivalent in all flavours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import stoatflow as sf

SILVER, GOLD = 1000, 12_500
MINUTES = sf.TimeWindows("1m", grace="1h")
VISITS = sf.SessionWindows("30s", grace="1m")
SOON_AFTER = sf.JoinWindows(before="0s", after="10s", grace="1m")
CLICK_AND_ORDER: sf.StreamJoined[str, Any, Any] = sf.StreamJoined(str, dict, dict, name="clicked")
BY_PRODUCT: sf.Joined[str, Any, Any] = sf.Joined(str, dict, dict, name="by-product")


class Topics(NamedTuple):
    """Input and output topics."""

    clicks: str
    orders: str
    users: str
    products: str
    sales: str
    revenue: str
    tiers: str
    visits: str
    conversions: str


Stream = sf.KStream[str, Any]
# Selects members of a stream of JSON.
Pick = Callable[..., Stream]


def shop_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """With expressions."""
    _shop(builder, at, lambda stream, *_: stream)


def shop_arrow(builder: sf.StreamsBuilder, at: Topics, pa: Any) -> None:
    """With functions of batches that select the input of each aggregation; aggregations have no batches themselves.

    There is none before the join of clicks and orders: a side that waits for its batch lags behind the other, in a lane
    with a large backlog by more event time than the window stays open.
    """
    types = {"amount": pa.int64()}

    def pick(stream: Stream, *members: str) -> Stream:
        schema = pa.schema([(member, types.get(member, pa.string())) for member in members])
        picked: Stream = stream.map_batches(lambda batch: batch.select(members), schema=schema)
        return picked

    _shop(builder, at, pick)


def _shop(builder: sf.StreamsBuilder, at: Topics, pick: Pick) -> None:
    users = builder.table(at.users, key=str, value=dict, store="users")
    products = builder.table(at.products, key=str, value=dict, store="products")
    clicks = builder.stream(at.clicks, key=str, value=dict)
    ordered = builder.stream(at.orders, key=str, value=dict)
    orders = ordered.join(users, sf.left | {"region": sf.right["region"]})
    order, amount = sf.value, sf.sum(sf.value["amount"])

    sold = pick(orders, "region", "amount")
    regions = sold.group_by(order["region"], key=str, value=dict, name="by-region").windowed_by(MINUTES)
    sales = regions.aggregate(sf.agg(orders=sf.count(), amount=amount), store="sales")
    sales.to_stream().to(at.sales)

    by_product = pick(orders, "product", "amount").select_key(order["product"].cast(str))
    bought = by_product.join(products, sf.left | {"category": sf.right["category"]}, joined=BY_PRODUCT)
    revenue = bought.group_by_key().aggregate(
        sf.agg(category=sf.last(order["category"]), amount=amount), store="revenue"
    )
    revenue.to_stream().to(at.revenue, key=str)

    # Not an aggregate: then the first total of a user would replace its initial value, which was in no tier.
    totals = pick(orders, "amount").map_values(order["amount"].cast(int)).group_by_key()
    spent = totals.reduce(sf.old + sf.new, store="spent")
    tier = sf.when(sf.value >= GOLD).then("gold").when(sf.value >= SILVER).then("silver").otherwise("bronze")
    by_tier = spent.group_by((tier, sf.value), key=str, value=int, name="by-tier")
    tiers = by_tier.aggregate(sf.agg(users=sf.count(), amount=sf.sum(sf.value)), store="tiers")
    tiers.filter(sf.value["users"] > 0).to_stream().to(at.tiers)

    clicks.group_by_key().windowed_by(VISITS).count(store="visits").to_stream().to(at.visits)

    pair = sf.obj(clicked=sf.left["product"], ordered=sf.right["product"])
    conversions = clicks.join(orders, pair, SOON_AFTER, joined=CLICK_AND_ORDER)
    conversions.group_by_key(value=dict).count(store="conversions").to_stream().to(at.conversions)


def shop_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """With functions."""
    users = builder.table(at.users, key=str, value=dict, store="users")
    products = builder.table(at.products, key=str, value=dict, store="products")
    clicks = builder.stream(at.clicks, key=str, value=dict)
    ordered = builder.stream(at.orders, key=str, value=dict)
    orders = ordered.join(users, lambda order, user: {**order, "region": user["region"]})

    regions = orders.group_by(lambda _, order: order["region"], key=str, value=dict, name="by-region")
    sales: Any = regions.windowed_by(MINUTES).aggregate(
        lambda: {"orders": 0, "amount": 0},
        lambda _, order, sales: {"orders": sales["orders"] + 1, "amount": sales["amount"] + order["amount"]},
        store="sales",
        value=dict,
    )
    sales.to_stream().to(at.sales)

    bought = orders.select_key(lambda _, order: order["product"]).join(
        products, lambda order, product: {**order, "category": product["category"]}, joined=BY_PRODUCT
    )
    revenue: Any = bought.group_by_key().aggregate(
        lambda: {"category": None, "amount": 0},
        lambda _, order, sums: {"category": order["category"], "amount": sums["amount"] + order["amount"]},
        store="revenue",
        value=dict,
    )
    revenue.to_stream().to(at.revenue)

    totals = orders.map_values(lambda order: int(order["amount"])).group_by_key(value=int)
    spent = totals.reduce(lambda total, amount: total + amount, store="spent")
    by_tier = spent.group_by(lambda _, total: (tier(total), total), key=str, value=int, name="by-tier")
    tiers: Any = by_tier.aggregate(
        lambda: {"users": 0, "amount": 0},
        lambda _, total, tiers: {"users": tiers["users"] + 1, "amount": tiers["amount"] + total},
        lambda _, total, tiers: {"users": tiers["users"] - 1, "amount": tiers["amount"] - total},
        store="tiers",
        value=dict,
    )
    tiers.filter(lambda _, row: row["users"] > 0).to_stream().to(at.tiers)

    clicks.group_by_key().windowed_by(VISITS).count(store="visits").to_stream().to(at.visits)

    conversions = clicks.join(
        orders,
        lambda click, order: {"clicked": click["product"], "ordered": order["product"]},
        SOON_AFTER,
        joined=CLICK_AND_ORDER,
    )
    conversions.group_by_key(value=dict).count(store="conversions").to_stream().to(at.conversions)


def tier(spent: int) -> str:
    """Tier of a user who has spent this much."""
    return "gold" if spent >= GOLD else "silver" if spent >= SILVER else "bronze"
