"""A chain on the simulated cluster, and the worker that moves its standby."""

from collections.abc import Callable

from mirage.database.chains import decisions
from mirage.database.chains.decisions import DecisionRow
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, Link, find_mark
from mirage.domain.decision import Action, Decision, Forecast, Mode, PolicyView
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.ports import Policy, SimplePolicy
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.simulator.types import Params
from tests.support.provision import slurm_jobs

CHAIN = slurm_jobs.CHAIN
HOUR = 3600


class Always(SimplePolicy):
    """Frees at once, with a forecast."""

    def __init__(self, name: str = "always", forecast: Forecast | None = None) -> None:
        self.name, self.forecast = name, forecast

    def decide(self, view: PolicyView) -> Decision:
        return Decision(
            action=Action.FREE, reason="always", policy=self.name, forecast=self.forecast
        )


class FailingCluster(SimulatedCluster):
    """A cluster whose `free_standby` raises `error`, before the move reaches Slurm or after."""

    error: BaseException | None = None
    reaches_slurm = False
    """Whether the move is made before the error."""
    move_count = 0
    """The calls of `free_standby` so far."""

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        self.move_count += 1
        if self.reaches_slurm or self.error is None:
            super().free_standby(
                standby,
                owner=owner,
                dependency=dependency,
                unpin=unpin,
                expected_dependency=expected_dependency,
            )
        if self.error is not None:
            raise self.error


class Scene:
    """Two nodes: the chain's first link runs on one, another chain on the other for two hours."""

    def __init__(
        self,
        store: Store,
        *,
        mode: Mode = Mode.ACT,
        policies: Callable[[str], Policy] = Always,
        limits: Limits | None = None,
    ) -> None:
        self.store = store
        self.cluster = FailingCluster(Params(nodes=2, bf_interval_s=10), now=slurm_jobs.NOW)
        self.cluster.submit_chain(ChainId("crowd0000"), links=1, time_limit_s=2 * HOUR)
        self.cluster.submit_chain(CHAIN, links=3, time_limit_s=HOUR)
        self.cluster.advance(30)
        self.settings = DecisionSettings(
            get_policy=policies, default_policy="always", limits=limits or Limits()
        )
        with store.begin() as tx:
            self.cluster_id = clusters.ensure_cluster(tx, "lab")
            clusters.set_mode(tx, self.cluster_id, mode)
        self.worker = self.new_worker()

    def new_worker(self) -> Worker:
        return Worker(self.store, self.cluster, self.cluster_id, settings=self.settings)

    def tick(self, after_s: int = 60) -> None:
        self.cluster.advance(after_s)
        self.worker.run_tick()

    def job(self, index: int) -> Job:
        for job in self.cluster.fetch_queue():
            mark = find_mark(job.comment)
            if mark and (mark.chain_id, mark.index) == (CHAIN, index):
                return job
        raise AssertionError(f"link {index} is not in the queue")

    @property
    def held(self) -> bool:
        job = self.job(2)
        return job.state is JobState.PENDING and job.dependency != ""

    @property
    def standby(self) -> Link:
        return slurm_jobs.links(self.store)[2]

    @property
    def events(self) -> list[str]:
        return slurm_jobs.events(self.store)

    @property
    def decisions(self) -> list[DecisionRow]:
        """Return the decisions about the standby, oldest first."""
        with self.store.read() as tx:
            rows = decisions.list_decisions(tx, 1, chain_id=CHAIN)
        return [row for row in rows if row.index == 2][::-1]
