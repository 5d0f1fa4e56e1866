"""Operators and coordinators, of answers in which a coordinator has named accounts and users so
that they look like rows (deploy/testbed/capture_accounting.py)."""

import pytest

from mirage.errors import MalformedText
from mirage.slurm.commands import sacctmgr
from tests.support.slurm.captured import Captures


def _told(captures: Captures, name: str) -> str:
    return captures.text(name, "accounting")


def test_no_name_is_an_operator(captures: Captures) -> None:
    assert sacctmgr.parse_level(_told(captures, "level-operator.txt")) == {"mirage"}
    assert sacctmgr.parse_level(_told(captures, "level-administrator.txt")) == {"root"}
    assert sacctmgr.parse_level("") == frozenset()


def test_an_account_that_a_name_speaks_of_is_asked_about_alone(captures: Captures) -> None:
    found = sacctmgr.parse_coordinators(_told(captures, "coordinators.txt"))
    assert {"research", "services", "students"} <= set(found.doubtful)
    assert found.by_account["root"] == frozenset()
    assert not set(found.doubtful) & set(found.by_account)
    for account, users in (("students", ()), ("services", ()), ("research", ("alice", "y"))):
        alone = sacctmgr.parse_account_coordinators(_told(captures, f"coordinators-{account}.txt"))
        assert alone == set(users), account


def test_rows_that_nobody_has_forged_are_believed_at_once() -> None:
    answer = "physics|coco,dora\nphysics-gpu|coco,dora\nroot|\nstudents|coco\n"
    found = sacctmgr.parse_coordinators(answer)
    assert (found.doubtful, found.unsafe_count) == ((), 0)
    roster = sacctmgr.build_roster(frozenset({"root"}), found.by_account)
    assert roster.operators == {"root"}
    assert roster.coordinated == {
        "coco": {"physics", "physics-gpu", "students"},
        "dora": {"physics", "physics-gpu"},
    }


@pytest.mark.parametrize(
    "forged",
    [
        "q|alice\nstudents|alice",
        "q\nstudents",
        "q\nStudents|alice",
        "q\nstudents|alice|more\nz",
        "students\nq",
    ],
)
def test_whatever_begins_with_another_account_makes_that_one_doubtful(forged: str) -> None:
    found = sacctmgr.parse_coordinators(f"{forged}|alice\nresearch|alice\nstudents|carol\n")
    assert "students" not in {name.casefold() for name in found.by_account}
    assert [name.casefold() for name in found.doubtful].count("students") == 1
    assert found.by_account["research"] == {"alice"}


def test_only_newlines_end_a_row() -> None:
    found = sacctmgr.parse_coordinators("q\x85students|a\x0bb\u2028,alice\nstudents|\n")
    assert found.by_account["students"] == frozenset()
    assert found.by_account["q\x85students"] == {"alice"}


def test_no_account_is_asked_for_by_a_name_that_says_more() -> None:
    """Names end in slurmdbd's own question to its database."""
    names = ["q' or 'x'='x", "a b", "-n", "q\x1b", "x" * 200, "a;b"]
    found = sacctmgr.parse_coordinators("".join(f"{name}|x\n" * 2 for name in names))
    assert (found.doubtful, found.unsafe_count) == ((), len(names))


def test_accounts_in_doubt_take_nothing_from_others() -> None:
    found = sacctmgr.parse_coordinators("".join(f"a{n}|x\n" * 2 for n in range(5000)) + "b|coco\n")
    assert (len(found.doubtful), found.unsafe_count) == (5000, 0)
    assert found.by_account == {"b": {"coco"}}


@pytest.mark.parametrize("half", ["research|ali", "mirage"])
def test_half_an_answer_is_none(half: str) -> None:
    for parse in (sacctmgr.parse_level, sacctmgr.parse_coordinators):
        with pytest.raises(MalformedText):
            parse(f"root|\n{half}")


def test_an_association_that_stands_there_twice_is_refused(captures: Captures) -> None:
    """99 shares are forged in this answer, and 5 are true."""
    with pytest.raises(MalformedText, match="two associations are 'students'"):
        sacctmgr.parse_associations(_told(captures, "associations.txt"))


def test_a_name_that_reads_as_no_association_costs_itself_alone(captures: Captures) -> None:
    kept = [line for line in _told(captures, "associations.txt").split("\n") if "|99|" not in line]
    found = sacctmgr.parse_associations("\n".join(kept))
    shares = {a.account: a.share for a in found if not a.user}
    assert {n: shares[n] for n in ("root", "research", "services", "students")} == {
        "root": 1,
        "research": 10,
        "services": 1,
        "students": 5,
    }
    assert {a.user for a in found if a.user} == {"root", "alice", "bob", "mirage", "carol"}
