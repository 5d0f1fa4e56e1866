"""what the admin sees."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0040"


def _clusters(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=f"fk_{table}_cluster_id")


def upgrade() -> None:
    op.create_table(
        "kill_switches",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("pulled_by", sa.Text(), nullable=False),
        sa.Column("pulled_at", sa.BigInteger(), nullable=False),
        sa.Column("stopped", sa.JSON(), nullable=False),
        _clusters("kill_switches"),
        sa.PrimaryKeyConstraint("cluster_id", "way", name="pk_kill_switches"),
    )
    op.create_table(
        "limits",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        _clusters("limits"),
        sa.PrimaryKeyConstraint("cluster_id", "name", name="pk_limits"),
    )
    op.create_table(
        "slurm_calls",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        _clusters("slurm_calls"),
        sa.PrimaryKeyConstraint("cluster_id", "hour", "command", name="pk_slurm_calls"),
    )
    op.create_table(
        "ticks",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("took_s", sa.Float(), nullable=False),
        sa.Column("good_at", sa.BigInteger()),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        _clusters("ticks"),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_ticks"),
    )
    for column in ("actor", "event"):
        op.create_index(f"ix_audit_cluster_id_{column}_id", "audit", ["cluster_id", column, "id"])
