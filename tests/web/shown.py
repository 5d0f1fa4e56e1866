"""Every page there is: what is held against all pages is held against each of these."""

from dataclasses import dataclass


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
    Shown("queue", "/queue?to=gpu&nodes=4&time=2-0"),
    Shown("queue-alice", "/queue?over=7d&partition=gpu&to=gpu&nodes=x", who="alice"),
)
