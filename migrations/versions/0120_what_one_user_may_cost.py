"""idempotency_keys: no answers; shapes: who asked."""

import sqlalchemy as sa
from alembic import op

revision = "0120"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("idempotency_keys") as batch:
        batch.drop_column("status")
        batch.drop_column("body")
    op.add_column("shapes", sa.Column("asked_by", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("shapes") as batch:
        batch.drop_column("asked_by")
    op.execute("DELETE FROM idempotency_keys")  # their answers are nowhere
    with op.batch_alter_table("idempotency_keys") as batch:
        batch.add_column(sa.Column("status", sa.Integer(), nullable=False))
        batch.add_column(sa.Column("body", sa.Text(), nullable=False))
