"""clusters: when a link on another host last asked the service about its next link."""

import sqlalchemy as sa
from alembic import op

revision = "0200"
down_revision = "0190"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("clusters", sa.Column("node_asked_at", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("clusters") as batch:
        batch.drop_column("node_asked_at")
