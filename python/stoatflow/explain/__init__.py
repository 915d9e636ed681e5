"""What `stoatflow explain` knows: errors, settings, metrics, reasons of drops, names of Kafka Streams.

Takes the engine's tables, gives entries with names to look for. Owns nothing but the causes of errors (`causes.py`);
`measured.json` is written by `make docs` from the engine's source.
"""
