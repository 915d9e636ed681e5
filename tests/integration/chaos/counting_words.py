"""A word count in its own process, until a signal: `counting_words.py SETTINGS`, a JSON object.

It reads `from-NAME`, writes `to-NAME`, and prints its state and the number of committed records as JSON lines.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

import stoatflow as sf
from stoatflow.cli.word_count import topology


def main(config: dict[str, object]) -> int:
    """Run until a signal, or until the application ends by itself."""
    name = config["application.id"]
    app = sf.StoatFlow(topology(f"from-{name}", f"to-{name}", "native"), config)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    app.start()
    try:
        while not app.wait(0.2) and not stop.is_set():
            numbers = app.metrics()
            reported = {
                "state": str(app.state),
                "committed": numbers["records_committed"],
                "restarts": numbers["restarts"],
                "url": app.admin_url,
            }
            sys.stdout.write(json.dumps(reported) + "\n")
            sys.stdout.flush()
    finally:
        app.close()
    if app.error is not None:
        raise app.error
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
