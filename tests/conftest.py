"""Fixtures that several rooms share: one definition each, so a session has one of each."""

import pytest
from hypothesis import settings

pytest_plugins = ["tests.fixtures_slurm", "tests.fixtures_store", "tests.fixtures_munge"]

# No example is timed: on a busy machine 2 ms become 260.
settings.register_profile("mirage", deadline=None)
settings.load_profile("mirage")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: begun last, one of them keeps a processor busy after all others."""
    items.sort(key=lambda item: not _is_long(item))


def _is_long(item: pytest.Item) -> bool:
    """What runs on the real Slurm stays as pytest has it, by testbed."""
    return bool(item.get_closest_marker("slow")) and not item.get_closest_marker("slurm")
