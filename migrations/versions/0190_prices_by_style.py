"""chains: the price that a user gave, and what a price that is worked out comes from.

A price other than the default of until now was given by the chain's user. So was the default where
a job of the chain names the option, in its submit line or in its comment. Where no stored job names
it, a price of 0.5 that the user gave cannot be told from the default: it counts as the default, and
a switch chain then gets the price of its style.
"""

import re

import sqlalchemy as sa
from alembic import op

revision = "0190"
down_revision = "0180"

_DEFAULT = 0.5
_OPTION = re.compile(r"(?:^|\s)[\"']?--mirage-overlap-price[= ]\d")
"""In a submit line."""
_SETTING = re.compile(r"(?:^|\s)mirage:(?:[a-z-]+(?:=[^\s,]*)?,)*overlap-price=\d")
"""In a comment: mirage:chain=4,overlap-price=0.5."""
_chains = sa.table("chains", *map(sa.column, ("chain_id", "overlap_price", "asked_price")))
_JOB_KEY = ("cluster_id", "job_id", "submit")
_links = sa.table("links", *map(sa.column, ("chain_id", *_JOB_KEY)))
_jobs = sa.table("jobs", *map(sa.column, (*_JOB_KEY, "submit_line", "comment")))


def upgrade() -> None:
    op.add_column("chains", sa.Column("asked_price", sa.Float()))
    op.add_column("chains", sa.Column("start_up_s", sa.BigInteger()))
    op.add_column("chains", sa.Column("missed_s", sa.BigInteger()))
    asked = _chains.update().values(asked_price=_chains.c.overlap_price)
    op.execute(asked.where(_chains.c.overlap_price != _DEFAULT))
    for chain_id in _list_chains_whose_jobs_name_it():
        op.execute(asked.where(_chains.c.chain_id == chain_id))


def _list_chains_whose_jobs_name_it() -> set[str]:
    """List the chains of which a job names the option. An equal option of the user's own script, or
    equal words in the user's own part of a comment, do not count."""
    of_chain = sa.and_(*(_links.c[name] == _jobs.c[name] for name in _JOB_KEY))
    texts = (_jobs.c.submit_line, _jobs.c.comment)
    query = (
        sa.select(_links.c.chain_id, *texts)
        .join_from(_links, _jobs, of_chain)
        .where(sa.or_(*(text.contains("overlap-price") for text in texts)))
    )
    return {
        chain_id
        for chain_id, line, comment in op.get_bind().execute(query)
        if _OPTION.search(line or "") or _SETTING.search(comment or "")
    }
