"""Builds observations of the live cluster for trained models, once a model asks for one.

An observation is made from this tick's queue and nodes, the cluster file, and the stored history.
If one of these is missing, there is no observation, and the decision says why.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from mirage.chains.open_handovers import OpenHandover
from mirage.database.jobs import job_history, queue_sums
from mirage.database.jobs.observation_past import read_recent_jobs
from mirage.database.operations import clusters
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Link
from mirage.domain.job import JobId
from mirage.domain.snapshot import Node, Queue, Snapshot
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError, MirageError
from mirage.provision.observation_window import ObservationWindow
from mirage.simulator.types import Params
from mirage.slurm.text import hostlist
from mirage.twin.cache import (
    HISTORY_S,
    GroupAnswers,
    GroupKey,
    Quantiles,
    TwinAnswer,
    TwinCache,
    TwinGroup,
)

if TYPE_CHECKING:
    # They import numba: half a second and 60 MiB, wasted if only rules decide.
    from mirage.observation.feature_vector import SnapshotObserver
    from mirage.observation.handover_input import HandoverInput as SeenLink
    from mirage.simulator.simulator import Simulator
    from mirage.twin.forecast import Futures, TwinForecast

_log = structlog.get_logger(__name__)

NO_FILE = "no cluster file is set (cluster.file)"
COMPILING = "the simulator is being compiled, once after an installation"
_UNOBSERVED = "no observation: "
_HIDDEN_SHARE = 0.1
"""Jobs count as hidden if more than this share of the busy nodes shows no job.

