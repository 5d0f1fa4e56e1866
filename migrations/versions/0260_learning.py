"""learning_runs, challenges: runs of learning, and the models that stood for promotion."""

import sqlalchemy as sa
from alembic import op

revision = "0260"
down_revision = "0250"


def upgrade() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "learning_runs",
        sa.Column("id", serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("begun_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_learning_runs_cluster_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_learning_runs"),
    )
    op.create_index("ix_learning_runs_cluster_id_id", "learning_runs", ["cluster_id", "id"])
    op.create_table(
        "challenges",
        sa.Column("id", serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("champion", sa.Text()),
        sa.Column("proposed_at", sa.BigInteger(), nullable=False),
        sa.Column("judged_at", sa.BigInteger()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("intended", sa.Text()),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_challenges_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_challenges"),
    )
    op.create_index("ix_challenges_cluster_id_id", "challenges", ["cluster_id", "id"])
    stands = sa.text("state IN ('shadow', 'proposed')")
    op.create_index(
        "uq_challenges_standing",
        "challenges",
        ["cluster_id"],
        unique=True,
        sqlite_where=stands,
        postgresql_where=stands,
    )
