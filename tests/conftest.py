"""Fixtures that several rooms share: one definition each, so a session has one of each."""

pytest_plugins = ["tests.fixtures_slurm", "tests.fixtures_store", "tests.fixtures_munge"]
