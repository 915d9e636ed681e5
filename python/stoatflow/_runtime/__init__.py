"""What runs a topology: the native module, event loops, workers, and the end of a process. Private."""
