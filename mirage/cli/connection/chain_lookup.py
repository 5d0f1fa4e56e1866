"""Finds the chain that a user means: by id, its first letters, its running job, or none."""

import os
import pwd
from collections.abc import Iterable, Mapping
from typing import Any

from mirage.cli.connection.service_client import ServiceClient
from mirage.errors import InputError

_MOST = 10_000
"""Chains that are looked through."""
_WHOLE = 20
"""Letters of an id that the wrapped sbatch makes: no look is needed for one."""
_SHOWN = 5
_OVER = {"finished", "cancelled", "failed"}

_Row = Mapping[str, Any]


def get_own_name() -> str:
    """Return Slurm's name for the user who runs this command."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise InputError(f"no user has the id {os.geteuid()} here: give --user") from None


def resolve_chain_id(service: ServiceClient, words: str) -> str:
    """The id of the one chain that `words` names. Raises InputError where that is not one."""
    if not words.isascii() or not words.isalnum():  # nothing that would be another address
        raise InputError(f"{words!r} is no chain: `mirage chain list` shows them")
    if len(words) >= _WHOLE:
        return words
    rows = list(service.iter_items("/chains", _MOST))
    if any(row["chain_id"] == words for row in rows):
        return words
    found = [row for row in rows if words.isdigit() and int(words) in row["running"]]
    found = found or [row for row in rows if row["chain_id"].startswith(words)]
    if len(found) > 1:
        raise InputError(f"{words} begins {len(found)} chains: {_format_ids(found)}")
    if not found:
        raise InputError(f"there is no chain {words}: `mirage chain list` shows them")
    return str(found[0]["chain_id"])


def pick_newest_chain(service: ServiceClient) -> str:
    """The chain that somebody who names none will have in mind; rather one that goes on."""
    rows = list(service.iter_items("/chains", _MOST, user=get_own_name()))
    live = [row for row in rows if row["state"] not in _OVER]
    if len(live) > 1:
        raise InputError(f"name one of your {len(live)} chains: {_format_ids(live)}")
    if not rows:
        raise InputError("you have no chain here: `mirage chain list` shows those of others")
    return str((live or rows)[0]["chain_id"])


def _format_ids(rows: Iterable[_Row]) -> str:
    ids = [row["chain_id"] for row in rows]
    return ", ".join(ids[:_SHOWN]) + ", ..." * (len(ids) > _SHOWN)
