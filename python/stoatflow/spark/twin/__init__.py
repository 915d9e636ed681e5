"""The twins: a topology on Spark, computed by the same engine.

Spark reads, shuffles and sorts; each of its tasks runs the engine on the records of one task of the topology. Nothing
is translated. `faithful` says what is the same there and what is refused, `cutting` where a topology is cut, `task`
runs the engine on rows, `running` drives Spark over a bounded input.

As a stream: `streaming` drives Spark, `routing` says which part takes a record next, `stages` runs in workers,
`resumed` runs the engine from trigger to trigger, `kept` is its state, `checkpoint` whose state it is.
"""
