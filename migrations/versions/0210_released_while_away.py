"""outcomes: whether Slurm released the link by a plan while Mirage was away.

Nobody can tell this of older hand-overs, which count as released while Mirage was there.
"""

import sqlalchemy as sa
from alembic import op

revision = "0210"
down_revision = "0200"


def upgrade() -> None:
    op.add_column(
        "outcomes",
        sa.Column("while_away", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    with op.batch_alter_table("outcomes") as batch:
        batch.alter_column("while_away", server_default=None)
