"""What slurmctld says it was asked: sdiag of real ones, and slurmrestd's diag."""

import json
import re
from typing import Any

import pytest

from mirage.errors import MalformedText
from mirage.slurm.commands import sdiag
from mirage.slurm.commands.sdiag import UserCalls
from mirage.slurm.restd import diagnosis
from tests.support.paths import DATA
from tests.support.slurm.captured import Captures

_COUNT = re.compile(r"\( *\d+\) count:(\d+)")


@pytest.fixture
def printed(captures: Captures) -> str:
    return captures.text("sdiag.txt")


def diag() -> Any:
    return json.loads((DATA / "slurm-22.05-rest" / "v0.0.38-diag.json").read_text())


def test_calls_are_told_by_user(printed: str) -> None:
    found = sdiag.parse_diagnosis(printed)
    users = {row.user: row.calls for row in found.users}
    assert found.at > (found.since or 0) > 0
    assert next(iter(users)) == "alice"
    assert set(users) >= {"alice", "root", "bob", "carol"}
    by_type, _, by_user = printed.partition("statistics by user")
    assert f"count:{users['alice']} " in by_user
    # slurmctld counts each call once by user and once by type.
    assert sum(users.values()) == sum(map(int, _COUNT.findall(by_type)))


def test_a_count_that_never_began_anew_has_no_beginning(captures: Captures) -> None:
    """At the controller's start 22.05 says 0, and later releases that start."""
    told = captures.outcome("slurmdbd-down-sdiag").stdout
    found = sdiag.parse_diagnosis(told)
    assert (found.since is None) == bool(re.search(r"Data since .*\(0\)", told))
    assert {row.user for row in found.users} >= {"root", "alice"}


def test_nobody_may_have_asked_anything(printed: str) -> None:
    head, _, rest = printed.partition("statistics by user\n")
    tail = rest[rest.index("\nPending") :]
    assert sdiag.parse_diagnosis(f"{head}statistics by user\n{tail}").users == ()


@pytest.mark.parametrize("cut", ["sdiag output", "Data since", "statistics by user", "count:"])
def test_half_an_answer_is_none(printed: str, cut: str) -> None:
    head, found, tail = printed.rpartition(cut)
    assert found
    with pytest.raises(MalformedText):
        sdiag.parse_diagnosis(head + tail)


def test_slurmrestd_tells_the_same() -> None:
    found = diagnosis.parse_diagnosis(diag())
    assert found.at > (found.since or 0) > 0
    assert UserCalls(user="alice", calls=23, us=31879) in found.users


def test_later_releases_write_triples() -> None:
    answer = diag()
    told = answer["statistics"]
    for name in ("req_time", "req_time_start"):
        told[name] = {"set": True, "infinite": False, "number": told[name]}
    for row in told["rpcs_by_user"]:
        row["average_time"] = {"set": True, "infinite": False, "number": row["average_time"]}
    assert diagnosis.parse_diagnosis(answer) == diagnosis.parse_diagnosis(diag())


@pytest.mark.parametrize("gone", ["req_time", "rpcs_by_user"])
def test_half_an_answer_of_slurmrestd_is_none(gone: str) -> None:
    answer = diag()
    del answer["statistics"][gone]
    with pytest.raises(MalformedText):
        diagnosis.parse_diagnosis(answer)
