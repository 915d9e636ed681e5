"""What can be said about a topology before it runs: functions that an expression could replace, and mistakes.

Takes a topology, gives findings. `source` finds what was written, `translate` and `calls` make an expression of it,
`fold` an aggregation, `suggestion` tries it in the plan; `mistakes` knows the rest; `examination` puts all of it
together; `hint` says it at run time. Never runs a function, never changes a topology, and is imported only when
somebody asks.
"""
