"""Spark beside StoatFlow: generate input, check output, run the same topology.

Has ``load`` (reproducible input into a topic), ``reconcile`` (proof that output topics hold exactly what follows from
the input), each as functions and as commands, and ``SparkOptions`` of ``StoatFlow(..., engine="spark")``. Never imports
PySpark by itself: that takes a second, and most users don't need it. Import the module you want: ``from
stoatflow.spark.load import lines``.
"""

from __future__ import annotations

from stoatflow.spark.options import SparkOptions

__all__ = ["SparkOptions"]
