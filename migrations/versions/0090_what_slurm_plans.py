"""links: the start that Slurm plans."""

import sqlalchemy as sa
from alembic import op

revision = "0090"
down_revision = "0070"


def upgrade() -> None:
    op.add_column("links", sa.Column("planned_start", sa.BigInteger()))
