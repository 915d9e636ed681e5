"""Report trades to an authority that answers slowly: `offload`, and a parking lot.

Each trade is parked, a request is sent, and the authority's answer releases it: parking and request are one
transaction, and so are release and report. A trade without an answer is requested again, then written to the dead
letters. `python examples/jobs/report_trades.py` runs it in the test driver, which plays the authority.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def build() -> sf.Topology:
    """Trades in, reports out, with requests and answers between."""
    builder = sf.StreamsBuilder()
    trades = builder.stream("trades", key=str, value=dict)
    reported = trades.offload(
        requests="authority-requests",
        responses="authority-answers",
        request=sf.obj(instrument=sf.value["instrument"], amount=sf.value["amount"]),
        response_value=dict,
        joiner=sf.obj(trade=sf.left["id"], receipt=sf.right["receipt"]),
        timeout="30s",
        retry=sf.Backoff(attempts=2, first="5s"),
        on_timeout=sf.DLQ("unreported"),
        name="report",
    )
    reported.to("reports", key=str, value=dict)
    return builder.build()


topology = build()


def main() -> None:
    """Two trades, one of which is never answered."""
    with TopologyTestDriver(topology) as driver:
        trades = driver.input("trades", str, dict)
        trades.pipe("t1", {"id": 1, "instrument": "XS01", "amount": 500})
        trades.pipe("t2", {"id": 2, "instrument": "XS02", "amount": 70})
        requests = driver.output("authority-requests", str, dict).read_all()
        print("asked:", [request.value for request in requests])
        answers = driver.input("authority-answers", str, dict)
        answers.pipe("t1", {"receipt": "R-1"}, headers=requests[0].headers)
        driver.crash()
        driver.restart()
        print("reported:", driver.output("reports", str, dict).read_values_to_list())
        driver.advance("31s")
        driver.advance("6s")
        again = driver.output("authority-requests", str, dict).read_all()
        print("asked again:", [request.key for request in again])
        driver.advance("31s")
        print("unreported:", [letter.key for letter in driver.output("unreported", str, dict)])


if __name__ == "__main__":
    main()
