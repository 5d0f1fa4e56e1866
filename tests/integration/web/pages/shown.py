"""Every page there is: what is held against all pages is held against each of these."""

from dataclasses import dataclass

from tests.support.web.seeded_chain import chain_id


@dataclass(frozen=True, slots=True)
class Shown:
    name: str
    path: str
    who: str = ""
    """Seen logged in as this user (root or alice); empty: by somebody unknown."""
    needs_chain: bool = False
    """Not there in an empty database."""


PAGES = (
    Shown("now", "/"),
    Shown("now-admin", "/", who="root"),
    Shown("login", "/login"),
    Shown("admin", "/admin", who="root"),
    Shown("admin-kill", "/admin/kill", who="root"),
    Shown("admin-audit", "/admin/audit", who="root"),
    Shown("chain", f"/chains/{chain_id(0)}", needs_chain=True),
    Shown("chain-owner", f"/chains/{chain_id(0)}", who="alice", needs_chain=True),
    Shown("accuracy", "/accuracy"),
    Shown("impact", "/impact"),
    Shown("queue", "/queue?to=gpu&nodes=4&time=2-0"),
    Shown("queue-alice", "/queue?over=2d&partition=gpu&to=gpu&nodes=x", who="alice"),
)
