"""Turns rows of the store into the API's answers."""

from collections.abc import Iterator, Sequence

from mirage.chains import explanations, link_risks, overlap_price
from mirage.chains.expected_start import ExpectedStart
from mirage.database.chains.chains import HandoverRow
from mirage.database.operations.modes_in_force import ModesInForce
from mirage.domain import script_turns
from mirage.domain.chain import Chain, Link, LinkState
from mirage.domain.handover import Handover, list_handovers
from mirage.domain.timelimit import UNLIMITED
from mirage.web.api.schemas import chain_schemas
from mirage.web.api.schemas.handover_schemas import HandoverItem
from mirage.web.shared.dependencies import Freshness, to_instant, to_optional_instant


def serialize_chain_summary(
    chain: Chain, links: Sequence[Link], modes: ModesInForce
) -> chain_schemas.ChainSummary:
    outcomes = [pair.over for pair in list_handovers(links) if pair.over is not None]
    return chain_schemas.ChainSummary(
        chain_id=chain.chain_id,
        user=chain.user,
        uid=chain.uid,
        state=chain.state,
        note=explanations.describe_chain(chain),
        actor=chain.actor,
        reason=chain.cause.reason if chain.cause else None,
        links_planned=chain.links_planned,
        links_started=sum(link.start is not None for link in links),
        running=[link.job_id for link in links if link.state is LinkState.RUNNING],
        policy=chain.policy,
        overlap_price=chain.overlap_price,
        overlap_price_why=overlap_price.describe_price(chain),
        total_s=chain.total_s,
        max_overlap_s=chain.get_allowed_overlap_s(links[-1] if links else None),
        presubmit=chain.presubmit,
        style=chain.style,
        mode=chain.mode,
        service_mode=modes.get_shown_mode(chain, links),
        at_risk=serialize_risk(chain),
        created_at=to_instant(chain.created_at),
        handovers_done=len(outcomes),
        interruption_h=sum(h.interruption_h for h in outcomes),
        overlap_h=sum(h.overlap_h for h in outcomes),
        returns=sum(link.returns for link in links),
    )


def serialize_risk(chain: Chain) -> chain_schemas.AtRisk | None:
    if not chain.at_risk:
        return None
    return chain_schemas.AtRisk(
        reason=chain.at_risk.word,
        says=explanations.explain_risk(chain.at_risk),
        advice=link_risks.get_advice(chain.at_risk.word),
    )


def serialize_chain(
    chain: Chain,
    links: Sequence[Link],
    freshness: Freshness,
    modes: ModesInForce,
    expected_start: ExpectedStart | None,
    max_returns: int,
) -> chain_schemas.ChainView:
    """`max_returns`: the admins' bound."""
    summary = serialize_chain_summary(chain, links, modes)
    return chain_schemas.ChainView(
        **summary.model_dump(),
        max_returns=chain.count_allowed_returns(max_returns),
        links=list(serialize_links(chain, links)),
        handovers=[
            _serialize_handover(pair.successor.index, pair.over, chain)
            for pair in list_handovers(links)
            if pair.over is not None
        ],
        expected_start=None
        if expected_start is None
        else _serialize_expected_start(expected_start),
        as_of=freshness.as_of,
        stale=freshness.stale,
    )


def _serialize_expected_start(start: ExpectedStart) -> chain_schemas.ExpectedStartView:
    return chain_schemas.ExpectedStartView(
        link=start.link,
        at=to_instant(start.p50),
        earliest=to_instant(start.p10),
        latest=to_instant(start.p90),
    )


def _serialize_handover(index: int, handover: Handover, chain: Chain) -> chain_schemas.HandoverView:
    return chain_schemas.HandoverView(
        link=index,
        predecessor_end=to_instant(handover.predecessor_end),
        successor_start=to_instant(handover.successor_start),
        interruption_h=handover.interruption_h,
        overlap_h=handover.overlap_h,
        cost_h=handover.compute_cost_h(chain.overlap_price),
    )


def serialize_handover_row(row: HandoverRow) -> HandoverItem:
    chain, predecessor, successor = row
    assert predecessor.end is not None and successor.start is not None  # noqa: S101, PT018 - complete ones
    outcome = Handover(predecessor.end, successor.start, successor.returned_s)
    view = _serialize_handover(successor.index, outcome, chain)
    return HandoverItem(
        **view.model_dump(),
        chain_id=chain.chain_id,
        user=chain.user,
        account=successor.account,
        partition=successor.partition,
        nodes=successor.nodes,
        predecessor=predecessor.job_id,
        successor=successor.job_id,
        position=successor.position,
        freed_at=to_optional_instant(successor.freed_at),
        freed_by=successor.freed_by,
        hindered=successor.hindered,
    )


def serialize_links(chain: Chain, links: Sequence[Link]) -> Iterator[chain_schemas.LinkView]:
    awaited = script_turns.find_awaited_links(chain, links)
    for link in links:
        yield _serialize_link(link, awaited.get(link.index))


def _serialize_link(link: Link, awaited: Link | None) -> chain_schemas.LinkView:
    return chain_schemas.LinkView(
        index=link.index,
        job_id=link.job_id,
        state=link.state,
        position=link.position,
        partition=link.partition,
        account=link.account,
        nodes=link.nodes,
        time_limit_s=chain_schemas.to_finite_limit(link.time_limit_s),
        unlimited=link.time_limit_s == UNLIMITED,
        submit=to_instant(link.submit),
        eligible=to_optional_instant(link.eligible),
        freed_at=to_optional_instant(link.freed_at),
        freed_by=link.freed_by,
        planned_release=to_optional_instant(link.get_standing_release()),
        planned_by=link.planned_by,
        start=to_optional_instant(link.start),
        end=to_optional_instant(link.end),
        end_state=link.end_state,
        reason=link.reason,
        hindered=link.hindered,
        returns=link.returns,
        returned_node_h=link.returned_node_h,
        planned_start=to_optional_instant(link.planned_start),
        waits_for=None if awaited is None else awaited.index,
    )
