"""Damages single requests between the application and its broker, in addition to all other faults.

Takes a proxy (fault_proxy.py) and sets how much damage it does; which requests are hit is drawn from the proxy's
seed. Owns its rules. Never checks what becomes of a request.
"""

from __future__ import annotations

from collections import Counter

from broker.fault_proxy import Api, FaultProxy, Rule

LOADING, NO_COORDINATOR, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, CONCURRENT_TRANSACTIONS = 14, 15, 16, 19, 51
REFUSED = {
    Api.PRODUCE: (NOT_ENOUGH_REPLICAS,),
    Api.TXN_OFFSET_COMMIT: (NOT_COORDINATOR, LOADING),
    Api.ADD_PARTITIONS_TO_TXN: (CONCURRENT_TRANSACTIONS,),
    Api.ADD_OFFSETS_TO_TXN: (NOT_COORDINATOR, CONCURRENT_TRANSACTIONS),
    Api.INIT_PRODUCER_ID: (CONCURRENT_TRANSACTIONS, NOT_COORDINATOR),
    Api.END_TXN: (NOT_COORDINATOR, CONCURRENT_TRANSACTIONS, LOADING),
}
"""Errors with which a broker says that it can't serve a request now: all of them are retriable."""
ACTIONS = ("disconnect before", "disconnect after", "delay", "error", "black hole")
LIGHT, HEAVY = 0.003, 0.05
SWALLOWED = (Api.END_TXN, Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.FETCH)


class Noise:
    """How much goes wrong between an application and its broker."""

    def __init__(self, proxy: FaultProxy, spared: frozenset[Api] = frozenset()) -> None:
        self._proxy = proxy
        self._spared = spared
        """APIs at which no connection is cut."""
        self._rules: list[tuple[str, Rule]] = []
        self.struck: Counter[str] = Counter()
        """Number of hit requests by what happened to them."""

    @property
    def address(self) -> str:
        """The address that the application connects to."""
        return self._proxy.address

    def light(self, probability: float = LIGHT) -> None:
        """A little of every fault that a client handles without much delay."""
        self.off()
        for action in ("disconnect before", "disconnect after", "delay", "error"):
            self._often(action, probability)

    def heavy(self, action: str) -> None:
        """One kind of fault, often."""
        self.off()
        if action == "black hole":
            # Each of these costs a client its whole timeout.
            for api in SWALLOWED:
                self._add(action, api, at=3)
        else:
            self._often(action, HEAVY)

    def off(self) -> None:
        """From now on everything passes unchanged."""
        self.struck += Counter({f"{action}: {_name(rule)}": rule.struck for action, rule in self._rules})
        self._rules.clear()
        self._proxy.clear()

    def report(self) -> list[str]:
        """How many requests were hit, by action and API."""
        self.off()
        total = sum(self.struck.values())
        passed = sum(self._proxy.passed.values())
        head = f"requests through the proxy: {passed:,}, struck: {total:,}"
        return [head, *(f"  {count:>6}  {what}" for what, count in sorted(self.struck.items()))] if passed else []

    def _often(self, action: str, probability: float) -> None:
        if action == "error":
            for api, codes in REFUSED.items():
                for code in codes:
                    self._add(action, api, probability=probability, code=code)
        else:
            self._add(action, None, probability=probability, delay_s=0.3, spared=self._spared)

    def _add(self, action: str, api: Api | None, **how: object) -> None:
        self._rules.append((action, self._proxy.inject(api, action, **how)))


def _name(rule: Rule) -> str:
    if rule.api is None:
        return "any request"
    return rule.api.name.replace("_", " ").title().replace(" ", "") + (f" ({rule.code})" if rule.code else "")
