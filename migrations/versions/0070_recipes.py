"""recipes; a chain's own min-runtime."""

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0060"


def upgrade() -> None:
    op.create_table(
        "recipes",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("recipe", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["chain_id"], ["chains.chain_id"], name="fk_recipes_chain_id"),
        sa.PrimaryKeyConstraint("chain_id", name="pk_recipes"),
    )
    with op.batch_alter_table("chains") as batch:
        batch.add_column(sa.Column("min_runtime_s", sa.BigInteger()))
