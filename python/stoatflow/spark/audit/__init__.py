"""Reconciliation of any topology: compares the expected with the actual content of its topics, key by key.

`compare` compares two sequences of one key, `reconciling` reads topics and lets Spark compare all keys, `findings`
holds the result, `page` formats it.
"""
