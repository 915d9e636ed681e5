"""An environment for each of the other libraries, outside the repository, with the recorded version.

Takes: an interpreter from 3.10 to 3.12 (Bytewax has no wheels for later ones), and PyPI the first time. Returns:
the interpreter of an environment in the cache folder. A second call finds it, and installs nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from broker.java_home import cache_dir

REQUIREMENTS = {
    "bytewax": "bytewax==0.21.1",
    "faust": "faust-streaming==0.15.3",
    "quix": "quixstreams==3.28.1",
}
_FITTING = "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))"


def interpreter(library: str) -> Path:
    """Return the Python of an environment that has the library; create it if it doesn't exist."""
    requirement = REQUIREMENTS[library]
    folder = cache_dir() / "ports" / requirement.replace("==", "-")
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([_find(), "-m", "venv", str(folder)], check=True)
        pip = subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=False)
        if pip.returncode != 0:
            raise RuntimeError(
                f"pip could not install {requirement}; its message is above. "
                "Next: behind a proxy set PIP_INDEX_URL or HTTPS_PROXY, then run it again."
            )
        done.write_text(requirement, "utf-8")
    return python


def _find() -> str:
    for candidate in (sys.executable, "python3.12", "python3.11", "python3.10"):
        found = shutil.which(candidate)
        if found and subprocess.run([found, "-c", _FITTING], check=False).returncode == 0:
            return found
    raise RuntimeError(
        "no Python from 3.10 to 3.12 was found, which Bytewax needs. Next: install one, and put python3.12 on the PATH."
    )
