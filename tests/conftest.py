"""Fixtures that several rooms share: one definition each, so a session has one of each."""

from hypothesis import settings

pytest_plugins = [
    "tests.support.fixtures.slurm",
    "tests.support.fixtures.store",
    "tests.support.fixtures.munge",
    "tests.support.fixtures.sack",
    "tests.support.fixtures.commands",
]

# No example is timed: on a busy machine 2 ms become 260.
settings.register_profile("mirage", deadline=None)
settings.load_profile("mirage")
