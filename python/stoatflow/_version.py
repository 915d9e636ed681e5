"""The version of the Python half; the native half must have the same (checked by `_runtime.bridge`)."""

__version__ = "0.1.0"
