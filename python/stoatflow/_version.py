"""The version of the Python package; the native module must have the same (checked by `_runtime.bridge`)."""

__version__ = "0.1.0"
