"""Builds the overview: chains by risk, the next hand-overs, and Mirage's next moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirage.chains import explanations, link_risks
from mirage.chains.open_handovers import OpenHandover, list_chain_handovers
from mirage.chains.start_range import StartRange, read_start_ranges
from mirage.database.chains import chain_ranking, chains, decisions
from mirage.database.chains.chain_ranking import AT_RISK, PAUSED, RankedChain, RankingFilter
from mirage.database.chains.decisions import DecisionRow
from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey
from mirage.domain.chain import Chain, ChainId, Link, LinkState

SOON = 12
"""The number of hand-overs that are shown as the next ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingHandover:
    """A hand-over under way, with the last decision about it."""

    handover: OpenHandover
    decision: DecisionRow | None
    start: StartRange | None
    """The range in which the standby may start; None without a forecast."""

    @property
    def ends(self) -> int | None:
        """Return when the predecessor ended, or ends at the latest; None if that is not known."""
        predecessor = self.handover.predecessor
        return predecessor.end if predecessor.end is not None else predecessor.get_planned_end()

    @property
    def planned(self) -> int | None:
        """Return the start that Slurm plans; None: it plans none, for example for a held job."""
        standby = self.handover.standby
        return standby.planned_start if standby.state is LinkState.PENDING else None

    @property
    def planned_release(self) -> int | None:
        """Return when a planned release makes the standby eligible; None: none does."""
        return self.handover.standby.get_standing_release()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """A live chain as a list of chains shows it."""

    place: RankedChain
    chain: Chain
    links: Sequence[Link]
    upcoming: UpcomingHandover | None
    """The chain's next hand-over; None: none is under way."""

    @property
    def started(self) -> int:
        """Return the number of links that have started."""
        return sum(link.start is not None for link in self.links)

    @property
    def runs(self) -> bool:
        return any(link.state is LinkState.RUNNING for link in self.links)

    @property
    def risk(self) -> str:
        """Return what the chain is at risk of, in words; empty if it is not at risk."""
        return explanations.explain_risk(self.chain.at_risk) if self.chain.at_risk else ""

    @property
    def why(self) -> str:
        """Return why the chain is in its state, in words; empty while it simply continues."""
        return explanations.explain_cause(self.chain)

    @property
    def advice(self) -> str:
        return link_risks.get_advice(self.chain.at_risk.word) if self.chain.at_risk else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    live: int
    """The number of chains that pass the filter and are not over."""
    at_risk: int
    paused: int
    soon: Sequence[UpcomingHandover]
    """The next hand-overs, soonest first, at most SOON; empty after the first page."""
    rows: Sequence[ChainRow]
    """Chains by risk. If another page follows, there is one row more than `limit`."""


def build_overview(
    tx: Transaction,
    cluster_id: int,
    ranking_filter: RankingFilter,
    *,
    after: RankedChain | None = None,
    limit: int,
) -> Overview:
    """Build one page of the overview. `after` is the last row of the page before."""
    count_by_rank = chain_ranking.count_by_rank(tx, cluster_id, ranking_filter)
    places = chain_ranking.list_by_risk(
        tx, cluster_id, ranking_filter, after=after, limit=limit + 1
    )
    soonest = (
        []
        if after
        else chain_ranking.list_soonest_ending(tx, cluster_id, ranking_filter, limit=SOON)
    )
    rows = _build_rows(
        tx, cluster_id, [*places, *(place for place in soonest if place not in places)]
    )
    soon = [rows[place.chain_id].upcoming for place in soonest]
    return Overview(
        live=sum(count_by_rank.values()),
        at_risk=count_by_rank.get(AT_RISK, 0),
        paused=count_by_rank.get(PAUSED, 0),
        soon=[upcoming for upcoming in soon if upcoming is not None],
        rows=[rows[place.chain_id] for place in places],
    )


def _build_rows(
    tx: Transaction, cluster_id: int, places: Sequence[RankedChain]
) -> dict[ChainId, ChainRow]:
    ids = [place.chain_id for place in places]
    by_id = chains.find_chains(tx, cluster_id, ids)
    links = chains.list_links_by_chain(tx, cluster_id, ids)
    handovers = {i: _find_next_handover(by_id[i], links[i]) for i in ids}
    keys = [(i, h.standby.index) for i, h in handovers.items() if h is not None]
    last = decisions.find_last_decisions(tx, cluster_id, keys)
    standbys = [h.standby for h in handovers.values() if h is not None]
    starts = read_start_ranges(tx, cluster_id, standbys)
    return {
        place.chain_id: ChainRow(
            place=place,
            chain=by_id[place.chain_id],
            links=links[place.chain_id],
            upcoming=_build_upcoming(handovers[place.chain_id], last, starts),
        )
        for place in places
    }


def _find_next_handover(chain: Chain, links: Sequence[Link]) -> OpenHandover | None:
    """Return the chain's first hand-over under way; None if there is none."""
    return next(list_chain_handovers(chain, links), None)


def _build_upcoming(
    handover: OpenHandover | None,
    last: Mapping[LinkKey, DecisionRow],
    starts: Mapping[LinkKey, StartRange],
) -> UpcomingHandover | None:
    if handover is None:
        return None
    key = (handover.chain.chain_id, handover.standby.index)
    return UpcomingHandover(handover=handover, decision=last.get(key), start=starts.get(key))
