"""Run the application, cause all faults, let it finish, and report what is wrong.

`python tests/integration/chaos/run.py --seed 7 --kills 20` starts its own broker; with `--listener SASL_SSL_SCRAM`
one with TLS, SASL and ACLs, to which the application connects through that listener, and with `--nodes 3` three of
them. The seed determines the faults and their order; what a kill at a random moment hits depends on the machine. With
`--records` it is a long run, and PySpark recomputes everything from the topics; without, plain Python compares with
what was generated.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

if __package__ in {None, ""}:  # run as a script: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.fault_proxy import FaultProxy
from broker.kafka_broker import KafkaBroker
from broker.listeners import LISTENERS
from broker.noise import Noise
from topics import KafkaTopics

from chaos import bank
from chaos.checks import Found, at_least, describe, exact
from chaos.faults import PLACES
from chaos.harness import BROKER, KAFKA, LIBRDKAFKA, NATIVE, Chaos
from chaos.secured import SecuredBroker

EXACTLY = "exactly_once_v2"


def report(chaos: Chaos) -> str:
    """The faults of the run."""
    unmet = [place for place in PLACES if not chaos.places[place]]
    lines = [
        f"seed {chaos.seed}, {chaos.guarantee}: {chaos.kills} kills, {chaos.inputs.count:,} input records",
        f"named places met: {len(PLACES) - len(unmet)} of {len(PLACES)}" + (f", not: {unmet}" if unmet else ""),
        *(f"  {place:<26}{chaos.places[place]:>4}" for place in PLACES if chaos.places[place]),
        "what happened:",
        *(f"  {count:>4}  {what}" for what, count in sorted(chaos.met.items())),
        f"lives by client: {dict(chaos.clients)}",
        *(chaos.noise.report() if chaos.noise is not None else ()),
        *(f"VIOLATION: {violation}" for violation in chaos.violations),
    ]
    return "\n".join(lines) + "\n"


def check_results(kafka: KafkaTopics, chaos: Chaos) -> tuple[bool, str]:
    """The checks without Spark."""
    found = Found(kafka, chaos.name)
    if chaos.guarantee != EXACTLY:
        wrong = at_least(found, chaos.inputs)
        return not wrong, f"wrong: {describe(wrong)}" if wrong else "all right: nothing is lost"
    wrong = exact(found, chaos.inputs)
    cuts = len(bank.cuts(found.rows("balances"), found.transactions("balances")))
    good = f"all right: missing 0, duplicated 0, wrong 0; {cuts} committed cuts of the bank add up to nothing"
    return not wrong, f"wrong: {describe(wrong)}" if wrong else good


def main() -> int:
    """One run, on its own broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="a random one if it is not given; it is printed")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--records", type=int, default=0, help="about so many; PySpark reconciles")
    parser.add_argument("--guarantee", default=EXACTLY)
    parser.add_argument("--only-kills", action="store_true", help="kills at random moments and nothing else")
    parser.add_argument("--clients", default=f"{NATIVE},{LIBRDKAFKA}", help="each life draws one of them")
    parser.add_argument("--no-proxy", action="store_true", help="no damage to single requests")
    parser.add_argument("--keep", help="a folder to keep the broker's data in")
    parser.add_argument(
        "--listener",
        choices=[listener.name for listener in LISTENERS if listener.certificate in {"", "server"}],
        help="how the application comes to the broker (default: plaintext, to a broker without security)",
    )
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=1, help="how many brokers there are (--listener)")
    given = parser.parse_args()
    if given.nodes > 1 and not given.listener:
        parser.error("--nodes 3 needs --listener: the broker without security is a single one")
    # Several nodes hand over to each other when one stops.
    settings = {name: value for name, value in BROKER.items() if given.nodes == 1 or "shutdown" not in name}
    seed = given.seed if given.seed is not None else random.randrange(1_000_000)
    sys.stderr.write(f"seed {seed}\n")
    began = time.monotonic()
    with (
        FaultProxy(seed) as proxy,
        SecuredBroker(given.listener, settings, nodes=given.nodes, version=KAFKA)
        if given.listener
        else KafkaBroker(given.keep, settings=settings, proxied=proxy.port, version=KAFKA) as broker,
        tempfile.TemporaryDirectory(prefix="stoatflow-chaos-") as folder,
    ):
        kafka = KafkaTopics(broker.bootstrap, replicas=given.nodes)
        others = not given.only_kills
        noise, clients = None, given.clients.split(",")
        if isinstance(broker, SecuredBroker):
            # The proxy can't read TLS, and this librdkafka has no TLS.
            clients = [NATIVE]
        elif not given.only_kills and not given.no_proxy:
            proxy.connect(broker.behind_proxy)
            noise = Noise(proxy)
        chaos = Chaos(
            kafka, f"chaos-{seed}", Path(folder) / "state", seed, given.guarantee,
            kills=given.kills, records=given.records, others=others, broker=broker, keep=not given.records, say=True,
            client=broker.client if isinstance(broker, SecuredBroker) else None, noise=noise, clients=clients,
        )  # fmt: skip
        chaos.run()
        sys.stdout.write(report(chaos))
        sys.stdout.flush()
        lived = time.monotonic()
        if given.records and given.guarantee == EXACTLY:
            from chaos.recompute import reconcile  # Spark is not needed for a short run

            result = reconcile(broker.bootstrap, chaos.name)
            right, text = result.ok, result.render()
        else:
            right, text = check_results(kafka, chaos)
    sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"{lived - began:.0f} s of faults, {time.monotonic() - lived:.0f} s to reconcile\n")
    return 0 if right and not chaos.violations else 1


if __name__ == "__main__":
    sys.exit(main())
