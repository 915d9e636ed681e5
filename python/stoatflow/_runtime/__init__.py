"""What runs a topology: the border to the native module, event loops, workers, the end of a process. Private."""
