"""chains: the price that a user gave, and what a price that is worked out comes from.

A price other than the default of until now was given by the chain's user.
"""

import sqlalchemy as sa
from alembic import op

revision = "0190"
down_revision = "0180"
branch_labels = None
depends_on = None

_DEFAULT = 0.5
_chains = sa.table("chains", *map(sa.column, ("overlap_price", "asked_price")))


def upgrade() -> None:
    op.add_column("chains", sa.Column("asked_price", sa.Float()))
    op.add_column("chains", sa.Column("start_up_s", sa.BigInteger()))
    op.add_column("chains", sa.Column("missed_s", sa.BigInteger()))
    given = _chains.c.overlap_price != _DEFAULT
    op.execute(_chains.update().where(given).values(asked_price=_chains.c.overlap_price))


def downgrade() -> None:
    with op.batch_alter_table("chains") as batch:
        for name in ("missed_s", "start_up_s", "asked_price"):
            batch.drop_column(name)
