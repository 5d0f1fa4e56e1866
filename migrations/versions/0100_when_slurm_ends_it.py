"""links: the end that Slurm has in store for a running one."""

import sqlalchemy as sa
from alembic import op

revision = "0100"
down_revision = "0090"


def upgrade() -> None:
    op.add_column("links", sa.Column("expected_end", sa.BigInteger()))
