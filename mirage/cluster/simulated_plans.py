"""Releases that stand in the simulated cluster's dependencies: `afterany:P?after:P+N`.

The simulator knows the first term; the second one is kept here, and its instant is met by the
cluster's clock.
"""

from collections.abc import Iterator

from mirage.domain.job import JobState
from mirage.sim.layout import FAR
from mirage.sim.simulator import Simulator
from mirage.slurm.dependency import Plan


def shown(plan: Plan) -> str:
    """As squeue prints it."""
    before = plan.predecessor
    return f"afterany:{before}(unfulfilled)?after:{before}+{plan.minutes}(unfulfilled)"


class Plans:
    """By the standby's job id."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._plans: dict[int, Plan] = {}

    def write(self, standby: int, plan: Plan | None) -> None:
        """None takes away what stands."""
        self._plans.pop(standby, None)
        if plan is not None:
            self._plans[standby] = plan
            self.release()

    def find(self, standby: int) -> Plan | None:
        return self._plans.get(standby)

    def next_due(self) -> int:
        """FAR: none is."""
        return min((due for _, due in self._dues()), default=FAR)

    def release(self) -> None:
        """Those that are due now."""
        now = self._simulator.now
        for standby in [standby for standby, due in self._dues() if due <= now]:
            del self._plans[standby]
            record = self._simulator.find(standby)
            if record is not None and record.state is JobState.PENDING:
                self._simulator.set_dependencies(standby, ())

    def _dues(self) -> Iterator[tuple[int, int]]:
        """One that slurmctld does not know, or that has ended, keeps nobody; a requeued one counts
        anew from its next start."""
        for standby, plan in self._plans.items():
            before = self._simulator.find(plan.predecessor)
            if before is None or before.state.ended:
                yield standby, self._simulator.now
            elif before.state is JobState.RUNNING and before.start is not None:
                yield standby, before.start + 60 * plan.minutes