The list of nodes may be two minutes older than the queue, so a few such nodes mean nothing.
"""


_T = TypeVar("_T")

Observed = tuple[NDArray[np.float32] | None, str]


def _hide_no_jobs() -> bool:
    return False


def _is_always_compiled() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Observes the cluster, with data that Slurm's queue does not show."""

    params: Params
    node_names: Sequence[str] = ()
    """The node names in the cluster file's order; empty if sinfo has the same order."""
    twin_cache: TwinCache = field(default_factory=TwinCache)
    window: ObservationWindow = field(default_factory=ObservationWindow)
    hides_jobs: Callable[[], bool] = _hide_no_jobs
    """Whether PrivateData hides jobs from users; raises ClusterError if that is not known."""
    is_compiled: Callable[[], bool] = _is_always_compiled
    """Whether the simulator is compiled. Until then nothing is observed: the worker would stop for
    the compilation."""

    def observe_cluster(
        self, tx: Transaction, cluster_id: int, snapshot: Snapshot
    ) -> "SnapshotObserver":
        """Return what to observe links with in this tick. Raises MirageError if that fails."""
        if not self.is_compiled():
            raise InputError(COMPILING)
        from mirage.observation.feature_vector import SnapshotObserver  # noqa: PLC0415
        from mirage.observation.running_stats import RunningStats  # noqa: PLC0415 - see above

        if not snapshot.nodes:
            raise InputError("there was no answer on nodes yet")
        if self.hides_jobs() and (unseen := count_unseen_nodes(snapshot)):
            raise InputError(f"PrivateData hides jobs: nothing is seen on {unseen} busy nodes")
        _check_history(tx, cluster_id, snapshot.queue.taken_at)
        memory = RunningStats.from_recent_history(
            read_recent_jobs(tx, cluster_id, snapshot.queue.taken_at)
        )
        return SnapshotObserver(self.order_nodes(snapshot), self.params, memory)

    def order_nodes(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with its nodes in the cluster file's order."""
        nodes = _order_nodes(snapshot.nodes, self.node_names, self.params.nodes)
        return Snapshot(queue=snapshot.queue, nodes=nodes)

    def prepare_futures(
        self,
        tx: Transaction,
        cluster_id: int,
        snapshot: Snapshot,
        snapshot_observer: "SnapshotObserver",
        open_ones: Iterable[OpenHandover],
    ) -> Callable[[], "Futures"]:
        """Read what futures are made of. Return what makes them: it needs no database, and takes
        seconds on a large cluster."""
        from mirage.twin.forecast import Futures, Twin  # noqa: PLC0415
        from mirage.twin.futures.submission_history import SubmissionHistory  # noqa: PLC0415 - see above

        now = snapshot.queue.taken_at
        since = now - HISTORY_S
        jobs = job_history.read_jobs_submitted_since(tx, cluster_id, since, now)
        predecessors = _list_predecessors(snapshot.queue, open_ones)

        def build_futures() -> Futures:
            history = SubmissionHistory.from_accounting(self.params, jobs, since, now)
            return Futures(Twin(), snapshot_observer.simulator, history, predecessors, seed=now)

        return build_futures


class TickObservations:
    """The observations of one tick."""

    def __init__(
        self,
        observer: Observer | None,
        tx: Transaction,
        cluster_id: int,
        snapshot: Snapshot,
        open_ones: Sequence[OpenHandover] = (),
    ) -> None:
        """`open_ones`: all open hand-overs of the cluster."""
        self._open_ones = open_ones
        self._observer, self._tx, self._cluster_id = observer, tx, cluster_id
        self._snapshot = snapshot
        self._snapshot_observer: SnapshotObserver | str | None = None
        """The observer, or why there is none in this tick; None until somebody asks."""
        self._simulator: Simulator | str | None = None
        """The simulator of plans, or why there is none; None until somebody asks."""
        self._groups: dict[JobId, TwinGroup] | str | None = None
        """The groups by standby, or why there are none; None until somebody asks the twin."""

    def observe_handover(self, predecessor: Link, standby: Link) -> Observed:
        """Return the observation, float32[F] of `observation.spec`; or None, and why."""
        snapshot_observer = self._get_snapshot_observer()
        if isinstance(snapshot_observer, str):
            return None, snapshot_observer
        if self._simulator is None:
            self._simulator = _try_observing(lambda: snapshot_observer.simulator)
        if isinstance(self._simulator, str):
            return None, self._simulator
        observation = _try_observing(
            lambda: snapshot_observer.observe_link(self._build_link(predecessor, standby))
        )
        return (None, observation) if isinstance(observation, str) else (observation, "")

    def update_window(
        self, standby: Link, observation: NDArray[np.float32]
    ) -> NDArray[np.float32] | None:
        """Return float32[W, F]: the observations of this run so far, the present one last."""
        if self._observer is None:
            return None
        now = self._snapshot.queue.taken_at
        return self._observer.window.update_window(standby.job_id, now, observation)

    def forecast_handover(
        self, handover: OpenHandover, waits_for_twin: Callable[[OpenHandover], bool]
    ) -> tuple[TwinAnswer | None, bool]:
        """Return the twin's answer. If there is none, return None, and whether the twin is still
        to be asked.

        When the first hand-over of a tick asks, the twin is asked about all open ones that
        `waits_for_twin` is true for.
        """
        # Without an observation there is no simulation: jobs are hidden, or history is missing.
        snapshot_observer = self._get_snapshot_observer()
        if self._observer is None or isinstance(snapshot_observer, str):
            return None, False
        if self._groups is None:
            self._groups = _try_observing(lambda: self._ask_twin(snapshot_observer, waits_for_twin))
        if isinstance(self._groups, str) or handover.standby.job_id not in self._groups:
            return None, False
        group = self._groups[handover.standby.job_id]
        answer = self._observer.twin_cache.get_answer(group, self._snapshot.queue.taken_at)
        if answer is not None and answer.quantile_s is None:
            return None, False
        return answer, answer is None

    def explain_no_twin(self) -> str:
        """Return why nobody can ask the twin in this tick; empty if somebody can."""
        obstacle = self._get_snapshot_observer()
        return obstacle.removeprefix(_UNOBSERVED) if isinstance(obstacle, str) else ""

    def _get_snapshot_observer(self) -> "SnapshotObserver | str":
        """Return the tick's observer, built once; or why there is none."""
        if self._snapshot_observer is None:
            self._snapshot_observer = _try_observing(self._build_snapshot_observer)
        return self._snapshot_observer

    def _ask_twin(
        self, snapshot_observer: "SnapshotObserver", waits_for_twin: Callable[[OpenHandover], bool]
    ) -> dict[JobId, TwinGroup]:
        """Ask about the open hand-overs, as far as the time of the tick goes. Return the groups by
        standby."""
        assert self._observer is not None  # noqa: S101 - the caller checked
        now = self._snapshot.queue.taken_at
        alike: dict[GroupKey, list[tuple[SeenLink, OpenHandover]]] = {}
        for one in filter(waits_for_twin, self._open_ones):
            link = _try_observing(partial(self._build_link, one.predecessor, one.standby))
            if not isinstance(link, str):
                alike.setdefault(snapshot_observer.classify_wait(link), []).append((link, one))
        groups = [
            _build_group(snapshot_observer, key, members, now) for key, members in alike.items()
        ]
        ask = partial(self._answer_groups, snapshot_observer)
        self._observer.twin_cache.refresh_answers(groups, now, ask)
        return {JobId(link.job_id): group for group in groups for link, _ in alike[group.key]}

    def _answer_groups(
        self, snapshot_observer: "SnapshotObserver", groups: Sequence[TwinGroup]
    ) -> Iterator[GroupAnswers | None]:
        """Return the pieces of the work. What they need of the database is read before: they may
        outlast the tick."""
        assert self._observer is not None  # noqa: S101 - the caller checked
        build_futures = self._observer.prepare_futures(
            self._tx, self._cluster_id, self._snapshot, snapshot_observer, self._open_ones
        )
        return _answer_from_futures(build_futures, groups, self._observer.params)

    def _build_snapshot_observer(self) -> "SnapshotObserver":
        if self._observer is None:
            raise InputError(NO_FILE)
        return self._observer.observe_cluster(self._tx, self._cluster_id, self._snapshot)

    def _build_link(self, predecessor: Link, standby: Link) -> "SeenLink":
        """Return the hand-over in the form that observations take."""
        from mirage.observation.handover_input import HandoverInput as SeenLink  # noqa: PLC0415 - see above
        from mirage.simulator.from_queue import build_submitted_job  # noqa: PLC0415

        assert self._observer is not None  # noqa: S101 - or nothing would observe
        queued_job = self._snapshot.queue.find_job(standby.job_id)
        end = predecessor.get_planned_end()
        if queued_job is None or predecessor.start is None or end is None:
            raise InputError("its jobs are not in the queue")
        job = build_submitted_job(self._observer.params, queued_job)
        return SeenLink(
            nodes=job.nodes,
            time_limit_s=job.time_limit_s,
            user=job.user,
            account=job.account,
            partition=job.partition,
            qos=job.qos,
            cpus=job.cpus,
            gpus=job.gpus,
            exclusive=job.exclusive,
            job_id=job.job_id,
            submit=job.submit,
            # In training, a predecessor never waited for a predecessor of its own.
            predecessor_submit=max(predecessor.submit, predecessor.eligible or 0),
            predecessor_start=predecessor.start,
            predecessor_end=end,
            predecessor_nodes=predecessor.nodes,
        )


def _build_group(
    snapshot_observer: "SnapshotObserver",
    key: GroupKey,
    members: Sequence[tuple["SeenLink", OpenHandover]],
    now: int,
) -> TwinGroup:
    """Build the group of hand-overs that wait alike. The first one's successor is the probe."""
    from mirage.twin.forecast import build_probe  # noqa: PLC0415 - see above

    prices = [(link, one.chain.overlap_price) for link, one in members]
    stakes = {(link.predecessor_end - now, price / (1.0 + price)) for link, price in prices}
    shortest_s = min(link.predecessor_end - link.predecessor_start for link, _ in members)
    return TwinGroup(*key, shortest_s, build_probe(snapshot_observer, members[0][0], stakes))


def _answer_from_futures(
    build_futures: Callable[[], "Futures"], groups: Sequence[TwinGroup], params: Params
) -> Generator[GroupAnswers | None, None, None]:
    """Yield None after a piece of the work, and the answers of groups that share futures."""
    from mirage.twin.forecast import group_probes  # noqa: PLC0415 - see above

    futures = build_futures()
    yield None
    probes = [group.probe for group in groups]
    for places in group_probes(probes, params):
        answers = yield from futures.try_waits([probes[i] for i in places])
        yield {
            groups[i].key: _read_quantiles(answer)
            for i, answer in zip(places, answers, strict=True)
        }


def _read_quantiles(answer: "TwinForecast | Exception") -> Quantiles | None:
    if isinstance(answer, Exception):
        _log.error("the twin failed on a hand-over", exc_info=answer)
        return None
    return answer.compute_quantiles()


def _list_predecessors(queue: Queue, open_ones: Iterable[OpenHandover]) -> set[tuple[str, int]]:
    """List the running predecessors of open hand-overs: user and start, epoch seconds."""
    jobs = (queue.find_job(one.predecessor.job_id) for one in open_ones)
    return {(job.user, job.start) for job in jobs if job is not None and job.start is not None}


def _try_observing(make: Callable[[], _T]) -> _T | str:
    """Return the result of `make`, or why it failed; a rule then decides without it."""
    try:
        return make()
    except MirageError as error:
        return f"{_UNOBSERVED}{error}"
    except Exception as error:
        _log.exception("an observation failed")
        return f"{_UNOBSERVED}{error!r}"


def count_unseen_nodes(snapshot: Snapshot) -> int:
    """Count the busy nodes on which no job is seen; 0 if they are only a few."""
    queue = snapshot.queue
    nodes_with_jobs = {
        n for names in queue.node_list[queue.running_mask] for n in hostlist.expand_hostlist(names)
    }
    busy = [node.name for node in snapshot.nodes if node.cpus_used]
    unseen = sum(name not in nodes_with_jobs for name in busy)
    return unseen if unseen > _HIDDEN_SHARE * len(busy) else 0


def _check_history(tx: Transaction, cluster_id: int, now: int) -> None:
    """Raise InputError unless a day of history is known, from accounting or from the queue."""
    if clusters.read_history_until(tx, cluster_id) is not None:
        return
    first = queue_sums.find_first_taken_at(tx, cluster_id)
    if first is None or first > now - DAY_S:
        raise InputError("the last 24 h are not known: accounting has not been read")


def _order_nodes(nodes: Sequence[Node], names: Sequence[str], count: int) -> tuple[Node, ...]:
    """Return the nodes as the cluster file numbers them; one that Slurm no longer shows is down.

    Raises InputError if the file has no names and another number of nodes, or none of the nodes
    shown.
    """
    if not names:
        if len(nodes) != count:
            raise InputError(f"the cluster file has {count} nodes, and Slurm shows {len(nodes)}")
        return tuple(nodes)
    node_by_name = {node.name: node for node in nodes}
    if not node_by_name.keys() & set(names):
        raise InputError("the cluster file has none of the nodes that Slurm shows")
    return tuple(node_by_name.get(name) or _make_down_node(name) for name in names)


def _make_down_node(name: str) -> Node:
    return Node(name=name, partitions=(), state="down", cpus=0, cpus_used=0, gpus=0, gpus_used=0)
