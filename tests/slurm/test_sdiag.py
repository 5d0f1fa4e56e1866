"""What slurmctld says it was asked: sdiag of a real 22.05.8, and slurmrestd's diag."""

import json
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import MalformedText
from mirage.slurm import payloads_diag, sdiag
from mirage.slurm.sdiag import Asked
from tests.slurm.captured import outcome

_DATA = Path(__file__).resolve().parents[1] / "data"
SDIAG = (_DATA / "slurm-22.05" / "sdiag.txt").read_text()


def diag() -> Any:
    return json.loads((_DATA / "slurm-22.05-rest" / "diag.json").read_text())


def test_calls_are_told_by_user() -> None:
    found = sdiag.parse(SDIAG)
    assert (found.at, found.since) == (1795249717, 1795246913)
    assert found.users[0] == Asked(user="alice", calls=125, us=2030700)
    assert [row.user for row in found.users] == ["alice", "root", "bob", "carol"]
    # slurmctld counts each call once by user and once by type.
    assert sum(row.calls for row in found.users) == 208


def test_a_count_that_never_began_anew_has_no_beginning() -> None:
    found = sdiag.parse(outcome("slurmdbd-down-sdiag").stdout)
    assert found.since is None
    assert [(row.user, row.calls) for row in found.users] == [("root", 13), ("alice", 8)]


def test_nobody_may_have_asked_anything() -> None:
    head, _, rest = SDIAG.partition("statistics by user\n")
    tail = rest[rest.index("\nPending") :]
    assert sdiag.parse(f"{head}statistics by user\n{tail}").users == ()


@pytest.mark.parametrize("cut", ["sdiag output", "Data since", "statistics by user", "count:51"])
def test_half_an_answer_is_none(cut: str) -> None:
    with pytest.raises(MalformedText):
        sdiag.parse(SDIAG.replace(cut, "", 1))


def test_slurmrestd_tells_the_same() -> None:
    found = payloads_diag.parse(diag())
    assert found.at > (found.since or 0) > 0
    assert Asked(user="alice", calls=23, us=31879) in found.users


def test_later_releases_write_triples() -> None:
    answer = diag()
    told = answer["statistics"]
    for name in ("req_time", "req_time_start"):
        told[name] = {"set": True, "infinite": False, "number": told[name]}
    for row in told["rpcs_by_user"]:
        row["average_time"] = {"set": True, "infinite": False, "number": row["average_time"]}
    assert payloads_diag.parse(answer) == payloads_diag.parse(diag())


@pytest.mark.parametrize("gone", ["req_time", "rpcs_by_user"])
def test_half_an_answer_of_slurmrestd_is_none(gone: str) -> None:
    answer = diag()
    del answer["statistics"][gone]
    with pytest.raises(MalformedText):
        payloads_diag.parse(answer)
