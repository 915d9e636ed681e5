"""Dead letters: reading a dead-letter topic, by cause, and replaying letters to their source topics.

`dead_letter` reads one letter, `selection` filters and sums up, `topic` reads all letters, `marks` records what was
replayed, `replay` sends. `stoatflow.cli.dlq` is the command line.
"""
