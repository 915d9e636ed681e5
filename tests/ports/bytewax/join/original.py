"""Bytewax's guide, "Complete Joins": a pair once both sides are present, then the state of the key is deleted."""

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def dataflow(inputs, outputs):
    flow = Dataflow("join")
    names = op.input("names", flow, TestingSource(inputs["names"]))
    emails = op.input("emails", flow, TestingSource(inputs["emails"]))
    name = op.map("name", names, lambda each: (each["user"], each["name"]))
    email = op.map("email", emails, lambda each: (each["user"], each["email"]))
    op.output("users", op.join("join", name, email), TestingSink(outputs["users"]))
    return flow
