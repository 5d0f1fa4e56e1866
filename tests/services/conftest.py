"""The databases that the use-cases work on."""

from tests.fixtures_store import (  # noqa: F401 - fixtures
    database_url,
    empty_database_url,
    postgres_migrated,
    postgres_server,
    sqlite_template,
    store,
)
