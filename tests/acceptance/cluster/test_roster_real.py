"""Who may do what, asked of a real slurmdbd in which a coordinator names things as she likes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirage.slurm.clients.cli.client import SlurmCli
from tests.support.cluster.slurm_rig import put_on_path
from tests.support.slurm_testbed import Testbed

pytestmark = pytest.mark.slurm

ONE = ("q\nalice|none|students",)
MANY = (*ONE, "r|alice\nstudents|alice\nz", "services ")
USER = "x|none|\nbob|administrator|\nservices|alice\ny"


@contextmanager
def coordinating(testbed: Testbed, accounts: Sequence[str]) -> Iterator[None]:
    """alice coordinates research, and makes the most of it."""

    def accounting(*words: str, user: str = "alice", check: bool = True) -> None:
        testbed.run(["sacctmgr", "-i", *words], user=user, check=check)

    accounting("add", "coordinator", "account=research", "names=alice", user="root")
    try:
        for name in accounts:
            accounting("add", "account", name, "parent=research", check=False)
        if accounts is MANY:
            accounting("add", "user", USER, "account=research")
            accounting("add", "coordinator", "account=research", f"names={USER}")
        yield
    finally:
        accounting("delete", "user", USER, user="root", check=False)
        for name in MANY[:2]:
            accounting("delete", "account", name, user="root", check=False)
        accounting("delete", "coordinator", "account=research", "names=alice", user="root")


@pytest.mark.parametrize("accounts", [ONE, MANY], ids=["one row", "many rows"])
def test_a_coordinator_makes_herself_coordinator_of_no_account_more(
    testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accounts: Sequence[str]
) -> None:
    monkeypatch.setenv("PATH", put_on_path(tmp_path, "mirage"))
    for name, value in testbed.env("mirage").items():
        if name.startswith(("SLURM", "LD_", "FAKETIME")):
            monkeypatch.setenv(name, value)
    with coordinating(testbed, accounts):
        roster = SlurmCli(timeout_s=60).fetch_roster()
    assert roster.operators == {"mirage", "root"}
    assert not roster.coordinated["alice"] & {"students", "services", "root"}
    assert "research" in roster.coordinated["alice"]
    assert not {"bob", "carol"} & set(roster.coordinated)
