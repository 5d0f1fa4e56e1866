"""The tables, with named constraints. Instants are epoch seconds (docs/decisions/0002, 0003)."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA = "0030"
"""The revision this program was made for: the newest file in migrations/versions."""

VERSION_TABLE = "schema_version"

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite counts up by itself only in a column of type INTEGER.
_Serial = BigInteger().with_variant(Integer(), "sqlite")


def _cluster() -> Column[int]:
    return Column("cluster_id", BigInteger, ForeignKey("clusters.id"), nullable=False)


clusters = Table(
    "clusters",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("name", Text, nullable=False),
    Column("history_until", BigInteger),  # accounting has been read up to here
    Column("pushed_at", BigInteger),  # when slurmctld last told of an end
    Column("pushed_link_at", BigInteger),  # the same, of a link
    Column("push_missed_at", BigInteger),  # when the queue told first of a link's end
    UniqueConstraint("name"),
)

partition_modes = Table(
    "partition_modes",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("partition", Text, primary_key=True),  # "" is the cluster itself
    Column("mode", Text, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("job_id", BigInteger, primary_key=True),
    Column("submit", BigInteger, primary_key=True),
    Column("state", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("uid", BigInteger),
    Column("account", Text, nullable=False),
    Column("partition", Text, nullable=False),
    Column("qos", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("priority", BigInteger),
    Column("eligible", BigInteger),
    Column("start", BigInteger),
    Column("end", BigInteger),
    Column("time_limit_s", BigInteger),
    Column("nodes", BigInteger, nullable=False),
    Column("cpus", BigInteger, nullable=False),
    Column("gpus", BigInteger, nullable=False),
    Column("exit_code", Text, nullable=False),
    Column("dependency", Text, nullable=False),
    Column("node_list", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("array", Boolean, nullable=False),
    Column("submit_line", Text, nullable=False),
    Index(None, "cluster_id", "partition", "start"),
    Index(None, "cluster_id", "start"),
    Index(None, "cluster_id", "end"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", _Serial, primary_key=True),
    _cluster(),
    Column("taken_at", BigInteger, nullable=False),
    Column("features", JSON, nullable=False),
    Column("queue", LargeBinary),  # NULL once thinned
    Column("nodes", LargeBinary),
    UniqueConstraint("cluster_id", "taken_at"),
)

chains = Table(
    "chains",
    metadata,
    Column("chain_id", Text, primary_key=True),
    _cluster(),
    Column("uid", BigInteger, nullable=False),
    Column("user", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("links_planned", BigInteger),
    Column("policy", Text),
    Column("overlap_price", Float, nullable=False),
    Column("total_s", BigInteger),
    Column("max_overlap_s", BigInteger, nullable=False),
    Column("presubmit", Text, nullable=False),
    Column("style", Text),
    Column("mode", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
    Column("at_risk", Text, nullable=False),
    Index(None, "cluster_id", "state"),
    Index(None, "created_at", "chain_id"),
)

links = Table(
    "links",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("chain_id", Text, ForeignKey("chains.chain_id"), nullable=False),
    Column("index", BigInteger, nullable=False),
    _cluster(),
    Column("job_id", BigInteger, nullable=False),
    Column("submit", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("position", Text, nullable=False),
    Column("partition", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("nodes", BigInteger, nullable=False),
    Column("time_limit_s", BigInteger),
    Column("eligible", BigInteger),
    Column("freed_at", BigInteger),
    Column("start", BigInteger),
    Column("end", BigInteger),
    Column("end_state", Text),
    Column("seen_at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("hindered", Text, nullable=False),
    Column("pushed_at", BigInteger),  # when slurmctld told of its end
    UniqueConstraint("chain_id", "index"),
    UniqueConstraint("cluster_id", "job_id", "submit"),
    Index(None, "cluster_id", "start"),
    Index(None, "cluster_id", "state"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", _Serial, primary_key=True),
    _cluster(),
    Column("chain_id", Text, ForeignKey("chains.chain_id"), nullable=False),
    Column("index", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("repeats", BigInteger, nullable=False),
    Column("mode", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("time_left_s", BigInteger),
    Column("p10_s", Float),
    Column("p50_s", Float),
    Column("p90_s", Float),
    Column("samples", BigInteger, nullable=False),
    Column("effect", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("inputs", JSON, nullable=False),
    Index(None, "chain_id", "index", "id"),
    Index(None, "cluster_id", "effect"),
)

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", _Serial, primary_key=True),
    _cluster(),
    Column("chain_id", Text, ForeignKey("chains.chain_id"), nullable=False),
    Column("index", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("p10_s", Float),
    Column("p50_s", Float, nullable=False),
    Column("p90_s", Float),
    Column("samples", BigInteger, nullable=False),
    Column("actual_wait_s", BigInteger),
    UniqueConstraint("chain_id", "index", "source"),
    Index(None, "cluster_id", "at"),
)

# No foreign keys to chains and jobs: the audit outlives what it tells of.
audit = Table(
    "audit",
    metadata,
    Column("id", _Serial, primary_key=True),
    _cluster(),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("chain_id", Text),
    Column("job_id", BigInteger),
    Column("detail", JSON, nullable=False),
    Index(None, "chain_id"),
    Index(None, "cluster_id", "at"),
)

leases = Table(
    "leases",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)

# Of the secret itself only a hash is kept: whoever reads this table can use no token.
tokens = Table(
    "tokens",
    metadata,
    Column("token_id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("user", Text, nullable=False),  # "": of no user of the cluster
    Column("uid", BigInteger, nullable=False),
    Column("cluster_id", BigInteger, ForeignKey("clusters.id")),  # NULL: of every cluster
    Column("read_only", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)

# Of a browser that has shown a token; again only a hash of what its cookie holds.
sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("token_id", Text, ForeignKey("tokens.token_id"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("uid", BigInteger, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index(None, "at"),
)

# What has changed, in the order of its commits: `seq` counts without a gap (store/changes.py).
changes = Table(
    "changes",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("chain_ids", JSON, nullable=False),  # null: of many
)

change_counts = Table(
    "change_counts",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("newest", BigInteger, nullable=False),
)

# What pages show of waits and of the queue, summed up by the worker (docs/forecast.md).

wait_sums = Table(
    "wait_sums",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("span_s", BigInteger, primary_key=True),  # an hour or a day
    Column("at", BigInteger, primary_key=True),  # its beginning
    Column("partitions", JSON, nullable=False),
    Column("cells", LargeBinary, nullable=False),  # mirage/store/wait_sums.py
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
)

# What a job of some shape would wait if submitted now, foretold by the worker.
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
    Column("at", BigInteger),  # NULL: not foretold yet
    Column("p10_s", Float),
    Column("p50_s", Float),
    Column("p90_s", Float),
    Column("samples", BigInteger),
    Column("refused", Text, nullable=False),
)

# What the users of jobs would have been told as they submitted them.
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

# And how near that came, of each source.
shape_quality = Table(
    "shape_quality",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("found", JSON, nullable=False),
)
