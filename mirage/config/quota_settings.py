"""Two tables of the configuration: what one user may cost the others, and how long is kept what."""

from typing import Annotated

from pydantic import Field

from mirage.config.schema import Section

_Days = Annotated[int, Field(ge=1, le=36525)]


class QuotaSettings(Section):
    """Limits what one user may cost the others (docs/admin/identity.md)."""

    writes_burst: int = Field(200, ge=1)
    """Changes that one user may make at once through the API and the pages. A script that submits
    chains in a loop is held up earlier: at 100 of which Slurm has shown no job yet. Admins and
    `polling.pushers` have no such bound."""
    writes_per_minute: int = Field(20, ge=1)
    """Changes that one user may make in a minute once those are used up; beyond: 429, and when to
    ask again."""
    registrations_per_day: int = Field(1000, ge=1)
    """Chains of one user that are registered or found in 24 hours; those beyond are not registered,
    run as Slurm has them, and are found by their mark."""
    exports: int = Field(4, ge=2)
    """Lists that are written as files at once; one user has at most half of them, and so have all
    who do not say who they are."""
    export_s: int = Field(900, ge=10, le=86400)
    """A file that has not been read to its end by then is broken off; seconds."""
    forecasts_per_minute: int = Field(60, ge=1)
    """Forecasts that one user may look at in a minute; all of one address who do not say who they
    are five times as many."""
    forecasts_asked: int = Field(16, ge=1)
    """Jobs that one user may have the twin asked about in 30 minutes; all together 64."""


class RetentionSettings(Section):
    """Sets how long data that grows without end is kept.

    The worker deletes older data each hour.
    """

    audit_days: _Days = 180
    """Rows of the audit that tell of a chain that is over: what its owner asked for, and what was
    done; days."""
    audit_admin_days: _Days = 1095
    """All other rows of the audit: what admins did, tokens and sessions, refusals, marks on others'
    jobs; days, at least `audit_days`."""
    empty_chains_days: _Days = 7
    """Chains that are over and of which Slurm has never shown a job; days."""
