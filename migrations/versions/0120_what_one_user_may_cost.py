"""idempotency_keys: no answers; shapes: who asked."""

import sqlalchemy as sa
from alembic import op

revision = "0120"
down_revision = "0110"


def upgrade() -> None:
    with op.batch_alter_table("idempotency_keys") as batch:
        batch.drop_column("status")
        batch.drop_column("body")
    op.add_column("shapes", sa.Column("asked_by", sa.BigInteger()))
