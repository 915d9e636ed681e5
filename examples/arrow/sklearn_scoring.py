"""Score events with scikit-learn: `python examples/arrow/sklearn_scoring.py` (needs it, and stoatflow[arrow]).

The model is trained when the program starts; a real one would be loaded from a file. It scores a batch in one call,
which takes little longer than scoring one row. A payment that looks like fraud is written to a topic of its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

PAYMENTS = pa.schema([("amount", pa.float64()), ("abroad", pa.bool_()), ("hour", pa.int8())])


def train() -> LogisticRegression:
    """Train on made-up examples, where large payments from abroad at night are mostly fraud."""
    dice = np.random.default_rng(7)
    amounts, abroad, hours = dice.uniform(1, 1000, 500), dice.integers(0, 2, 500), dice.integers(0, 24, 500)
    fraud = (amounts > 500) & (abroad == 1) & (hours < 6)
    return LogisticRegression(max_iter=1000, class_weight="balanced").fit(features(amounts, abroad, hours), fraud)


def features(amounts: np.ndarray, abroad: np.ndarray, hours: np.ndarray) -> np.ndarray:
    """The features of the model."""
    return np.column_stack([amounts / 1000, abroad, hours < 6])


MODEL = train()


def score(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every payment, with the probability that it is fraud."""
    amounts, abroad, hours = (batch[name].to_numpy(zero_copy_only=False) for name in ("amount", "abroad", "hour"))
    likely = MODEL.predict_proba(features(amounts, abroad.astype(float), hours))[:, 1]
    return batch.append_column("fraud", pa.array(likely.round(2)))


def build() -> sf.Topology:
    """Payments in; suspicious ones and all others out."""
    builder = sf.StreamsBuilder()
    scored = builder.stream("payments", key=str, value=dict).map_batches(score, schema=PAYMENTS)
    branches = scored.split({"suspicious": sf.value["fraud"] > 0.5}, default="fine")
    branches["suspicious"].to("suspicious-payments")
    branches["fine"].to("payments-scored")
    return builder.build()


topology = build()


def main() -> None:
    """Run a few payments through the topology, in one batch."""
    with TopologyTestDriver(topology) as driver:
        with driver.epoch():
            payments = driver.input("payments", str, dict)
            payments.pipe("ann", {"amount": 20, "abroad": False, "hour": 12})
            payments.pipe("bob", {"amount": 950, "abroad": True, "hour": 3})
            payments.pipe("cyd", {"amount": 700, "abroad": False, "hour": 15})
        for topic in ("suspicious-payments", "payments-scored"):
            for user, payment in driver.output(topic, str, dict).read_key_values_to_list():
                assert payment is not None
                print(f"{topic}: {user} {payment['amount']}")


if __name__ == "__main__":
    main()
