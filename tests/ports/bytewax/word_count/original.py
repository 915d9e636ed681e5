"""Bytewax's guide, "Wordcount Example": how often each word occurs in a file."""

import re

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def dataflow(inputs, outputs):
    flow = Dataflow("word_count")
    lines = op.input("lines", flow, TestingSource(inputs["lines"]))
    lower = op.map("lower", lines, str.lower)
    words = op.flat_map("words", lower, lambda line: re.findall(r"[^\s!,.?\":;0-9]+", line))
    counts = op.count_final("count", words, lambda word: word)
    op.output("counts", counts, TestingSink(outputs["counts"]))
    return flow
