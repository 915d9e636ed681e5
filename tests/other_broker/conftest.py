"""The modules that start a broker and read topics are next to the integration tests; they are no package."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

# SIGTERM stops the brokers and applications too, as Ctrl-C does.
signal.signal(signal.SIGTERM, signal.default_int_handler)
