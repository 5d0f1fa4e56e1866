"""Tells the running link of a chain with standbys which lead to plan for its next link.

The link asks as it starts, before it submits its standby, and again before it plans anew. The link
waits for two seconds only, so neither Slurm nor the twin nor a model is asked. A rule computes the
release from stored data. The service's next ticks move the plan if their policy knows better
(`release_planning`).
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
"""The longest wait until a link asks again, in seconds."""
_FRESH_S = 600
"""Seconds after which a look at the queue no longer shows who waits now."""
_FAST_POLICIES: dict[str, Policy] = {
    rule.name: rule for rule in (Average(), FixedLead(), Reactive())
}
"""The policies that need stored waits only. `_SUBSTITUTE` decides for all others, which take
longer than a link waits."""
_SUBSTITUTE = Quantile()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRelease:
    """The answer to a link: the mode, the lead to plan, and the seconds until it asks again.

    `lead_s` counts before the asking link's end by its time limit; None if nothing is to be
    planned. `policy` is the rule that decided so: not the chain's own where that takes longer than
    a link waits; None if no rule was asked.
    """

    mode: Mode
    lead_s: int | None = None
    policy: str | None = None
    ask_again_s: int


def plan_next_release(  # noqa: PLR0913 - the question, and the limits that it is decided by
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
    asking_link = _find_asking_link(links, index, now)
    modes = read_modes(tx, cluster_id)
    partition, nodes = (asking_link.partition, asking_link.nodes) if asking_link else ("", 0)
    mode = modes.get_chain_mode(chain, partition, nodes)
    if asking_link is None or asking_link.start is None:
        return NextRelease(mode=mode, ask_again_s=tick_s)
    limit_s = asking_link.time_limit_s
    if (
        mode is not Mode.ACT
        or limit_s in {None, UNLIMITED}
        or not _can_plan(chain, asking_link, links)
    ):
        return NextRelease(mode=mode, ask_again_s=_LATEST_S)
    end = asking_link.get_planned_end() or now
    again_s = max(tick_s, min(_LATEST_S, (end - now) // _THIRD))
    standby = next(
        (li for li in links if li.index == asking_link.index + 1 and not li.has_vanished), None
    )
    if standby is not None:
        return NextRelease(
            mode=mode, lead_s=_get_standing_lead_s(standby, end), ask_again_s=again_s
        )
    view = _build_view(tx, cluster_id, chain, links, asking_link, now)
    next_link = _build_next_link(asking_link)
    view = replace(
        view,
        nobody_waits=chain.asks_to_end
        and not partial
        and _is_idle(tx, cluster_id, asking_link, now),
        returns=count_returns_left(OpenHandover(chain, asking_link, next_link), limits.max_returns),
    )
    policy = _FAST_POLICIES.get(chain.policy or default, _SUBSTITUTE)
    budget = read_overlap_budget(tx, cluster_id, now, limits)
    spent = budget.sum_with_plans(asking_link.account, chain.uid, next_link)
    planning = Planning(standby=next_link, limits=limits, spent=spent)
    # As a WAIT, whatever the policy decides: plan_release plans only for a standby that waits.
    wait = replace(policy.decide(view), action=Action.WAIT)
    decision = planning.plan_release(wait, view)
    lead_s = None
    if decision.action is Action.PLAN and decision.release_at is not None:
        lead_s = end - decision.release_at
    return NextRelease(mode=mode, lead_s=lead_s, policy=policy.name, ask_again_s=again_s)


def _find_asking_link(links: Sequence[Link], index: int | None, now: int) -> Link | None:
    """Return the link that asks, as it runs now; None if it is not known or has ended.

    If the last look at the queue does not show that the link runs, the link has just begun. A link
    that no look has shown is taken to be like the link before it.
    """
    if index is None:
        return next((li for li in reversed(links) if li.state is LinkState.RUNNING), None)
    candidates = [link for link in links if link.index <= index]
    if not candidates:
        return None
    last = candidates[-1]
    if last.index < index:
        return replace(last, index=index, start=now, expected_end=None, position=Position.FREE)
    if last.state is LinkState.ENDED:
        return None
    return last if last.state is LinkState.RUNNING else replace(last, start=now)


def _can_plan(chain: Chain, asking_link: Link, links: Sequence[Link]) -> bool:
    if chain.state is not ChainState.ACTIVE or chain.mode is not ChainMode.STANDBY:
        return False
    if chain.presubmit is Presubmit.ALL:  # the standby is queued already: the service moves it
        return False
    if chain.links_planned is not None and asking_link.index >= chain.links_planned:
        return False
    return _has_started_alone(asking_link) or not any(
        li.state is LinkState.RUNNING and li.index < asking_link.index for li in links
    )


def _has_started_alone(asking_link: Link) -> bool:
    """Return whether the link started after its predecessor's end, or has no predecessor.

    A link that was held and had no plan until it started was released by nothing else than that
    end, whether or not a look at the queue has shown the end.
    """
    return asking_link.index == 1 or (
        asking_link.position is Position.HELD and asking_link.planned_release is None
    )


def _get_standing_lead_s(standby: Link, end: int) -> int | None:
    """Return the lead of the standby's plan; None if it is the owner's, or past."""
    at = standby.planned_release
    if standby.position is not Position.HELD or standby.planned_by is Planner.USER or at is None:
        return None
    return max(0, end - at) or None


def _build_next_link(asking_link: Link) -> Link:
    return Link(
        chain_id=asking_link.chain_id,
        index=asking_link.index + 1,
        job_id=JobId(0),
        submit=0,
        partition=asking_link.partition,
        account=asking_link.account,
        nodes=asking_link.nodes,
        time_limit_s=asking_link.time_limit_s,
    )


def _is_idle(tx: Transaction, cluster_id: int, asking_link: Link, now: int) -> bool:
    """Return whether the last look, a new one, shows no job that waits for nodes beside the link.

    A partition that has only ended jobs is in no sum. A link that no look has shown to run may
    name several.
    """
    summary = queue_summary.find_summary(tx, cluster_id)
    if summary is None or now - summary.at > _FRESH_S:
        return False
    partitions = asking_link.partition.split(",")
    rows = [row for row in summary.queue if row.partition in partitions]
    return not any(waits_for_nodes(reason) for row in rows for reason in row.reasons)


def _build_view(
    tx: Transaction,
    cluster_id: int,
    chain: Chain,
    links: Sequence[Link],
    asking_link: Link,
    now: int,
) -> PolicyView:
    partition = asking_link.partition
    jobs = job_history.read_waits(tx, cluster_id, partition, before=now, last=RECENT_JOBS)
    priced = price_chain(chain, links, jobs, asking_link)
    return PolicyView(
        now=now,
        predecessor_end=asking_link.get_planned_end() or now,
        predecessor_start=asking_link.start,
        partition=partition,
        nodes=asking_link.nodes,
        time_limit_s=asking_link.time_limit_s or 0,
        overlap_price=priced.overlap_price,
        jobs=jobs,
        handovers=chains.read_handover_waits(
            tx, cluster_id, partition, nodes=asking_link.nodes, last=RECENT_HANDOVERS
        ),
        queue=Queue.from_jobs(now, []),
        free_nodes=0,
        max_overlap_s=chain.get_allowed_overlap_s(asking_link),
        floor_reached_at=compute_floor_reached_at(priced, asking_link),
    )
