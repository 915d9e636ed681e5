"""Reconciliation of any topology: what its topics must hold, compared with what they hold, key by key.

`judge` compares two sequences of one key, `reconciling` reads topics and lets Spark compare all keys, `findings` is the
result, `page` shows it.
"""
