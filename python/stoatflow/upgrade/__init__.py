"""What becomes of an application's state when its topology changes.

Takes the checked plans of two topologies, gives what the next start does with each store. Never runs anything, and
never looks at a broker or a disk.
"""
