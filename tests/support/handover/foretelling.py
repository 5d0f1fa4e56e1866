"""`python -m tests.support.handover.foretelling`: Mirage with a policy that always does the same.

The policy `at-once` releases each standby at once and forecasts a wait of ten minutes. So a link
starts early on an idle cluster, and the service knows what a new release costs the link. The costs
stay fresh for twenty minutes of the clock, since links need as long to start as on any host.
"""

from dataclasses import replace

from mirage.__main__ import main
from mirage.domain.decision import Decision, Forecast, PolicyView
from mirage.policies.registry import POLICIES
from mirage.policies.rules.lead_rules import AtOnce
from mirage.provision import return_costs

WAIT_S = 600
FASTEST = 60
"""The most times that a testbed's clock may be faster than this host's."""


class ForecastingAtOnce(AtOnce):
    """Releases at once; all waits are ten minutes."""

    def decide(self, view: PolicyView) -> Decision:
        forecast = Forecast(p10_s=WAIT_S, p50_s=WAIT_S, p90_s=WAIT_S, waits_s=(WAIT_S,) * 19)
        return replace(AtOnce.decide(self, view), forecast=forecast)


if __name__ == "__main__":
    POLICIES["at-once"] = ForecastingAtOnce()
    return_costs.FRESH_S *= FASTEST
    main()
