"""notices."""

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0050"


def upgrade() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "notices",
        sa.Column("id", serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("sent_at", sa.BigInteger()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_notices_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
    )
    op.create_index("ix_notices_cluster_id_state", "notices", ["cluster_id", "state", "due_at"])
    op.create_index("ix_notices_cluster_id_sent_at", "notices", ["cluster_id", "sent_at"])
    op.create_table(
        "situations",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("at_risk", sa.Text(), nullable=False),
        sa.Column("interrupted", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_situations_chain_id"),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_situations_cluster_id"),
        sa.PrimaryKeyConstraint("chain_id", name="pk_situations"),
    )
