"""Who may use a file, by its mode and its group."""

import grp
import os
import pwd

import pytest

from mirage.slurm.clients import host_accounts

OWN, SITE = 6480, 100


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account mirage with a group of its own, and a group of two."""
    account = pwd.struct_passwd(("mirage", "x", OWN, OWN, "", "/var/lib/mirage", "/bin/sh"))
    groups = {
        OWN: grp.struct_group(("mirage", "x", OWN, [])),
        SITE: grp.struct_group(("site", "x", SITE, ["mirage", "ann"])),
    }
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: account)
    monkeypatch.setattr(grp, "getgrgid", groups.__getitem__)


@pytest.mark.parametrize(
    ("mode", "gid", "private"),
    [
        (0o600, SITE, True),
        (0o440, OWN, True),  # a Secret of Kubernetes, by `fsGroup`
        (0o660, OWN, True),
        (0o440, SITE, False),
        (0o620, SITE, False),
        (0o440, 7, False),  # a group that this host does not know
        (0o444, OWN, False),
        (0o602, OWN, False),
    ],
)
def test_the_account_s_own_group_is_nobody_else(mode: int, gid: int, private: bool) -> None:
    status = os.stat_result((0o100000 | mode, 0, 0, 1, 0, gid, 0, 0, 0, 0))
    assert host_accounts.is_private(status) is private


def test_a_group_with_another_member_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    group = grp.struct_group(("mirage", "x", OWN, ["ann"]))
    monkeypatch.setattr(grp, "getgrgid", lambda _gid: group)
    assert host_accounts.is_shared_group(OWN)
