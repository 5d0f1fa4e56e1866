"""chains: how early a link may start depends on its time limit where nobody said."""

import sqlalchemy as sa
from alembic import op

revision = "0150"
down_revision = "0140"


def upgrade() -> None:
    with op.batch_alter_table("chains") as batch:
        batch.alter_column("max_overlap_s", existing_type=sa.BigInteger(), nullable=True)
