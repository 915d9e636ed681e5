"""Compares two versions of a topology: what happens to the application's state.

Takes the checked plans of two topologies, returns what the next start does with each store. Runs nothing, and accesses
neither broker nor disk.
"""
