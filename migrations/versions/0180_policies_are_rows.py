"""policy_outcomes: what each policy would have made of a hand-over is a row, not two columns."""

import sqlalchemy as sa
from alembic import op

revision = "0180"
down_revision = "0170"

_POLICIES = ("mirage", "reactive", "fixed-lead", "average", "slurm-estimate")
_FIGURES = ("interruption_s", "overlap_s")

_rows = sa.table("policy_outcomes", *map(sa.column, ("chain_id", "index", "policy", *_FIGURES)))


def _name_columns(policy: str) -> list[str]:
    return [f"{policy.replace('-', '_')}_{figure}" for figure in _FIGURES]


def _build_outcomes() -> sa.TableClause:
    names = [name for policy in _POLICIES for name in _name_columns(policy)]
    return sa.table("outcomes", *map(sa.column, ("chain_id", "index", *names)))


def upgrade() -> None:
    op.create_table(
        "policy_outcomes",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("interruption_s", sa.BigInteger(), nullable=False),
        sa.Column("overlap_s", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["chain_id", "index"],
            ["outcomes.chain_id", "outcomes.index"],
            name="fk_policy_outcomes_chain_id",
        ),
        sa.PrimaryKeyConstraint("chain_id", "index", "policy", name="pk_policy_outcomes"),
    )
    table = _build_outcomes()
    for policy in _POLICIES:
        figures = [table.c[name] for name in _name_columns(policy)]
        told = sa.select(table.c.chain_id, table.c.index, sa.literal(policy), *figures)
        told = told.where(*(figure.is_not(None) for figure in figures))
        op.execute(_rows.insert().from_select([c.name for c in _rows.c], told))
    with op.batch_alter_table("outcomes") as batch:
        for policy in _POLICIES:
            for name in _name_columns(policy):
                batch.drop_column(name)
