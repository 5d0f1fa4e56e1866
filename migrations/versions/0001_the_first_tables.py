"""the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# SQLite counts up by itself only in a column of type INTEGER.
_Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", _Serial, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("history_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
        sa.UniqueConstraint("name", name="uq_clusters_name"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_at", "idempotency_keys", ["at"])

    op.create_table(
        "audit",
        sa.Column("id", _Serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text()),
        sa.Column("job_id", sa.BigInteger()),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_audit_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_chain_id", "audit", ["chain_id"])
    op.create_index("ix_audit_cluster_id_at", "audit", ["cluster_id", "at"])

    op.create_table(
        "chains",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("links_planned", sa.BigInteger()),
        sa.Column("policy", sa.Text()),
        sa.Column("overlap_price", sa.Float(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_chains_cluster_id"),
        sa.PrimaryKeyConstraint("chain_id", name="pk_chains"),
    )
    op.create_index("ix_chains_cluster_id_state", "chains", ["cluster_id", "state"])
    op.create_index("ix_chains_created_at_chain_id", "chains", ["created_at", "chain_id"])

    op.create_table(
        "jobs",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("submit", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger()),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("qos", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger()),
        sa.Column("eligible", sa.BigInteger()),
        sa.Column("start", sa.BigInteger()),
        sa.Column("end", sa.BigInteger()),
        sa.Column("time_limit_s", sa.BigInteger()),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.Text(), nullable=False),
        sa.Column("dependency", sa.Text(), nullable=False),
        sa.Column("node_list", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("array", sa.Boolean(), nullable=False),
        sa.Column("submit_line", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_jobs_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "job_id", "submit", name="pk_jobs"),
    )
    op.create_index("ix_jobs_cluster_id_end", "jobs", ["cluster_id", "end"])
    op.create_index(
        "ix_jobs_cluster_id_partition_start",
        "jobs",
        ["cluster_id", "partition", "start"],
    )
    op.create_index("ix_jobs_cluster_id_start", "jobs", ["cluster_id", "start"])
    op.create_table(
        "leases",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_leases_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_leases"),
    )
    op.create_table(
        "partition_modes",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_partition_modes_cluster_id"
        ),
        sa.PrimaryKeyConstraint("cluster_id", "partition", name="pk_partition_modes"),
    )
    op.create_table(
        "snapshots",
        sa.Column("id", _Serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("taken_at", sa.BigInteger(), nullable=False),
        sa.Column("features", sa.JSON(), nullable=False),
        sa.Column("queue", sa.LargeBinary()),
        sa.Column("nodes", sa.LargeBinary()),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_snapshots_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_snapshots"),
        sa.UniqueConstraint("cluster_id", "taken_at", name="uq_snapshots_cluster_id_taken_at"),
    )
    op.create_table(
        "decisions",
        sa.Column("id", _Serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("repeats", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("time_left_s", sa.BigInteger()),
        sa.Column("p10_s", sa.Float()),
        sa.Column("p50_s", sa.Float()),
        sa.Column("p90_s", sa.Float()),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_decisions_chain_id"),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_decisions_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_chain_id_index_id", "decisions", ["chain_id", "index", "id"])
    op.create_index("ix_decisions_cluster_id_effect", "decisions", ["cluster_id", "effect"])

    op.create_table(
        "forecasts",
        sa.Column("id", _Serial, nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("p10_s", sa.Float()),
        sa.Column("p50_s", sa.Float(), nullable=False),
        sa.Column("p90_s", sa.Float()),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("actual_wait_s", sa.BigInteger()),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_forecasts_chain_id"),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_forecasts_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_forecasts"),
        sa.UniqueConstraint(
            "chain_id", "index", "source", name="uq_forecasts_chain_id_index_source"
        ),
    )
    op.create_index("ix_forecasts_cluster_id_at", "forecasts", ["cluster_id", "at"])

    op.create_table(
        "links",
        sa.Column("id", _Serial, nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("submit", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("time_limit_s", sa.BigInteger()),
        sa.Column("eligible", sa.BigInteger()),
        sa.Column("freed_at", sa.BigInteger()),
        sa.Column("start", sa.BigInteger()),
        sa.Column("end", sa.BigInteger()),
        sa.Column("end_state", sa.Text()),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_links_chain_id"),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_links_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_links"),
        sa.UniqueConstraint("chain_id", "index", name="uq_links_chain_id_index"),
        sa.UniqueConstraint(
            "cluster_id", "job_id", "submit", name="uq_links_cluster_id_job_id_submit"
        ),
    )
    op.create_index("ix_links_cluster_id_start", "links", ["cluster_id", "start"])
