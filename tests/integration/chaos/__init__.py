"""One application with most of what the DSL has, killed at seeded moments on a real broker.

`inputs.py` generates the input, `application.py` is what runs, `expected.py` computes the expected output without
the engine, `checks.py` compares, `run.py` kills. `python tests/integration/chaos/run.py --seed 7 --kills 20`
repeats a run.
"""
