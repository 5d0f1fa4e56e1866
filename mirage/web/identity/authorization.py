"""Maps a caller to their role: configured admins, and Slurm's Operators and coordinators."""

import grp
import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirage.domain.callers.caller import NOBODY_UID, Caller, Principal, Role
from mirage.slurm.commands.sacctmgr import NO_ROSTER, Roster


def _get_no_roster() -> Roster:
    return NO_ROSTER


def _hide_nothing() -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorizer:
    """Resolves a caller's role from the configured admins and from Slurm's roster of users."""

    admins: Sequence[str] = ()
    """The names of users who are admins."""
    admin_groups: Sequence[str] = ()
    """The names of Unix groups whose members are admins."""
    roster: Callable[[], Roster] = _get_no_roster
    hidden: Callable[[], frozenset[str]] = _hide_nothing
    """What the site hides from users: the words of PrivateData, and those of the configuration."""

    def resolve_principal(self, caller: Caller | None) -> Principal:
        """Return what the caller may see and change; None is a caller without a credential."""
        hidden = self.hidden()
        if caller is None:
            return Principal(hidden=hidden)
        role, accounts = self._resolve_role(caller)
        if caller.role is not None:
            # The token's role limits its user's role. A token without a user has the token's role.
            is_nobody = caller.uid == NOBODY_UID
            role = caller.role if is_nobody else role.limit_to(caller.role)
        return Principal(
            uid=caller.uid,
            user=caller.user,
            role=role,
            accounts=accounts if role is Role.COORDINATOR else frozenset(),
            hidden=hidden,
        )

    def _resolve_role(self, caller: Caller) -> tuple[Role, frozenset[str]]:
        if caller.uid == NOBODY_UID:
            return Role.VIEWER, frozenset()
        if caller.user in self.admins or self._is_in_admin_group(caller.user):
            return Role.ADMIN, frozenset()
        roster = self.roster()
        if caller.user in roster.operators:
            return Role.ADMIN, frozenset()
        accounts = roster.coordinated.get(caller.user, frozenset())
        return (Role.COORDINATOR if accounts else Role.USER), accounts

    def _is_in_admin_group(self, user: str) -> bool:
        return bool(self.admin_groups) and not set(self.admin_groups).isdisjoint(_list_groups(user))


def _list_groups(user: str) -> list[str]:
    """List the names of the user's groups; none for a user whom this host does not know."""
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
        return [grp.getgrgid(number).gr_name for number in numbers]
    except KeyError:
        return []
