"""waits in sums, the queue as it is now, forecasts of jobs that nobody has submitted yet."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0020"


def _cluster(table: str) -> tuple[sa.Column, sa.ForeignKeyConstraint]:
    return (
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f(f"fk_{table}_cluster_id")
        ),
    )


def upgrade() -> None:
    op.create_table(
        "wait_sums",
        *_cluster("wait_sums"),
        sa.Column("span_s", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.JSON(), nullable=False),
        sa.Column("cells", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "span_s", "at", name=op.f("pk_wait_sums")),
    )
    op.create_table(
        "wait_marks",
        *_cluster("wait_marks"),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "at", name=op.f("pk_wait_marks")),
    )
    op.create_table(
        "queue_now",
        *_cluster("queue_now"),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.JSON(), nullable=False),
        sa.Column("nodes_at", sa.BigInteger()),
        sa.Column("nodes", sa.JSON()),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_queue_now")),
    )
    _shapes()
    # The worker sums them up, the newest first.
    op.execute(
        "INSERT INTO wait_marks (cluster_id, at) "
        "SELECT DISTINCT cluster_id, start - start % 3600 FROM jobs WHERE start IS NOT NULL"
    )


def _shapes() -> None:
    op.create_table(
        "shapes",
        *_cluster("shapes"),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("time_limit_s", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("usual", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger()),
        sa.Column("p10_s", sa.Float()),
        sa.Column("p50_s", sa.Float()),
        sa.Column("p90_s", sa.Float()),
        sa.Column("samples", sa.BigInteger()),
        sa.Column("refused", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            *("cluster_id", "partition", "nodes", "time_limit_s", "gpus", "account"),
            name=op.f("pk_shapes"),
        ),
    )
    op.create_table(
        "shape_trials",
        *_cluster("shape_trials"),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("submit", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("p10_s", sa.Float(), nullable=False),
        sa.Column("p50_s", sa.Float(), nullable=False),
        sa.Column("p90_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "job_id", "submit", name=op.f("pk_shape_trials")),
    )
    op.create_index(op.f("ix_shape_trials_cluster_id_at"), "shape_trials", ["cluster_id", "at"])
    op.create_table(
        "shape_quality",
        *_cluster("shape_quality"),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "source", name=op.f("pk_shape_quality")),
    )
