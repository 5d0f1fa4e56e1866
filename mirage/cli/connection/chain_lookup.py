"""Finds the chain that a user means: by its id, the id's first letters, or its running job.

Without any of these the user's own chain is meant.
"""

import os
import pwd
from collections.abc import Iterable, Mapping
from typing import Any

from mirage.cli.connection.service_client import ServiceClient
from mirage.errors import InputError

_SEARCH_LIMIT = 10_000
"""The number of chains that are searched."""
_FULL_ID_LENGTH = 20
"""The length of an id by the wrapped sbatch. An id of this length needs no search."""
_MAX_NAMED = 5
_ENDED_STATES = {"finished", "cancelled", "failed"}

_Row = Mapping[str, Any]


def get_own_name() -> str:
    """Return Slurm's name for the user who runs this command."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise InputError(
            f"this host knows no user with uid {os.geteuid()}: give --user NAME"
        ) from None


def resolve_chain_id(service: ServiceClient, words: str) -> str:
    """Return the id of the one chain that `words` means. Raises InputError for none or several."""
    if not words.isascii() or not words.isalnum():  # nothing that would be another address
        raise InputError(f"{words!r} is not a chain's id: `mirage chain list` shows the ids")
    if len(words) >= _FULL_ID_LENGTH:
        return words
    rows = list(service.iter_items("/chains", _SEARCH_LIMIT))
    if any(row["chain_id"] == words for row in rows):
        return words
    matches = [row for row in rows if words.isdigit() and int(words) in row["running"]]
    matches = matches or [row for row in rows if row["chain_id"].startswith(words)]
    if len(matches) > 1:
        raise InputError(
            f"the ids of {len(matches)} chains begin with {words}: {_format_ids(matches)}"
        )
    if not matches:
        raise InputError(f"there is no chain {words}: `mirage chain list` shows the chains")
    return str(matches[0]["chain_id"])


def pick_newest_chain(service: ServiceClient) -> str:
    """Return the user's one active or paused chain, else the newest one that is over.

    Raises InputError if the user has several active or paused chains, or no chain.
    """
    rows = list(service.iter_items("/chains", _SEARCH_LIMIT, user=get_own_name()))
    live = [row for row in rows if row["state"] not in _ENDED_STATES]
    if len(live) > 1:
        raise InputError(
            f"you have {len(live)} chains: name the one you mean, of {_format_ids(live)}"
        )
    if not rows:
        raise InputError(
            "you have no chain on this cluster: `mirage chain list` shows the chains of others"
        )
    return str((live or rows)[0]["chain_id"])


def _format_ids(rows: Iterable[_Row]) -> str:
    ids = [row["chain_id"] for row in rows]
    return ", ".join(ids[:_MAX_NAMED]) + ", ..." * (len(ids) > _MAX_NAMED)
