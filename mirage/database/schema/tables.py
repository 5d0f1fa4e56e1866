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
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA = "0260"
"""The revision that this program needs: the newest file in migrations/versions."""

VERSION_TABLE = "schema_version"

UNFINISHED = "unfinished copy"
"""In the place of the revision while `mirage db copy` fills a database. Every program refuses such
a database: those that do not know the words take them for a newer revision."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite counts up by itself only in a column of type INTEGER.
SERIAL = BigInteger().with_variant(Integer(), "sqlite")


def make_cluster_column() -> Column[int]:
    return Column("cluster_id", BigInteger, ForeignKey("clusters.id"), nullable=False)


clusters = Table(
    "clusters",
    metadata,
    Column("id", SERIAL, primary_key=True),
    Column("name", Text, nullable=False),
    Column("history_until", BigInteger),  # accounting has been read up to here
    Column("pushed_at", BigInteger),  # when slurmctld last pushed the end of a job
    Column("pushed_link_at", BigInteger),  # the same, of a link
    Column("push_missed_at", BigInteger),  # when the queue last showed a link's end before a push
    Column("node_asked_at", BigInteger),  # when a link on another host last asked
    Column("demoted_at", BigInteger),  # when wrong forecasts last took it from act to shadow
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
    Column("cancelled_at", BigInteger),  # it left the queue without having run
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
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
    Column("taken_at", BigInteger, nullable=False),
    Column("features", JSON, nullable=False),
    UniqueConstraint("cluster_id", "taken_at"),
)

chains = Table(
    "chains",
    metadata,
    Column("chain_id", Text, primary_key=True),
    make_cluster_column(),
    Column("uid", BigInteger, nullable=False),
    Column("user", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("links_planned", BigInteger),
    Column("policy", Text),
    Column("overlap_price", Float, nullable=False),
    Column("asked_price", Float),  # NULL: nobody gave a price (mirage/chains/overlap_price.py)
    Column("start_up_s", BigInteger),
    Column("missed_s", BigInteger),
    Column("total_s", BigInteger),
    Column("max_overlap_s", BigInteger),  # NULL: nobody gave one (Chain.get_allowed_overlap_s)
    Column("presubmit", Text, nullable=False),
    Column("style", Text),  # NULL: concurrent, of chains from before there was sequential
    Column("mode", Text, nullable=False),
    Column("min_runtime_s", BigInteger),  # NULL: ten minutes
    Column("max_returns", BigInteger),  # NULL: nobody gave one, and its links give nothing back
    Column("created_at", BigInteger, nullable=False),
    Column("actor", Text),  # who brought it into its state (chain_cause.py); NULL: it goes on
    Column("reason", Text),
    Column("asked_by", Text),
    Column("reason_link", BigInteger),
    Column("reason_job", BigInteger),
    Column("reason_detail", Text),
    Column("at_risk", Text, nullable=False),  # "": it is not
    Column("risk_link", BigInteger),
    Column("risk_job", BigInteger),
    Column("risk_detail", Text),
    Column("resumed_at", BigInteger),  # when somebody last asked to resume it
    Column("registered_job", BigInteger),  # the first link's, as its registrant gave it
    Index(None, "cluster_id", "state"),
    Index(None, "created_at", "chain_id"),
)

# Rows of earlier releases, whose service submitted links: not read, and pruned with the chain.
recipes = Table(
    "recipes",
    metadata,
    Column("chain_id", Text, ForeignKey("chains.chain_id"), primary_key=True),
    Column("uid", BigInteger, nullable=False),  # of the user who gave it
    Column("recipe", JSON, nullable=False),
)

links = Table(
    "links",
    metadata,
    Column("id", SERIAL, primary_key=True),
    Column("chain_id", Text, ForeignKey("chains.chain_id"), nullable=False),
    Column("index", BigInteger, nullable=False),
    make_cluster_column(),
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
    Column("freed_by", Text),
    Column("plan_min", BigInteger),  # its dependency's: minutes after its predecessor's start
    Column("planned_release", BigInteger),
    Column("planned_by", Text),
    Column("start", BigInteger),
    Column("end", BigInteger),
    Column("end_state", Text),
    Column("seen_at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("hindered", Text, nullable=False),
    Column("pushed_at", BigInteger),  # when slurmctld pushed its end
    Column("planned_start", BigInteger),  # by Slurm, while it waits
    Column("expected_end", BigInteger),  # by Slurm, while it runs
    Column("held_at", BigInteger),  # by Mirage, which may release that hold; NULL: it has none
    Column("replaced_at", BigInteger),  # when its job took the place of one that never ran
    Column("returns", BigInteger, nullable=False),  # jobs of it that gave their nodes back
    Column("returned_s", BigInteger, nullable=False),  # for which these jobs held the nodes
    Column("returned_at", BigInteger),  # when a job last gave them back
    Column("returned_left_s", BigInteger),  # its predecessor's time left at that instant
    Column("returned_wait_s", BigInteger),  # for which that job had waited
    UniqueConstraint("chain_id", "index"),
    UniqueConstraint("cluster_id", "job_id", "submit"),
    Index(None, "cluster_id", "start"),
    Index(None, "cluster_id", "returned_at"),
    Index(None, "cluster_id", "state", "chain_id"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
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
    Column("submitted_at", BigInteger),  # by the service of an earlier release
    Column("release_at", BigInteger),  # as its policy expects it, or as a plan has it
    Index(None, "chain_id", "index", "id"),
    Index(None, "cluster_id", "effect"),
)

# Moves that somebody ordered lately (mirage/database/chains/orders.py), so that none is sent again
# at every look.
orders = Table(
    "orders",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
    Column("job_id", BigInteger, nullable=False),
    Column("order", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index(None, "cluster_id", "job_id", "order", "at"),
    Index(None, "cluster_id", "at"),
)

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
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

# No foreign keys to chains and jobs: the audit outlives them.
audit = Table(
    "audit",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("chain_id", Text),
    Column("job_id", BigInteger),
    Column("detail", JSON, nullable=False),
    Index(None, "chain_id"),
    Index(None, "cluster_id", "at"),
    Index(None, "cluster_id", "actor", "id"),
    Index(None, "cluster_id", "event", "id"),
)

leases = Table(
    "leases",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)

# While a cluster has a row here, nothing acts, whatever its modes are
# (mirage/provision/control/kill_switch.py).
kill_switches = Table(
    "kill_switches",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("way", Text, primary_key=True),
    Column("pulled_by", Text, nullable=False),
    Column("pulled_at", BigInteger, nullable=False),
    Column("stopped", JSON, nullable=False),  # partitions that acted; "" is the cluster
)

# The limits that an admin has set, in place of the configuration's.
limits = Table(
    "limits",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Float, nullable=False),
    Column("set_by", Text, nullable=False),
    Column("set_at", BigInteger, nullable=False),
)

# The cost of Slurm calls by hour, so that every process can show it.
slurm_calls = Table(
    "slurm_calls",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("hour", BigInteger, primary_key=True),  # the instant it begins
    Column("command", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("unread", BigInteger, nullable=False),  # rows of the answers that were left out
)

# The last round of the worker.
ticks = Table(
    "ticks",
    metadata,
    Column("cluster_id", BigInteger, ForeignKey("clusters.id"), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("took_s", Float, nullable=False),
    Column("good_at", BigInteger),  # the last one without an error
    Column("holder", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("version", Text, nullable=False),
)

# Only a hash of the secret is kept: whoever reads this table can use no token.
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

# The sessions of browsers that have shown a token; again only a hash of the cookie's value.
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
    Column("at", BigInteger, nullable=False),
    Index(None, "at"),
)

# Changes in the order of their commits; `seq` counts without a gap
# (mirage/database/events/changes.py).
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


# Notices about chains, a row for each channel. No foreign key: a notice outlives its chain.
notices = Table(
    "notices",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
    Column("chain_id", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("says", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("tries", BigInteger, nullable=False),
    Column("sent_at", BigInteger),
    Column("error", Text, nullable=False),
    Index("ix_notices_cluster_id_state", "cluster_id", "state", "due_at"),
    Index("ix_notices_cluster_id_sent_at", "cluster_id", "sent_at"),
)

# The state of each chain when notices were last written.
situations = Table(
    "situations",
    metadata,
    Column("chain_id", Text, ForeignKey("chains.chain_id"), primary_key=True),
    make_cluster_column(),
    Column("state", Text, nullable=False),
    Column("at_risk", Text, nullable=False),
    Column("interrupted", Boolean, nullable=False),
)
