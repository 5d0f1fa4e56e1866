"""Keeps what Slurm says about permissions: roster, PrivateData, and whose jobs Mirage may move."""

import os
import pwd
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import structlog

from mirage.domain.callers.caller import EVERYTHING, JOBS
from mirage.domain.callers.move_scope import EVERYBODY, UNKNOWN, MoveScope
from mirage.domain.ports import Cluster
from mirage.errors import MirageError
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.polled_value import PolledValue
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.commands.accrual_limits import NO_LIMITS, AccrueLimits
from mirage.slurm.commands.sacctmgr import NO_ROSTER, Roster

_log = structlog.get_logger(__name__)


def _get_unknown_reach() -> MoveScope:
    return UNKNOWN


def _get_no_limits() -> AccrueLimits:
    return NO_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPermissions:
    """Slurm's permissions, each as a function that returns the last known answer at once."""

    roster: Callable[[], Roster] = lambda: NO_ROSTER
    """Operators and coordinators; empty while Slurm's answer is not known."""
    hidden: Callable[[], frozenset[str]]
    """What users may not see of each other; everything while Slurm's answer is not known."""
    partial: Callable[[], bool]
    """Whether PrivateData hides other users' jobs from this service, so that its queue has gaps."""
    reach: Callable[[], MoveScope] = _get_unknown_reach
    """Whose jobs this service may move."""
    accrual: Callable[[], AccrueLimits] = _get_no_limits
    """Limits on how many waiting jobs earn age; no limits while Slurm's answer is not known."""
    polled: tuple[PolledValue[Any], ...] = ()
    """The values that a thread has to ask Slurm for (`polled_value.poll_until_stopped`)."""


@dataclass(frozen=True, slots=True)
class _SlurmConf:
    """The settings of slurm.conf that say what is private and who may do everything."""

    private: frozenset[str]
    master: str
    """SlurmUser, who may do everything."""


def build_permissions(
    cluster: Cluster, hide: Collection[str], every_s: float, acts_as: Callable[[], str] | None
) -> SlurmPermissions:
    """Return the permissions of this cluster; Slurm is not asked yet.

    `hide` has the words that the site adds to PrivateData, and `every_s` is the seconds between
    two questions. `acts_as` returns the user whose token slurmrestd gets; None means the user who
    runs this process.
    """
    commands = cluster.commands if isinstance(cluster, Slurmrestd) else cluster
    always_hidden = frozenset(hide)
    if not isinstance(commands, SlurmCli):
        is_blind = isinstance(cluster, Slurmrestd)
        return SlurmPermissions(
            hidden=lambda: EVERYTHING if is_blind else always_hidden, partial=lambda: is_blind
        )

    def fetch_config() -> _SlurmConf:
        site = commands.fetch_site_config()
        return _SlurmConf(site.private_data, site.slurm_user)

    roster = PolledValue("roster", commands.fetch_roster, default=NO_ROSTER, every_s=every_s)
    slurm_conf = PolledValue(
        "PrivateData", fetch_config, default=_SlurmConf(EVERYTHING, ""), every_s=every_s
    )
    accrual = PolledValue(
        "limits on earning age", commands.fetch_accrue_limits, default=NO_LIMITS, every_s=every_s
    )
    own_name = pwd.getpwuid(uid := os.geteuid()).pw_name
    return SlurmPermissions(
        roster=roster,
        hidden=lambda: always_hidden | slurm_conf().private,
        partial=lambda: (
            uid != 0 and JOBS in slurm_conf().private and own_name not in roster().operators
        ),
        reach=ReachReporter(
            lambda: compute_reach(
                _get_acting_user(acts_as) or own_name, roster(), slurm_conf().master
            )
        ),
        accrual=accrual,
        polled=(slurm_conf, roster, accrual),
    )


def compute_reach(user: str, roster: Roster, master: str = "") -> MoveScope:
    """Return whose jobs `user` may move; UNKNOWN while Slurm's roster is not known."""
    if user in {"root", master} or user in roster.operators:
        return EVERYBODY
    if roster is NO_ROSTER:
        return UNKNOWN
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        uid = None
    return MoveScope(accounts=roster.coordinated.get(user, frozenset()), uid=uid)


def _get_acting_user(acts_as: Callable[[], str] | None) -> str:
    """Return the user whose token slurmrestd gets; empty if that is not known."""
    try:
        return "" if acts_as is None else acts_as()
    except MirageError:
        return ""


class ReachReporter:
    """Logs whose jobs Mirage may move, if that has changed. `mirage serve` logs it at the start."""

    def __init__(self, ask: Callable[[], MoveScope]) -> None:
        self._ask = ask
        self._last_reach: MoveScope | None = None

    def __call__(self) -> MoveScope:
        reach = self._ask()
        if self._last_reach is not None and reach != self._last_reach:
            _log_reach(reach)
        self._last_reach = reach
        return reach


def _log_reach(reach: MoveScope) -> None:
    if reach.everybody:
        _log.info("may move", jobs=reach.describe_scope())
    elif reach.accounts:
        _log.info("may move", jobs=reach.describe_scope(), others="are left to plain Slurm")
    else:
        _log.warning("may move", jobs=reach.describe_scope(), others="are left to plain Slurm")
