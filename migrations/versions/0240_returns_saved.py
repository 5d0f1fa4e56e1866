"""outcomes: what returns saved. Of hand-overs before it is taken as nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0240"
down_revision = "0231"


def upgrade() -> None:
    column = sa.Column(
        "returns_saved_s", sa.BigInteger(), nullable=False, server_default=sa.text("0")
    )
    op.add_column("outcomes", column)
    with op.batch_alter_table("outcomes") as batch:
        batch.alter_column("returns_saved_s", server_default=None)
