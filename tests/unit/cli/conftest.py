"""Fixtures of this room."""

from pathlib import Path
from shutil import copy

import pytest

from mirage.config.settings import Settings


@pytest.fixture
def settings(sqlite_template: Path, tmp_path: Path) -> Settings:
    """Settings with a database of their own."""
    copy(sqlite_template, tmp_path / "mirage.db")
    return Settings.model_validate({"database": {"url": f"sqlite:///{tmp_path}/mirage.db"}})
