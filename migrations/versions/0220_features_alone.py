"""snapshots: no queue and no nodes. Nothing read them; the sums of each look stay in `features`.

Emptied before they go: SQLite can then use their pages for the new table, and PostgreSQL frees what
stands beside the table, which it does not do for a dropped column.
"""

import sqlalchemy as sa
from alembic import op

revision = "0220"
down_revision = "0210"

_RAW = ("queue", "nodes")
_snapshots = sa.table("snapshots", *map(sa.column, _RAW))


def upgrade() -> None:
    kept = sa.or_(*(_snapshots.c[name].is_not(None) for name in _RAW))
    op.execute(_snapshots.update().where(kept).values(dict.fromkeys(_RAW, sa.null())))
    with op.batch_alter_table("snapshots") as batch:
        for name in _RAW:
            batch.drop_column(name)
