"""Hands an application over to the streaming twin on Spark, and back: its stores, and where it has read to.

Takes: a topology, the application's settings, a checkpoint. Gives: a plan that says what will be done; `make` does it.
Owns: that one of both has the work at any time. Never: changes anything before `make`, nor an input or output topic.
"""

from stoatflow.spark.handover.homeward import FromSpark
from stoatflow.spark.handover.outward import ToSpark

__all__ = ["FromSpark", "ToSpark"]
