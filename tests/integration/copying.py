"""An application that copies `NAME-in` to `NAME-out`, in its own process: `python copying.py SETTINGS`.

SETTINGS is a JSON object. It prints its state, and runs until a signal.
"""

from __future__ import annotations

import json
import sys

import stoatflow as sf


def main(config: dict[str, object]) -> None:
    """Run until a signal."""
    name = config["application.id"]
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in").to(f"{name}-out")
    app = sf.StoatFlow(builder.build(), config)
    app.add_state_listener(lambda new, _: print(new, flush=True))  # noqa: T201
    app.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
