"""What the benchmarks of the border share: CPU time instead of the clock, and the way to the modules.

Owns: the choice of the timer: other work on the machine moves a clock, and CPU time little. Never: judges a time.
"""

from __future__ import annotations

import sys
from pathlib import Path

# They are imported without their folder on the path (`--import-mode=importlib`).
sys.path.insert(0, str(Path(__file__).parent))
