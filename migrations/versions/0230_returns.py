"""links, outcomes: the jobs of a link that gave their nodes back. Nobody did so before."""

import sqlalchemy as sa
from alembic import op

revision = "0230"
down_revision = "0220"

_COUNTS = ("returns", "returned_s")


def upgrade() -> None:
    for table in ("links", "outcomes"):
        for name in _COUNTS:
            column = sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))
            op.add_column(table, column)
        with op.batch_alter_table(table) as batch:
            for name in _COUNTS:
                batch.alter_column(name, server_default=None)
    for name in ("returned_at", "returned_left_s"):
        op.add_column("links", sa.Column(name, sa.BigInteger()))
    op.create_index("ix_links_cluster_id_returned_at", "links", ["cluster_id", "returned_at"])
