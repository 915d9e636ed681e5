"""Dead letters: what is in a topic of them, by cause, and sending them back to where they came from.

`letter` reads one, `selection` chooses and sums up, `topic` reads them all, `marks` remembers what was replayed,
`replay` sends. `stoatflow.cli.dlq` is the face.
"""
