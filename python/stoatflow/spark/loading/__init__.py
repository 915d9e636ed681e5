"""Load from a spec: it declares what records look like, and every record is a function of the seed and its number.

`spec` reads TOML, `batches` generates records as Arrow batches without Spark, `running` writes them to topics.
"""
