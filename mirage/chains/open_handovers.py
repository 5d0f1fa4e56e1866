"""Lists the hand-overs that are under way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirage.database.chains import chains
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, ChainMode, ChainState, Link, LinkState, Planner, Position
from mirage.domain.handover import list_handovers
from mirage.domain.job import JobId


@dataclass(frozen=True, slots=True)
class OpenHandover:
    """A link with its successor, which waits in the queue or is still to be submitted."""

    chain: Chain
    predecessor: Link
    standby: Link
    earlier_link: Link | None = None
    """A link before the predecessor that still runs: the hand-over before this one is not over."""
    submits: bool = False
    """Whether `standby` is no job yet, but describes the job that would be submitted."""

    def get_stated_overlap_s(self) -> int:
        """Return how many seconds before its end the running link plans the standby's release.

        The plan states the overlap that the user allows in a chain that is not registered: the link
        knows its user's settings, and the service would assume that the chain never overlaps. 0 if
        the service knows the settings, or if the link has written no plan.
        """
        is_known = (
            self.chain.is_registered or self.chain.get_allowed_overlap_s(self.predecessor) > 0
        )
        end, release = self.predecessor.get_planned_end(), self.standby.planned_release
        has_own_plan = self.standby.planned_by is Planner.LINK
        if is_known or not has_own_plan or end is None or release is None:
            return 0
        return max(0, end - release)


def list_open_handovers(
    tx: Transaction, cluster_id: int, *states: ChainState
) -> Iterator[OpenHandover]:
    """Yield the hand-overs of chains in these states whose successor waits or is to be submitted.

    Those of chains in the first state come first.
    """
    live = [c for c in chains.list_live_chains(tx, cluster_id) if c.state in states]
    live.sort(key=lambda chain: states.index(chain.state))
    by_chain = chains.list_links_by_chain(tx, cluster_id, [c.chain_id for c in live])
    for chain in live:
        yield from list_chain_handovers(chain, by_chain[chain.chain_id])


def list_chain_handovers(chain: Chain, links: Sequence[Link]) -> Iterator[OpenHandover]:
    """Yield the hand-overs of one chain; `links` are sorted by index."""
    yield from _list_queued_handovers(chain, links)
    unsubmitted = find_unsubmitted(chain, links)
    if unsubmitted is not None:
        yield unsubmitted


def _list_queued_handovers(chain: Chain, links: Sequence[Link]) -> Iterator[OpenHandover]:
    """Yield the hand-overs whose successor waits in the queue."""
    for predecessor, standby in list_handovers(links):
        if standby.state is LinkState.PENDING:
            yield OpenHandover(
                chain, predecessor, standby, _find_earlier_running(predecessor, links)
            )


def find_unsubmitted(chain: Chain, links: Sequence[Link]) -> OpenHandover | None:
    """Return the hand-over of a chain of mode submit; None if nothing is to be submitted.

    The hand-over joins the chain's running link and the link that is to follow it.
    """
    started = [link for link in links if link.start is not None]
    if chain.mode is not ChainMode.SUBMIT or not started:
        return None
    newest = started[-1]
    is_last = chain.links_planned is not None and newest.index >= chain.links_planned
    has_successor = any(link.index > newest.index and not link.has_vanished for link in links)
    if newest.state is not LinkState.RUNNING or is_last or has_successor:
        return None
    successor = Link(
        chain_id=chain.chain_id,
        index=newest.index + 1,
        job_id=JobId(0),
        submit=0,
        position=Position.HELD,
        partition=newest.partition,
        account=newest.account,
        nodes=newest.nodes,
        time_limit_s=newest.time_limit_s,
    )
    return OpenHandover(
        chain, newest, successor, _find_earlier_running(newest, links), submits=True
    )


def _find_earlier_running(predecessor: Link, links: Sequence[Link]) -> Link | None:
    running = (li for li in links if li.state is LinkState.RUNNING)
    return next((li for li in running if li.index < predecessor.index), None)
