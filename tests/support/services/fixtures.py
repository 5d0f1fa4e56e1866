"""For tests that one database is enough for; `store` of all rooms is one on each."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest

from mirage.store.database.engine import Store


@pytest.fixture
def sqlite_store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    copy(sqlite_template, tmp_path / "mirage.db")
    with closing(Store(f"sqlite:///{tmp_path}/mirage.db")) as opened:
        yield opened
