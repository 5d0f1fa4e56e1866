"""links: the wait of the last job that gave its nodes back; not known of earlier ones."""

import sqlalchemy as sa
from alembic import op

revision = "0250"
down_revision = "0240"


def upgrade() -> None:
    op.add_column("links", sa.Column("returned_wait_s", sa.BigInteger()))
