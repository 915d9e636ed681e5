"""The application that runs through a secured listener, on Spark and in the engine; `SECURED` is its name."""

from __future__ import annotations

import os

import stoatflow as sf


def build(name: str) -> sf.Topology:
    """Count the records of each user, and copy the large ones."""
    builder = sf.StreamsBuilder()
    orders = builder.stream(f"{name}-orders", key=str, value=dict)
    orders.filter(sf.value["amount"] >= 50).to(f"{name}-large", key=str, value=dict)
    orders.group_by_key().count(store="per-user").to_stream().to(f"{name}-counts", key=str, value=int)
    return builder.build()


if name := os.environ.get("SECURED"):
    topology = build(name)
