"""`python -m stoatflow` runs the command `stoatflow`."""

import sys

from stoatflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
