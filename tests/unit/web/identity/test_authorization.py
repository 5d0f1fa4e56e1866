"""What callers may: by configuration, by Slurm's word, and by their credential."""

import grp
import os
import pwd

import pytest

from mirage.domain.callers.caller import JOBS, NOBODY_UID, USAGE, Caller, Principal, Role
from mirage.domain.chain import Link
from mirage.slurm.commands.sacctmgr import Roster
from mirage.web.identity.authorization import Authorizer
from tests.support.chains import make_chain, make_link

ROSTER = Roster(operators=frozenset({"ops"}), coordinated={"coco": frozenset({"physics"})})
RIGHTS = Authorizer(admins=("root",), roster=lambda: ROSTER)
CHAIN = make_chain(uid=1001, user="alice")


def make_account_link(account: str) -> Link:
    return make_link(CHAIN.chain_id, submit=1, account=account)


@pytest.mark.parametrize(
    ("caller", "role"),
    [
        (Caller(0, "root"), Role.ADMIN),
        (Caller(1, "ops"), Role.ADMIN),
        (Caller(2, "coco"), Role.COORDINATOR),
        (Caller(3, "bob"), Role.USER),
        (None, Role.VIEWER),
        # What a token allows is a ceiling.
        (Caller(0, "root", role=Role.VIEWER), Role.VIEWER),
        (Caller(1, "ops", role=Role.USER), Role.USER),
        (Caller(3, "bob", role=Role.ADMIN), Role.USER),
        (Caller(NOBODY_UID, "token x", role=Role.VIEWER), Role.VIEWER),
        (Caller(NOBODY_UID, "token x", role=Role.ADMIN), Role.ADMIN),
    ],
)
def test_roles(caller: Caller | None, role: Role) -> None:
    assert RIGHTS.resolve_principal(caller).role is role


def test_members_of_an_admin_group_are_admins() -> None:
    me = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(me.pw_gid).gr_name
    caller = Caller(me.pw_uid, me.pw_name)
    assert Authorizer(admin_groups=(group,)).resolve_principal(caller).is_admin
    assert not Authorizer(admin_groups=("no-such-group",)).resolve_principal(caller).is_admin
    assert (
        not Authorizer(admin_groups=(group,))
        .resolve_principal(Caller(4711, "no-such-user"))
        .is_admin
    )


def test_a_coordinator_steers_chains_that_are_wholly_of_their_accounts() -> None:
    coco, bob = (
        RIGHTS.resolve_principal(Caller(2, "coco")),
        RIGHTS.resolve_principal(Caller(3, "bob")),
    )
    assert coco.can_steer(CHAIN, [make_account_link("physics")])
    assert not coco.can_steer(CHAIN, [make_account_link("physics"), make_account_link("biology")])
    assert not coco.can_steer(CHAIN, [])
    assert not bob.can_steer(CHAIN, [make_account_link("physics")])
    capped = RIGHTS.resolve_principal(Caller(2, "coco", role=Role.USER))
    assert not capped.can_steer(CHAIN, [make_account_link("physics")])


def test_an_owner_steers_and_a_viewer_does_not_even_as_the_owner() -> None:
    assert RIGHTS.resolve_principal(Caller(1001, "alice")).can_steer(CHAIN, [])
    assert not RIGHTS.resolve_principal(Caller(1001, "alice", role=Role.VIEWER)).can_steer(
        CHAIN, []
    )


@pytest.mark.parametrize("word", [JOBS, USAGE])
def test_what_is_private_is_seen_by_its_owner_and_admins(word: str) -> None:
    rights = Authorizer(admins=("root",), hidden=lambda: frozenset({word}))
    seen = {
        name: rights.resolve_principal(Caller(uid, name)).can_see_chain(CHAIN, [])
        for name, uid in {"root": 0, "alice": 1001, "bob": 3}.items()
    }
    assert seen == {"root": True, "alice": True, "bob": False}
    assert not rights.resolve_principal(None).can_see_chain(CHAIN, [])
    assert not rights.resolve_principal(Caller(0, "root", role=Role.VIEWER)).can_see_chain(
        CHAIN, []
    )


def test_nobody_has_a_standing_that_owns_nothing() -> None:
    orphan = make_chain(uid=NOBODY_UID)
    assert not Principal(role=Role.USER).can_steer(orphan, [])
