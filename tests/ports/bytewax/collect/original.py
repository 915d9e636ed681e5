"""Bytewax's guide, "Collecting": lists of three, or of the items that arrived within ten seconds."""

from datetime import timedelta

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def dataflow(inputs, outputs):
    flow = Dataflow("collect")
    numbers = op.input("numbers", flow, TestingSource(inputs["numbers"]))
    together = op.key_on("key", numbers, lambda number: "ALL")
    lists = op.collect("collect", together, timeout=timedelta(seconds=10), max_size=3)
    op.output("lists", lists, TestingSink(outputs["lists"]))
    return flow
