"""Tables of learning: its runs, and the models that stood for promotion."""

from sqlalchemy import JSON, BigInteger, Column, Index, Table, Text

from mirage.database.schema.tables import SERIAL, make_cluster_column, metadata

learning_runs = Table(
    "learning_runs",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
    Column("begun_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),  # to learn
    Column("document", JSON, nullable=False),  # what came of it
    Index(None, "cluster_id", "id"),
)

challenges = Table(
    "challenges",
    metadata,
    Column("id", SERIAL, primary_key=True),
    make_cluster_column(),
    Column("model", Text, nullable=False),
    Column("champion", Text),  # in use when the challenge began; NULL: no model of this site
    Column("proposed_at", BigInteger, nullable=False),  # since when it decides in shadow
    Column("judged_at", BigInteger),
    Column("state", Text, nullable=False),
    Column("intended", Text),  # the state that is being brought about; NULL: none
    Column("decided_by", Text, nullable=False),  # "mirage", or the admin's name; "": nobody yet
    Column("evidence", JSON, nullable=False),
    Index(None, "cluster_id", "id"),
)

# At most one challenge of a cluster stands.
_stands = challenges.c.state.in_(("shadow", "proposed"))
Index(
    "uq_challenges_standing",
    challenges.c.cluster_id,
    unique=True,
    sqlite_where=_stands,
    postgresql_where=_stands,
)
