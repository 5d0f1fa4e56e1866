"""links: the start that Slurm plans."""

import sqlalchemy as sa
from alembic import op

revision = "0090"
down_revision = "0070"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("links", sa.Column("planned_start", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("links") as batch:
        batch.drop_column("planned_start")
