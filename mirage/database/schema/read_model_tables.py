"""Tables of sums and forecasts that the worker keeps for pages and REST.

No decision reads them. The tables on which Mirage acts are in tables.py.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
)

from mirage.database.schema.tables import make_cluster_column, metadata

# Sums of waits and of the queue that the worker makes for pages (docs/concepts/forecast.md).

wait_sums = Table(
    "wait_sums",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("span_s", BigInteger, primary_key=True),  # an hour or a day
    Column("at", BigInteger, primary_key=True),  # its beginning
    Column("partitions", JSON, nullable=False),
    Column("cells", LargeBinary, nullable=False),  # mirage/database/jobs/wait_sums.py
)

# Hours whose jobs have changed since they were summed.
wait_marks = Table(
    "wait_marks",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("at", BigInteger, primary_key=True),
)

queue_now = Table(
    "queue_now",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("queue", JSON, nullable=False),
    Column("nodes_at", BigInteger),
    Column("nodes", JSON),
    Column("plans", JSON),  # by job, the start that Slurm plans
)

# Forecasts, made by the worker, of the wait of a job of some shape if it was submitted now.
shapes = Table(
    "shapes",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("partition", Text, primary_key=True),
    Column("nodes", BigInteger, primary_key=True),
    Column("time_limit_s", BigInteger, primary_key=True),
    Column("gpus", BigInteger, primary_key=True),  # over all nodes; 0: whole nodes
    Column("account", Text, primary_key=True),  # "": nobody's in particular
    Column("usual", BigInteger, nullable=False),  # jobs of it lately; 0: somebody asked
    Column("asked_at", BigInteger, nullable=False),  # 0: nobody asked
    Column("asked_by", BigInteger),  # a uid
    Column("at", BigInteger),  # when the forecast was made; NULL: there is none yet
    Column("p10_s", Float),
    Column("p50_s", Float),
    Column("p90_s", Float),
    Column("samples", BigInteger),
    Column("refused", Text, nullable=False),
)

# Forecasts that the users of jobs would have got when they submitted them.
shape_trials = Table(
    "shape_trials",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("job_id", BigInteger, primary_key=True),
    Column("submit", BigInteger, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("p10_s", Float, nullable=False),
    Column("p50_s", Float, nullable=False),
    Column("p90_s", Float, nullable=False),
    Index(None, "cluster_id", "at"),
)

# The accuracy of these forecasts, by source.
shape_quality = Table(
    "shape_quality",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("found", JSON, nullable=False),
)

# The last report of a kind; an older one is of no use to anybody.
reports = Table(
    "reports",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("document", JSON, nullable=False),
)

# The forecast of a job's wait, made at its submission and kept until the wait is known.
foretold = Table(
    "foretold",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("job_id", BigInteger, primary_key=True),
    Column("submit", BigInteger, primary_key=True),
    Column("partition", Text, nullable=False),
    Column("quantiles_s", JSON, nullable=False),
    Column("slurm_wait_s", BigInteger),  # by Slurm's own plan at the same look
    Index(None, "cluster_id", "submit"),
)

accuracy_days = Table(
    "accuracy_days",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("day", BigInteger, primary_key=True),  # its first second, of submission, UTC
    Column("partition", Text, primary_key=True),
    Column("tally", JSON, nullable=False),
)

# When each simple rule, and Mirage where it does not act, would free a standby.
would_free = Table(
    "would_free",
    metadata,
    Column("chain_id", Text, ForeignKey("chains.chain_id"), primary_key=True),
    Column("index", BigInteger, primary_key=True),
    Column("policy", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
)

# One row a complete hand-over; interruption and overlap as they were.
outcomes = Table(
    "outcomes",
    metadata,
    make_cluster_column(),
    Column("chain_id", Text, ForeignKey("chains.chain_id"), primary_key=True),
    Column("index", BigInteger, primary_key=True),  # the successor's
    Column("at", BigInteger, nullable=False),
    Column("partition", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("nodes", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("interruption_s", BigInteger, nullable=False),
    Column("overlap_s", BigInteger, nullable=False),
    Column("while_away", Boolean, nullable=False),  # Slurm released it, and Mirage was away
    Column("returns", BigInteger, nullable=False),  # jobs of the successor that gave nodes back
    Column("returned_s", BigInteger, nullable=False),  # for which they held them: part of overlap_s
    Column("returns_saved_s", BigInteger, nullable=False),  # for which it held no idle nodes
    Index(None, "cluster_id", "at"),
)

# The same hand-overs as they would have been under each policy; no row where nobody can tell.
policy_outcomes = Table(
    "policy_outcomes",
    metadata,
    Column("chain_id", Text, primary_key=True),
    Column("index", BigInteger, primary_key=True),
    Column("policy", Text, primary_key=True),
    Column("interruption_s", BigInteger, nullable=False),
    Column("overlap_s", BigInteger, nullable=False),
    ForeignKeyConstraint(["chain_id", "index"], ["outcomes.chain_id", "outcomes.index"]),
)
