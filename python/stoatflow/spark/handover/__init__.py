"""Hands an application over to the streaming twin on Spark, and back: its stores, and its positions.

Takes a topology, the application's settings, a checkpoint. Returns a plan that says what will be done; `make` does it.
Ensures that only one side can run at any time. Changes nothing before `make`, and never an input or output topic.
"""

from stoatflow.spark.handover.from_spark import FromSpark
from stoatflow.spark.handover.to_spark import ToSpark

__all__ = ["FromSpark", "ToSpark"]
