"""Bytewax's reference of `branch`: a stream is split in two by a predicate."""

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def dataflow(inputs, outputs):
    flow = Dataflow("branch")
    numbers = op.input("numbers", flow, TestingSource(inputs["numbers"]))
    halves = op.branch("even", numbers, lambda number: number % 2 == 0)
    op.output("even-out", halves.trues, TestingSink(outputs["even"]))
    op.output("odd-out", halves.falses, TestingSink(outputs["odd"]))
    return flow
