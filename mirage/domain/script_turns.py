"""Tells whose turn it is in a sequential chain.

No link runs a line of its script before the link before it has ended. The wait until then is none
of the script's time. The links' own side of this rule is slurm_plugin/carrier_turn.sh.
"""

from collections.abc import Iterable

from mirage.domain.chain import Chain, Link, LinkState, Style


def compute_script_starts(chain: Chain, links: Iterable[Link]) -> dict[int, int]:
    """Compute when each link's script began, by index.

    Links that have run no line of their script are left out. A predecessor that let go of its lease
    lets its successor begin earlier: that stands in files alone, and Slurm does not show it.
    """
    starts: dict[int, int] = {}
    before: Link | None = None
    for link in sorted(links, key=lambda link: link.index):
        at = _compute_script_start(link, before if chain.style is Style.SEQUENTIAL else None)
        if at is not None:
            starts[link.index], before = at, link
    return starts


def _compute_script_start(link: Link, before: Link | None) -> int | None:
    if link.start is None or before is None:
        return link.start
    if before.state is LinkState.RUNNING:
        return None
    if before.end is None:  # requeued: its successor takes over from it
        return link.start
    if link.end is not None and link.end <= before.end:
        return None
    return max(link.start, before.end)


def has_waited_in_vain(chain: Chain, link: Link, links: Iterable[Link]) -> bool:
    """Return whether the link ended without running its script, though it had its nodes already."""
    ended = link.state is LinkState.ENDED and link.start is not None
    return ended and link.index not in compute_script_starts(chain, links)


def find_awaited_links(chain: Chain, links: Iterable[Link]) -> dict[int, Link]:
    """Find the running link that each waiting link waits for, by the waiting link's index."""
    links = list(links)
    starts = compute_script_starts(chain, links)
    found: dict[int, Link] = {}
    for link in links:
        waits = link.state is LinkState.RUNNING and link.index not in starts
        before = [other for other in links if other.index < link.index and other.index in starts]
        if waits and before:
            found[link.index] = before[-1]
    return found
