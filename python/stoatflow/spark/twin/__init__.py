"""The twins: a topology on Spark, computed by the same engine.

Spark reads, shuffles and sorts; each of its tasks runs the engine on the records of one task of the topology. No
operator is translated. `faithful` defines what is the same on Spark and what is refused, `parts` cuts a topology into
parts, `task` runs the engine on rows, `running` drives Spark over a bounded input.

As a stream: `streaming` drives Spark, `routing` decides which part gets a record next, `stages` runs in workers,
`resumed_task` runs the engine from trigger to trigger, `task_state` holds its state, `checkpoint` records which
topology it belongs to.
"""
