"""Two tables of the configuration: the limits of one user, and how long data is kept."""

from typing import Annotated

from pydantic import Field

from mirage.config.schema import Section

_Days = Annotated[int, Field(ge=1, le=36525)]


class QuotaSettings(Section):
    """Limits what one user may cost the others (docs/admin/identity.md)."""

    writes_burst: int = Field(200, ge=1)
    """The changes that one user may make at once through the API and the pages. A script that
    submits chains in a loop stops earlier, at 100 chains of which Slurm has shown no job yet.
    Admins and `polling.pushers` have no such bound."""
    writes_per_minute: int = Field(20, ge=1)
    """The changes that one user may make in a minute after the burst. Further changes get 429, with
    the time to try again."""
    registrations_per_day: int = Field(1000, ge=1)
    """The chains of one user that are registered or found in 24 hours. Further chains are not
    registered and run as plain Slurm chains; Mirage finds them by their mark later."""
    exports: int = Field(4, ge=2)
    """The files of lists written at once. One user has at most half of them, and so have all
    callers without a credential together."""
    export_s: int = Field(900, ge=10, le=86400)
    """The longest time to read a file to its end; then the service cuts the file off; seconds."""
    forecasts_per_minute: int = Field(60, ge=1)
    """The forecasts that one user may look at in a minute. The callers of one address without a
    credential have five times as many together."""
    forecasts_asked: int = Field(16, ge=1)
    """The jobs about which one user may have the twin asked in 30 minutes; all users together:
    64."""


class RetentionSettings(Section):
    """Sets how long data that grows without end is kept.

    The worker deletes older data each hour.
    """

    audit_days: _Days = 180
    """How long the audit keeps rows about a chain after the chain is over: the owner's requests and
    the actions; days."""
    audit_admin_days: _Days = 1095
    """How long the audit keeps all other rows: admins' actions, tokens and sessions, refusals,
    marks on others' jobs; days, at least `audit_days`."""
    empty_chains_days: _Days = 7
    """How long Mirage keeps finished chains of which Slurm has never shown a job; days."""
