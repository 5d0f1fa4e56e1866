"""links: how long the last job that gave its nodes back had waited. Of earlier ones it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0250"
down_revision = "0240"


def upgrade() -> None:
    op.add_column("links", sa.Column("returned_wait_s", sa.BigInteger()))
