"""Tells which link of a sequential chain may run its script.

No link runs a line of its script before its predecessor has ended. The wait until then does not
count as the script's time. The links follow the same rule in mirage_slurm/carrier/turn.sh.
"""

from collections.abc import Iterable

from mirage.domain.chain import Chain, Link, LinkState, Style


def compute_script_starts(chain: Chain, links: Iterable[Link]) -> dict[int, int]:
    """Compute when each link's script began, by index.

    Links that have run no line of their script are left out. A successor may begin earlier than
    computed if its predecessor gave up its lease: only files show that, not Slurm.
    """
    starts: dict[int, int] = {}
    predecessor: Link | None = None
    for link in sorted(links, key=lambda link: link.index):
        start = _compute_script_start(
            link, predecessor if chain.style is Style.SEQUENTIAL else None
        )
        if start is not None:
            starts[link.index], predecessor = start, link
    return starts


def _compute_script_start(link: Link, predecessor: Link | None) -> int | None:
    if link.start is None or predecessor is None:
        return link.start
    if predecessor.state is LinkState.RUNNING:
        return None
    if predecessor.end is None:  # requeued: its successor takes over from it
        return link.start
    if link.end is not None and link.end <= predecessor.end:
        return None
    return max(link.start, predecessor.end)


def has_waited_in_vain(chain: Chain, link: Link, links: Iterable[Link]) -> bool:
    """Return whether the link ended without running its script, though it had its nodes already."""
    has_run = link.state is LinkState.ENDED and link.start is not None
    return has_run and link.index not in compute_script_starts(chain, links)


def find_awaited_links(chain: Chain, links: Iterable[Link]) -> dict[int, Link]:
    """Find the running link that each waiting link waits for, by the waiting link's index."""
    links = list(links)
    starts = compute_script_starts(chain, links)
    awaited: dict[int, Link] = {}
    for link in links:
        is_waiting = link.state is LinkState.RUNNING and link.index not in starts
        earlier = [other for other in links if other.index < link.index and other.index in starts]
        if is_waiting and earlier:
            awaited[link.index] = earlier[-1]
    return awaited
