"""Carries out what owners and admins asked of chains: holds, releases and cancels jobs in Slurm.

A request is a chain's state together with the user who asked for it (`lifecycle.request_state`). It
is stored before Slurm gets a command. The queue shows what is still to be done, so a crash or a
silent Slurm costs one tick.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import structlog

from mirage.chains.explanations import describe_chain
from mirage.chains.link_sync import list_marked_jobs, list_unread_chains, parse_marks
from mirage.database.chains import chains, orders
from mirage.database.chains.orders import OrderOutcome
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import Chain, ChainState
from mirage.domain.chain_cause import Actor
from mirage.domain.decision import Mode
from mirage.domain.job import Job, JobState
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Queue
from mirage.errors import ClusterRefused, ClusterUnavailable, JobChanged
from mirage.slurm.text.holds import is_held, is_users_hold

_log = structlog.get_logger(__name__)

ASK_AGAIN_S = 900
"""Seconds before Mirage repeats an order that Slurm refused."""

MOST_TRIES = 3
"""The most times in ASK_AGAIN_S that a job gets the same order: somebody else may undo each one."""

MOST_OF_ONE = 32
"""The most orders for jobs of one owner in a tick.

An order takes up to three commands of Slurm. An owner who marks a thousand jobs must not delay the
moves for others.
"""


class Order(StrEnum):
    HOLD = "suspend"
    RELEASE = "resume"
    CANCEL = "cancel"

    def format_event(self, outcome: OrderOutcome) -> str:
        """Return the audit's event for this order and its outcome."""
        return self.value if outcome is OrderOutcome.TOLD else f"{self}: {outcome}"


_HOLDS_AFTER: Mapping[tuple[Order, OrderOutcome], bool] = {
    (Order.HOLD, OrderOutcome.TOLD): True,
    (Order.HOLD, OrderOutcome.REFUSED): False,
    (Order.HOLD, OrderOutcome.OVERTAKEN): False,
    (Order.RELEASE, OrderOutcome.TOLD): False,
}
"""Whether Mirage holds the job after this order with this outcome. All other orders and outcomes
change no hold."""


@dataclass(frozen=True, slots=True)
class _Task:
    chain: Chain
    job: Job
    order: Order


def enforce_requests(store: Store, cluster: Cluster, cluster_id: int, queue: Queue) -> None:
    """Give Slurm the commands for requests that the queue does not show as done yet.

    Standbys come before running links: a successor must not start because its predecessor was
    cancelled first.
    """
    with store.read() as tx:
        tasks = _limit_per_owner(_find_tasks(tx, cluster_id, queue))
    for task in tasks:
        if not _execute_task(store, cluster, cluster_id, task):
            return  # Slurm did not answer: each further command would wait as long


def _limit_per_owner(tasks: Iterable[_Task]) -> list[_Task]:
    """Return at most MOST_OF_ONE tasks of each owner, standbys before running links.

    Owners take turns: the first task of each comes before the second task of any.
    """
    count_by_owner: Counter[int] = Counter()
    ranked: list[tuple[bool, int, _Task]] = []
    for task in sorted(tasks, key=lambda task: task.job.state.is_running):
        if count_by_owner[task.chain.uid] < MOST_OF_ONE:
            ranked.append((task.job.state.is_running, count_by_owner[task.chain.uid], task))
        count_by_owner[task.chain.uid] += 1
    return [task for *_, task in sorted(ranked, key=lambda entry: entry[:2])]


def _find_tasks(tx: Transaction, cluster_id: int, queue: Queue) -> Iterator[_Task]:
    links = [(mark, job) for mark, job in parse_marks(list_marked_jobs(queue)) if _is_alive(job)]
    by_id = chains.find_chains(tx, cluster_id, {mark.chain_id for mark, _ in links})
    modes = read_modes(tx, cluster_id)
    unread = list_unread_chains(tx, cluster_id, queue)
    for mark, job in links:
        chain = None if mark.chain_id in unread else by_id.get(mark.chain_id)
        if chain is None or chain.uid != job.uid:
            continue
        mode = modes.get_chain_mode(chain, job.partition, job.nodes)
        if mode is Mode.OBSERVE:
            continue
        order = _decide_order(tx, cluster_id, chain, job, mode)
        if order is not None and not _has_enough_tries(tx, cluster_id, job, order, queue.taken_at):
            yield _Task(chain, job, order)


