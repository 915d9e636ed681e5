"""Spark beside StoatFlow: make the input, check the output, run the same topology.

Gives: ``load`` (reproducible input into a topic), ``reconcile`` (proof that output topics hold exactly what the input
demands), each as functions and as commands, and ``SparkOptions`` of ``StoatFlow(..., engine="spark")``.
Never imports PySpark by itself: that costs a second, and most users of StoatFlow never need it. Import
the module you want: ``from stoatflow.spark.load import lines``.
"""

from __future__ import annotations

from stoatflow.spark.options import SparkOptions

__all__ = ["SparkOptions"]
