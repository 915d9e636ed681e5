"""Shared by the benchmarks of calls into Python: CPU time instead of wall-clock time, and imports of the modules.

CPU time is the timer, since other work on the machine affects it little. No time is judged.
"""

from __future__ import annotations

import sys
from pathlib import Path

# They are imported without their folder on the path (`--import-mode=importlib`).
sys.path.insert(0, str(Path(__file__).parent))
