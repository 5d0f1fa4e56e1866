"""Find the chain that a user means: by its id, the id's first letters, or its running job.

Without any of these the user's own chain is meant.
"""

import os
import pwd

from mirage_slurm.client.rest import BadInput

_SEARCH_LIMIT = 10000
"""The number of chains that are searched."""
_FULL_ID_LENGTH = 20
"""The length of an id by the wrapped sbatch. An id of this length needs no search."""
_MAX_NAMED = 5
_ENDED_STATES = ("finished", "cancelled", "failed")
_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def get_own_name():
    """Return Slurm's name for the user who runs this command."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise BadInput(
            "this host knows no user with uid %d: give --user NAME" % (os.geteuid(),)
        ) from None


def resolve_chain_id(client, words):
    """Return the id of the one chain that `words` means. Raises BadInput for none or several."""
    check_words(words)
    if len(words) >= _FULL_ID_LENGTH:
        return words
    return choose_chain(list(client.iter_items("/chains", _SEARCH_LIMIT)), words)


def check_words(words):
    """Raise BadInput for what is no chain's id: nothing may be another address or another path."""
    if not words or not _ALPHANUMERIC.issuperset(words):
        raise BadInput("%r is not a chain's id: `mirage chain list` shows the ids" % (words,))


def choose_chain(rows, words):
    """Return the id of the one chain of `rows` that `words` means. Raises BadInput."""
    if any(row["chain_id"] == words for row in rows):
        return words
    matches = [row for row in rows if words.isdigit() and int(words) in row["running"]]
    matches = matches or [row for row in rows if row["chain_id"].startswith(words)]
    if len(matches) > 1:
        raise BadInput(
            "the ids of %d chains begin with %s: %s" % (len(matches), words, _format_ids(matches))
        )
    if not matches:
        raise BadInput("there is no chain %s: `mirage chain list` shows the chains" % (words,))
    return _read_id(matches[0])


def pick_newest_chain(client):
    """Return the user's one active or paused chain, else the newest one that is over.

    Raises BadInput if the user has several active or paused chains, or no chain.
    """
    return pick_chain(list(client.iter_items("/chains", _SEARCH_LIMIT, user=get_own_name())))


def pick_chain(rows):
    """Return the same as pick_newest_chain, of the user's chains, the newest first."""
    live = [row for row in rows if row["state"] not in _ENDED_STATES]
    if len(live) > 1:
        raise BadInput(
            "you have %d chains: name the one you mean, of %s" % (len(live), _format_ids(live))
        )
    if not rows:
        raise BadInput(
            "you have no chain on this cluster: `mirage chain list` shows the chains of others"
        )
    return _read_id((live or rows)[0])


def _read_id(row):
    """Return the id of a row. Over plain http a stranger may have answered, and the id becomes a part of
    a request that carries the user's credential. Raises BadInput."""
    chain_id = str(row["chain_id"])
    check_words(chain_id)
    return chain_id


def _format_ids(rows):
    ids = [row["chain_id"] for row in rows]
    return ", ".join(ids[:_MAX_NAMED]) + (", ..." if len(ids) > _MAX_NAMED else "")
