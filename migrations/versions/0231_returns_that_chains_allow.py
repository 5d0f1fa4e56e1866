"""chains: how often an early link may give its nodes back. Of chains of before nobody has said."""

import sqlalchemy as sa
from alembic import op

revision = "0231"
down_revision = "0230"


def upgrade() -> None:
    op.add_column("chains", sa.Column("max_returns", sa.BigInteger()))
