"""Tables of the notices that people get about chains; the other tables are in `tables`."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Table, Text

from mirage.store.database.tables import SERIAL, make_cluster_column, metadata

# What is to be told of a chain, a row for each channel; no foreign key: it outlives the chain.
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

# How each chain stood when notices were last written.
situations = Table(
    "situations",
    metadata,
    Column("chain_id", Text, ForeignKey("chains.chain_id"), primary_key=True),
    make_cluster_column(),
    Column("state", Text, nullable=False),
    Column("at_risk", Text, nullable=False),
    Column("interrupted", Boolean, nullable=False),
)
