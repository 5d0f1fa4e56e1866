"""changes."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("chain_ids", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_changes_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "seq", name="pk_changes"),
    )
    op.create_table(
        "change_counts",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_change_counts_cluster_id"
        ),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_change_counts"),
    )
