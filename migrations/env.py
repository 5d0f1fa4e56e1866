"""Alembic's entry: runs the revisions on the connection that it is handed.

mirage/database/schema/schema_migrations.py hands it over.
"""

from alembic import context

from mirage.database.schema.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
with context.begin_transaction():
    context.run_migrations()
