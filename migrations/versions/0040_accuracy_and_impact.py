"""accuracy and impact: the last report, forecasts of jobs, outcomes of hand-overs."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0030"

_POLICIES = ("mirage", "reactive", "fixed_lead", "average", "slurm_estimate")


def upgrade() -> None:
    op.create_table(
        "reports",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_reports_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "kind", name="pk_reports"),
    )
    op.create_table(
        "foretold",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("submit", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("quantiles_s", sa.JSON(), nullable=False),
        sa.Column("slurm_wait_s", sa.BigInteger()),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_foretold_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "job_id", "submit", name="pk_foretold"),
    )
    op.create_index("ix_foretold_cluster_id_submit", "foretold", ["cluster_id", "submit"])
    op.create_table(
        "accuracy_days",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("tally", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name="fk_accuracy_days_cluster_id"
        ),
        sa.PrimaryKeyConstraint("cluster_id", "day", "partition", name="pk_accuracy_days"),
    )
    op.create_table(
        "would_free",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_would_free_chain_id"),
        sa.PrimaryKeyConstraint("chain_id", "index", "policy", name="pk_would_free"),
    )
    op.create_table(
        "outcomes",
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("interruption_s", sa.BigInteger(), nullable=False),
        sa.Column("overlap_s", sa.BigInteger(), nullable=False),
        *(
            sa.Column(f"{policy}_{figure}_s", sa.BigInteger())
            for policy in _POLICIES
            for figure in ("interruption", "overlap")
        ),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_outcomes_cluster_id"),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_outcomes_chain_id"),
        sa.PrimaryKeyConstraint("chain_id", "index", name="pk_outcomes"),
    )
    op.create_index("ix_outcomes_cluster_id_at", "outcomes", ["cluster_id", "at"])
