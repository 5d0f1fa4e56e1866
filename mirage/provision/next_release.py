"""Tells the running link of a chain with standbys which lead to plan for its next link.

The link asks as it starts, before its standby stands, and again before it plans anew. Nothing is
asked of Slurm, of the twin or of a model, for the link waits two seconds. A rule says from stored
data when the release would be. The service's next ticks move the plan if their policy knows better
(`services.provision.release_planning`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirage.chains.open_handovers import OpenHandover
from mirage.database.chains import chains
from mirage.database.jobs import job_history, queue_summary
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import (
    Chain,
    ChainMode,
    ChainState,
    Link,
    LinkState,
    Planner,
    Position,
    Presubmit,
)
from mirage.domain.decision import RECENT_HANDOVERS, RECENT_JOBS, Action, Mode, PolicyView
from mirage.domain.job import JobId
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.policies.rules.lead_rules import Average, FixedLead, Quantile, Reactive
from mirage.provision.chain_price import price_chain
from mirage.provision.control.limits import Limits
from mirage.provision.overlap_budget import read_overlap_budget
from mirage.provision.release_planning import Planning, compute_floor_reached_at
from mirage.provision.return_costs import count_returns_left
from mirage.slurm.text.wait_explanations import waits_for_nodes

_THIRD = 3
"""A link asks again after 1/_THIRD of its remaining time, and so plans anew at most twice."""
_LATEST_S = 6 * 3600
_NEW_S = 600
"""An older look at the queue says nothing of who waits now."""
_RULES: dict[str, Policy] = {rule.name: rule for rule in (Average(), FixedLead(), Reactive())}
"""The policies that need stored waits only. `_INSTEAD` decides for the others: they take longer."""
_INSTEAD = Quantile()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRelease:
    """The answer to a link: the mode, the lead to plan, and the seconds until it asks again.

    `lead_s` counts before the asking link's end by its time limit; None if nothing is to be
    planned.
    """

    mode: Mode
    lead_s: int | None = None
    ask_again_s: int


def plan_next_release(  # noqa: PLR0913 - what is asked, and by what rules
    tx: Transaction,
    cluster_id: int,
    chain: Chain,
    *,
    index: int | None,
    default: str,
    limits: Limits,
    now: int,
    tick_s: int,
    partial: bool = False,
) -> NextRelease:
    """Return which lead the running link is to plan for its successor.

    `index` is the asking link's; None means the newest link that runs. `default` is the policy of
    chains that name none. `tick_s` is the seconds between two looks at the queue.
    `partial` says that PrivateData hides jobs from the service.
    """
    links = chains.list_links(tx, cluster_id, chain.chain_id)
    asks = _find_asking_link(links, index, now)
    modes = read_modes(tx, cluster_id)
    partition, nodes = (asks.partition, asks.nodes) if asks else ("", 0)
    mode = modes.get_chain_mode(chain, partition, nodes)
    if asks is None or asks.start is None:
        return NextRelease(mode=mode, ask_again_s=tick_s)
    limit_s = asks.time_limit_s
    if mode is not Mode.ACT or limit_s in {None, UNLIMITED} or not _can_plan(chain, asks, links):
        return NextRelease(mode=mode, ask_again_s=_LATEST_S)
    end = asks.get_planned_end() or now
    again_s = max(tick_s, min(_LATEST_S, (end - now) // _THIRD))
    standby = next((li for li in links if li.index == asks.index + 1 and not li.has_vanished), None)
    if standby is not None:
        return NextRelease(
            mode=mode, lead_s=_get_standing_lead_s(standby, end), ask_again_s=again_s
        )
    view = _build_view(tx, cluster_id, chain, links, asks, now)
    view = replace(
        view, nobody_waits=chain.asks_to_end and not partial and _is_idle(tx, cluster_id, asks, now)
    )
    policy = _RULES.get(chain.policy or default, _INSTEAD)
    following = _build_next_link(asks)
    budget = read_overlap_budget(tx, cluster_id, now, limits)
    spent = budget.sum_with_plans(asks.account, chain.uid, following)
    planning = Planning(standby=following, limits=limits, spent=spent)
    waits = replace(policy.decide(view), action=Action.WAIT)
    planned = planning.plan_release(waits, view)
    lead_s = None
    if planned.action is Action.PLAN and planned.release_at is not None:
        lead_s = end - planned.release_at
    return NextRelease(mode=mode, lead_s=lead_s, ask_again_s=again_s)


def _find_asking_link(links: Sequence[Link], index: int | None, now: int) -> Link | None:
    """The link that runs and asks; where the last look at the queue does not show that it runs, it
    has just begun. One that no look has shown is like the one before it."""
    if index is None:
        return next((li for li in reversed(links) if li.state is LinkState.RUNNING), None)
    known = [link for link in links if link.index <= index]
    if not known:
        return None
    last = known[-1]
    if last.index < index:
        return replace(last, index=index, start=now, expected_end=None, position=Position.FREE)
    if last.state is LinkState.ENDED:
        return None
    return last if last.state is LinkState.RUNNING else replace(last, start=now)


def _can_plan(chain: Chain, asks: Link, links: Sequence[Link]) -> bool:
    if chain.state is not ChainState.ACTIVE or chain.mode is not ChainMode.STANDBY:
        return False
    if chain.presubmit is Presubmit.ALL:  # its standby stands already, and is the service's
        return False
    if chain.links_planned is not None and asks.index >= chain.links_planned:
        return False
    return _has_started_alone(asks) or not any(
        li.state is LinkState.RUNNING and li.index < asks.index for li in links
    )


def _has_started_alone(asks: Link) -> bool:
    """Return whether the link started only since its predecessor had ended, or has none.

    Nothing had released such a link, whether or not a look has shown that end.
    """
    return asks.index == 1 or (asks.position is Position.HELD and asks.planned_release is None)


def _get_standing_lead_s(standby: Link, end: int) -> int | None:
    """Return the lead of the standby's plan; None if it is the owner's, or past."""
    at = standby.planned_release
    if standby.position is not Position.HELD or standby.planned_by is Planner.USER or at is None:
        return None
    return max(0, end - at) or None


def _build_next_link(asks: Link) -> Link:
    return Link(
        chain_id=asks.chain_id,
        index=asks.index + 1,
        job_id=JobId(0),
        submit=0,
        partition=asks.partition,
        account=asks.account,
        nodes=asks.nodes,
        time_limit_s=asks.time_limit_s,
    )


def _is_idle(tx: Transaction, cluster_id: int, asks: Link, now: int) -> bool:
    """Return whether the last look, a new one, shows no job that waits for nodes beside the link.

    A partition that has only ended jobs is in no sum.
    """
    summary = queue_summary.find_summary(tx, cluster_id)
    if summary is None or now - summary.at > _NEW_S:
        return False
    sums = next((row for row in summary.queue if row.partition == asks.partition), None)
    return sums is None or not any(map(waits_for_nodes, sums.reasons))


def _build_view(
    tx: Transaction, cluster_id: int, chain: Chain, links: Sequence[Link], asks: Link, now: int
) -> PolicyView:
    partition = asks.partition
    jobs = job_history.read_waits(tx, cluster_id, partition, before=now, last=RECENT_JOBS)
    priced = price_chain(chain, links, jobs, asks)
    return PolicyView(
        now=now,
        predecessor_end=asks.get_planned_end() or now,
        predecessor_start=asks.start,
        partition=partition,
        nodes=asks.nodes,
        time_limit_s=asks.time_limit_s or 0,
        overlap_price=priced.overlap_price,
        jobs=jobs,
        handovers=chains.read_handover_waits(
            tx, cluster_id, partition, nodes=asks.nodes, last=RECENT_HANDOVERS
        ),
        queue=Queue.from_jobs(now, []),
        free_nodes=0,
        max_overlap_s=chain.get_allowed_overlap_s(asks),
        floor_reached_at=compute_floor_reached_at(priced, asks),
        returns=count_returns_left(OpenHandover(chain, asks, _build_next_link(asks))),
    )
