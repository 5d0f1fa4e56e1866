"""browser sessions, and links by state."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.token_id"], name="fk_sessions_token_id"),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    columns = ["cluster_id", "state", "chain_id"]
    op.create_index("ix_links_cluster_id_state_chain_id", "links", columns)
