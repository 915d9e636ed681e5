"""Declared load: a spec says what records look like, and every record is a function of the seed and its number.

`spec` reads TOML, `batches` makes records as Arrow batches without Spark, `running` writes them to topics.
"""
