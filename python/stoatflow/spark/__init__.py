"""Spark beside StoatFlow: make the input, check the output.

Gives: ``load`` (reproducible input into a topic) and ``reconcile`` (proof that an output topic holds
exactly what its input topic demands), each as functions and as ``python -m stoatflow.spark.<name>``.
Never imports PySpark by itself: that costs a second, and most users of StoatFlow never need it. Import
the module you want: ``from stoatflow.spark.load import lines``.
"""
