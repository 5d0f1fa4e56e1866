"""what users ask of chains; why standbys wait; completions that slurmctld pushes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

# With the values of rows that are there already. Later ones always say what they mean.
_SAID = {
    "chains": (
        ("max_overlap_s", sa.BigInteger(), "14400"),
        ("presubmit", sa.Text(), "next"),
        ("mode", sa.Text(), "standby"),
        ("at_risk", sa.Text(), ""),
    ),
    "links": (("reason", sa.Text(), ""), ("hindered", sa.Text(), "")),
}
_OPTIONAL = {
    "chains": (("total_s", sa.BigInteger()), ("style", sa.Text())),
    "links": (("pushed_at", sa.BigInteger()),),
    "clusters": (
        ("pushed_at", sa.BigInteger()),
        ("pushed_link_at", sa.BigInteger()),
        ("push_missed_at", sa.BigInteger()),
    ),
}


def upgrade() -> None:
    for table, said in _SAID.items():
        with op.batch_alter_table(table) as batch:
            for name, kind, value in said:
                batch.add_column(sa.Column(name, kind, nullable=False, server_default=value))
        with op.batch_alter_table(table) as batch:
            for name, _, _ in said:
                batch.alter_column(name, server_default=None)
    for table, named in _OPTIONAL.items():
        for name, kind in named:
            op.add_column(table, sa.Column(name, kind))
