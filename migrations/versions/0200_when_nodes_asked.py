"""clusters: when a link on another host last asked the service about its next link."""

import sqlalchemy as sa
from alembic import op

revision = "0200"
down_revision = "0190"


def upgrade() -> None:
    op.add_column("clusters", sa.Column("node_asked_at", sa.BigInteger()))