def _is_alive(job: Job) -> bool:
    return job.state.is_waiting or (job.state.is_running and job.state is not JobState.COMPLETING)


def _decide_order(
    tx: Transaction, cluster_id: int, chain: Chain, job: Job, mode: Mode
) -> Order | None:
    """Return the order that brings the job to its chain's state; None if there is nothing to do."""
    if chain.state is ChainState.CANCELLED:
        is_requested = chain.actor is Actor.USER
        # The owner cancelled a link in Slurm: Mirage cancels the waiting standby, but leaves a
        # running link to its owner.
        is_orphan = job.state.is_waiting and mode is Mode.ACT
        return Order.CANCEL if is_requested or is_orphan else None
    if not job.state.is_waiting:
        return None
    if chain.state is ChainState.PAUSED:
        # A pause that Mirage concluded by itself leads to a hold in mode `act` only.
        may_hold = mode is Mode.ACT or chain.actor is not Actor.MIRAGE
        return Order.HOLD if may_hold and not is_held(job.reason, job.priority) else None
    # A hold that an admin, somebody else or Slurm itself placed is not Mirage's to lift.
    return (
        Order.RELEASE
        if is_users_hold(job.reason) and orders.is_held_by_mirage(tx, cluster_id, job)
        else None
    )


def _has_enough_tries(tx: Transaction, cluster_id: int, job: Job, order: Order, now: int) -> bool:
    outcomes = orders.list_outcomes(tx, cluster_id, job.job_id, order, since=now - ASK_AGAIN_S)
    return OrderOutcome.REFUSED in outcomes or len(outcomes) >= MOST_TRIES


def _execute_task(store: Store, cluster: Cluster, cluster_id: int, task: _Task) -> bool:
    """Carry out the task and record its outcome. Return False if Slurm did not answer.

    A hold is recorded before Slurm gets it, so that Mirage always knows which holds it may lift.
    If Slurm refuses the hold, the record is corrected here; if Slurm never got it, at the next look
    (`sync_links`).
    """
    commands: dict[Order, Callable[..., None]] = {
        Order.HOLD: cluster.hold_job,
        Order.RELEASE: cluster.release_job,
        Order.CANCEL: cluster.cancel_job,
    }
    if task.order is Order.HOLD:
        _record_outcome(store, cluster, cluster_id, task, OrderOutcome.TOLD)
    try:
        commands[task.order](task.job.job_id, owner=task.chain.uid)
    except JobChanged as error:
        _record_outcome(store, cluster, cluster_id, task, OrderOutcome.OVERTAKEN, str(error))
    except ClusterRefused as error:
        _record_outcome(store, cluster, cluster_id, task, OrderOutcome.REFUSED, str(error))
    except ClusterUnavailable as error:
        # Slurm may have got the command all the same: the next look at the queue shows it.
        _log.warning(
            "Slurm did not answer an order for a job; Mirage tries again at the next tick",
            order=task.order.value,
            error=str(error),
        )
        return False
    else:
        if task.order is not Order.HOLD:
            _record_outcome(store, cluster, cluster_id, task, OrderOutcome.TOLD)
    return True


def _record_outcome(
    store: Store,
    cluster: Cluster,
    cluster_id: int,
    task: _Task,
    outcome: OrderOutcome,
    error: str = "",
) -> None:
    now, order, job = cluster.read_clock(), task.order, task.job
    entry = AuditEntry(
        at=now,
        actor="mirage",
        event=order.format_event(outcome),
        chain_id=task.chain.chain_id,
        job_id=job.job_id,
        detail={"note": describe_chain(task.chain), "error": error},
    )
    with store.begin() as tx:
        audit.write_entry(tx, cluster_id, entry)
        orders.record_order(tx, cluster_id, job.job_id, order, outcome, now)
        if (order, outcome) in _HOLDS_AFTER:
            held_at = now if _HOLDS_AFTER[order, outcome] else None
            orders.record_hold(tx, cluster_id, job, held_at)
