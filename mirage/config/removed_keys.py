"""The settings that earlier releases had and this one has not, with what to set instead.

A configuration that still sets one of them is refused, with the sentence below as the error. A
configuration that names the key without a value is accepted: it asks for the only behaviour left.
"""

from collections.abc import Mapping
from typing import Any

_LINKS_SUBMIT = (
    "the service no longer submits links: the running link submits the next one. Remove the key{}. "
    "Where nodes may not submit jobs, submit chains with --mirage-presubmit=all"
)

REMOVED_KEYS: Mapping[str, str] = {
    "submit.sudo": _LINKS_SUBMIT.format(
        ", and with it /etc/sudoers.d/mirage and the drop-in submit-by-sudo.conf of mirage.service"
    ),
    "cluster.rest_token_command": _LINKS_SUBMIT.format(", and with it the helper that it names"),
}
"""By key: what took its place, and what to do."""


def find_removed_key(key: str) -> str | None:
    """Return the removed key of that name, or in the table of that name; None: there is none."""
    return next((k for k in REMOVED_KEYS if k == key or k.startswith(f"{key}.")), None)


def drop_unset_keys(data: dict[str, Any]) -> tuple[str, ...]:
    """Take the removed keys without a value out of a configuration; return their names."""
    dropped = []
    for key in REMOVED_KEYS:
        table, _, name = key.rpartition(".")
        section = data.get(table)
        if isinstance(section, dict) and section.get(name) in ("", []):
            dropped.append(key)
            del section[name]
        if section == {}:
            del data[table]
    return tuple(dropped)
