"""slurm_calls: rows of the answers that did not read."""

import sqlalchemy as sa
from alembic import op

revision = "0160"
down_revision = "0150"


def upgrade() -> None:
    op.add_column(
        "slurm_calls", sa.Column("unread", sa.BigInteger(), nullable=False, server_default="0")
    )
    with op.batch_alter_table("slurm_calls") as batch:
        batch.alter_column("unread", server_default=None)
