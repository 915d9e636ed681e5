"""Checks a topology before it runs: functions that an expression could replace, and mistakes.

Takes a topology, returns findings. `source` finds a function's source, `translate` and `calls` turn it into an
expression, `fold` into an aggregation, `suggestion` tries the result in the plan; `mistakes` finds bugs; `examination`
runs all checks; `hint` logs suggestions at run time. Never runs a function, never changes a topology, and is imported
only when used.
"""
