"""Data of `stoatflow explain`: errors, settings, metrics, drop reasons, names of Kafka Streams.

Takes the engine's tables, returns entries with the names to find them by. Owns only the causes of errors (`causes.py`);
`measured.json` is written by `make docs` from the engine's source.
"""
