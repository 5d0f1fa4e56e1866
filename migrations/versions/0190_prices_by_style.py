"""chains: the price that a user gave, and what a price that is worked out comes from.

A price other than the default of until now was given by the chain's user. So was the default where
a job of the chain names the option, in its submit line or in its comment. Where no stored job names
it, a price of 0.5 that the user gave cannot be told from the default: it counts as the default, and
a switch chain then gets the price of its style.
"""

import sqlalchemy as sa
from alembic import op

revision = "0190"
down_revision = "0180"
branch_labels = None
depends_on = None

_DEFAULT = 0.5
_chains = sa.table("chains", *map(sa.column, ("chain_id", "overlap_price", "asked_price")))
_JOB_KEY = ("cluster_id", "job_id", "submit")
_links = sa.table("links", *map(sa.column, ("chain_id", *_JOB_KEY)))
_jobs = sa.table("jobs", *map(sa.column, (*_JOB_KEY, "submit_line", "comment")))


def upgrade() -> None:
    op.add_column("chains", sa.Column("asked_price", sa.Float()))
    op.add_column("chains", sa.Column("start_up_s", sa.BigInteger()))
    op.add_column("chains", sa.Column("missed_s", sa.BigInteger()))
    given = _chains.c.overlap_price != _DEFAULT
    named = sa.or_(_named(_jobs.c.submit_line), _named(_jobs.c.comment))
    of_chain = sa.and_(*(_links.c[name] == _jobs.c[name] for name in _JOB_KEY))
    asking = sa.select(_links.c.chain_id).join_from(_links, _jobs, of_chain).where(named).distinct()
    wanted = sa.or_(given, _chains.c.chain_id.in_(asking))
    op.execute(_chains.update().where(wanted).values(asked_price=_chains.c.overlap_price))


def _named(text: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether the text names the option, as chain_settings.py reads it: --mirage-overlap-price=0.5,
    or the comment mirage:overlap-price=0.5."""
    return sa.and_(text.contains("mirage"), text.contains("overlap-price="))


def downgrade() -> None:
    with op.batch_alter_table("chains") as batch:
        for name in ("missed_s", "start_up_s", "asked_price"):
            batch.drop_column(name)
