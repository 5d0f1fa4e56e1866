"""Slurmrestd against a slurmrestd that answers as it is told: what is asked, and what is concluded.

What every cluster does is in test_contract.py, on the real one.
"""

import getpass
import time
from itertools import chain, pairwise

import pytest

from mirage.domain.job import JobId
from mirage.errors import AccountingOff, ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.query_gate import BackoffSettings
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.clients.restd.token import parse_token
from tests.support.cluster.commands import FakeCommands
from tests.support.cluster.restd import OPENAPI, FakeRestd, openapi
from tests.support.cluster.tokens import build_jwt
from tests.support.patient import PATIENCE_S
from tests.support.slurm.captured import answer
from tests.unit.slurm.test_sdiag import diag

STANDBY = JobId(7)
ALICE = 1001
JOB = "/slurm/v0.0.38/job/7"
FINE: dict[str, object] = {"errors": []}
HERS: dict[str, object] = {"job_id": 7, "submit_time": 5, "user_id": 1001, "job_state": "PENDING"}
"""What is shown of it right before a move."""
IMPATIENT = BackoffSettings(first_pause_s=0.001, longest_pause_s=0.001)


def cluster(fake: FakeRestd, commands: SlurmCli | None = None) -> Slurmrestd:
    http = RestHttp(fake.url, timeout_s=PATIENCE_S)
    return Slurmrestd(http, commands=commands, backoff=IMPATIENT)


def failed(number: int, error: str, description: str = "") -> dict[str, object]:
    return {"errors": [{"error_number": number, "error": error, "description": description}]}


def test_the_version_is_asked_for_once(fake: FakeRestd) -> None:
    slurm = cluster(fake)
    fake.answers("/slurm/v0.0.38/nodes", {**FINE, "nodes": []})
    assert slurm.fetch_nodes() == ()
    assert slurm.fetch_nodes() == ()
    assert len(fake.calls(OPENAPI)) == 1


def test_slurmctlds_count_is_of_who_the_token_is(fake: FakeRestd) -> None:
    fake.answers("/slurm/v0.0.38/diag", diag())
    told, user = cluster(fake).fetch_diagnosis()
    assert (len(told.users), user) == (5, getpass.getuser())
    token = parse_token(build_jwt("provd"))
    slurm = Slurmrestd(RestHttp(fake.url, identity=lambda: token), backoff=IMPATIENT)
    assert slurm.fetch_diagnosis() == (told, "provd")


def test_after_an_upgrade_the_version_is_asked_for_again(fake: FakeRestd) -> None:
    slurm = cluster(fake)
    slurm.get_dialect()
    fake.answers(OPENAPI, openapi("v0.0.38", "v0.0.41", "v0.0.40", "v0.0.99"))
    with pytest.raises(ClusterUnavailable, match="does not serve this path"):
        slurm.fetch_nodes()
    fake.answers("/slurm/v0.0.41/nodes", {**FINE, "nodes": []})
    time.sleep(0.01)  # the lane's pause after the failure
    assert slurm.fetch_nodes() == ()


def test_versions_that_nobody_reads_are_said(fake: FakeRestd) -> None:
    fake.answers(OPENAPI, openapi("v0.0.36", "v0.0.37"))
    with pytest.raises(ClusterUnavailable, match=r"serves v0\.0\.36, v0\.0\.37 and Mirage reads"):
        cluster(fake).fetch_queue()


@pytest.mark.parametrize(
    "answer",
    [
        failed(-1, "Unspecified error", "Failed while looking for jobs"),
        {"jobs": [{"job_id": 1}], **FINE},
        {"jobs": [{"job_id": "1; rm", "submit_time": 1}], **FINE},
        {"jobs": "none", **FINE},
        FINE,
        [],
        "jobs",
    ],
)
def test_a_queue_that_does_not_read_is_no_queue(fake: FakeRestd, answer: object) -> None:
    fake.answers("/slurm/v0.0.38/jobs", answer)
    with pytest.raises(ClusterUnavailable):
        cluster(fake).fetch_queue()


def test_an_error_beside_an_empty_queue_is_no_queue(fake: FakeRestd) -> None:
    """22.05.8 says HTTP 200 where slurmdbd is away, and 500 where slurmctld is."""
    fake.answers(
        "/slurmdb/v0.0.38/jobs", failed(7000, "Unable to connect to database") | {"jobs": []}
    )
    with pytest.raises(ClusterUnavailable, match=r"Unable to connect to database \(HTTP 200\)"):
        list(cluster(fake).fetch_history(1, 2))


def test_history_is_asked_for_as_the_server_takes_it(fake: FakeRestd) -> None:
    """`show_duplicates` is not among its parameters."""
    nothing = failed(9003, "Nothing found with query") | {"jobs": []}
    fake.answers("/slurmdb/v0.0.38/jobs", nothing)
    assert list(cluster(fake).fetch_history(100, 200)) == []
    (asked,) = fake.calls("/slurmdb/v0.0.38/jobs")
    assert asked.query == "start_time=uts100&end_time=uts200&skip_steps=true"


def test_many_jobs_are_one_question(fake: FakeRestd) -> None:
    """22.05.8 answers 400 to a comma that is not written as %2C."""
    fake.answers("/slurmdb/v0.0.38/jobs", {**FINE, "jobs": []})
    assert cluster(fake).fetch_job_records([JobId(9), STANDBY, JobId(9)]) == []
    (asked,) = fake.calls("/slurmdb/v0.0.38/jobs")
    assert asked.query == "step=7%2C9&skip_steps=true"


def test_a_slurmrestd_without_accounting_says_how_to_start_it(fake: FakeRestd) -> None:
    fake.answers(OPENAPI, openapi("v0.0.38", accounting=False))
    with pytest.raises(ClusterUnavailable, match=r"serves no /slurmdb/v0\.0\.38"):
        cluster(fake).fetch_job_records([STANDBY])


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("", AccountingOff),
        ("(null)", AccountingOff),
        ("accounting_storage/none", AccountingOff),
        ("accounting_storage/slurmdbd", ClusterUnavailable),
    ],
)
def test_a_site_without_accounting_is_told_from_a_slurmrestd_without_it(
    fake: FakeRestd, commands: FakeCommands, kind: str, error: type[Exception]
) -> None:
    """From 24.11 on slurmrestd does not start with that plugin where there is none."""
    fake.answers(OPENAPI, openapi("v0.0.42", accounting=False))
    config = answer("scontrol-show-config.txt")
    commands.answers("scontrol", config.replace("accounting_storage/slurmdbd", kind))
    with pytest.raises(error, match=r"serves no /slurmdb/v0\.0\.42"):
        cluster(fake, SlurmCli() if kind else None).fetch_job_records([STANDBY])


def test_accounting_that_slurmrestd_serves_later_is_found(fake: FakeRestd) -> None:
    slurm = cluster(fake)
    fake.answers(OPENAPI, openapi("v0.0.42", accounting=False))
    with pytest.raises(AccountingOff):
        list(slurm.fetch_history(1, 2))
    fake.answers(OPENAPI, openapi("v0.0.42"))
    fake.answers("/slurmdb/v0.0.42/jobs", {**FINE, "jobs": []})
    assert list(slurm.fetch_history(1, 2)) == []


HTML = "<!DOCTYPE html><html><title>Sign in</title></html>"


@pytest.mark.parametrize("status", [200, 404, 500, 502])
@pytest.mark.parametrize("path", [OPENAPI, "/slurm/v0.0.38/jobs", JOB])
def test_a_page_instead_of_an_answer_is_none(fake: FakeRestd, path: str, status: int) -> None:
    fake.answers("/slurm/v0.0.38/jobs", {**FINE, "jobs": []})
    fake.answers(JOB, {**FINE, "jobs": [HERS]})
    fake.answers(path, HTML, status=status)
    slurm = cluster(fake)
    with pytest.raises(ClusterUnavailable) as told:
        slurm.free_standby(
            STANDBY, owner=ALICE, dependency=""
        ) if path == JOB else slurm.fetch_queue()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "answer",
    [
        failed(2002, "Access/permission denied"),
        {**FINE, "status": [{"error": {"code": 2002, "string": "Access/permission denied"}}]},
        {**FINE, "results": [{"error_code": 2002, "error": "Access/permission denied"}]},
        {**FINE, "results": [{"error_code": 0}, {"error_code": 2073, "why": "no longer pending"}]},
    ],
)
def test_an_error_inside_an_answer_of_200_is_a_no(fake: FakeRestd, answer: object) -> None:
    fake.answers(JOB, {**FINE, "jobs": [HERS]}, method="GET")
    fake.answers(JOB, answer)
    slurm = cluster(fake)
    with pytest.raises(ClusterRefused, match=r"denied|pending"):
        slurm.free_standby(STANDBY, owner=ALICE, dependency="")
    with pytest.raises(ClusterRefused, match=r"denied|pending"):
        slurm.cancel_job(STANDBY, owner=ALICE)


@pytest.mark.parametrize("state", [["RUNNING"], ["PENDING"], ["SUSPENDED"], "PENDING"])
def test_a_cancel_that_changes_nothing_is_a_no(fake: FakeRestd, state: object) -> None:
    fake.answers(JOB, {**FINE, "jobs": [HERS | {"job_state": state}]})
    with pytest.raises(ClusterRefused, match="still"):
        cluster(fake).cancel_job(STANDBY, owner=ALICE)


def test_a_slurmrestd_of_another_version_is_asked_at_once(fake: FakeRestd) -> None:
    """Whether it is newer or older: a question, and a move, of which nothing was done yet."""
    fake.answers(OPENAPI, openapi("v0.0.41"))
    slurm = cluster(fake)
    slurm.get_dialect()
    fake.answers(OPENAPI, openapi("v0.0.38"))
    fake.answers(JOB, {**FINE, "jobs": [HERS]})
    slurm.free_standby(STANDBY, owner=ALICE, dependency="")
    assert slurm.get_dialect().version == "v0.0.38"
    fake.answers(OPENAPI, openapi("v0.0.99"))
    fake.answers("/slurm/v0.0.38/nodes", "not found", status=404)
    with pytest.raises(ClusterUnavailable, match=r"serves v0\.0\.99 and Mirage reads"):
        slurm.fetch_nodes()


def test_a_pin_is_taken_back_by_who_set_it_and_by_who_is_told(fake: FakeRestd) -> None:
    shown = [
        HERS | {"required_nodes": nodes, "dependency": dependency}
        for nodes, dependency in (
            ("", ""),
            ("gpu01", ""),
            ("", "afterany:6(unfulfilled)"),
            ("", ""),
        )
    ]
    # A look before each move, and one afterwards.
    looks = chain.from_iterable(pairwise([shown[0], *shown]))
    told = [(200, {**FINE, "jobs": [one]}) for one in looks]
    fake.answers(JOB, FINE)
    fake.answers_in_turn(JOB, *told, method="GET")
    slurm = cluster(fake)
    slurm.free_standby(STANDBY, owner=ALICE, dependency="")
    slurm.pin_standby(STANDBY, owner=ALICE, dependency="", node_list="gpu01")
    slurm.set_dependency(STANDBY, owner=ALICE, dependency="afterany:6(unfulfilled)")
    slurm.free_standby(STANDBY, owner=ALICE, dependency="", unpin=True)
    assert [asked.body for asked in fake.calls(JOB) if asked.method == "POST"] == [
        {"dependency": ""},
        {"dependency": "", "nodelist": "gpu01"},
        {"dependency": "afterany:6", "nodelist": ""},
        {"dependency": "", "nodelist": ""},
    ]


def test_the_nodes_that_jobs_ask_for_are_told_without_those_that_slurm_does_not_know(
    fake: FakeRestd,
) -> None:
    fake.answers(JOB, {**FINE, "jobs": [HERS | {"required_nodes": ["gpu01", "gpu02"]}]})
    gone = failed(2017, "Invalid job id specified", "job")
    fake.answers("/slurm/v0.0.38/job/8", gone, status=500)
    fake.answers("/slurm/v0.0.38/job/9", {**FINE, "jobs": [HERS | {"required_nodes": ""}]})
    wanted = [JobId(9), STANDBY, JobId(8)]
    assert cluster(fake).fetch_requested_nodes(wanted) == {STANDBY: "gpu01,gpu02"}


@pytest.mark.parametrize("asked", ["gpu[01-02]", ["gpu01", "gpu02"]])
def test_one_that_asks_for_nodes_itself_is_not_pinned(fake: FakeRestd, asked: object) -> None:
    first, second = HERS | {"required_nodes": ""}, HERS | {"job_id": 8, "required_nodes": asked}
    fake.answers(JOB, {**FINE, "jobs": [first, second]})
    with pytest.raises(ClusterRefused, match="asks for nodes itself"):
        cluster(fake).pin_standby(STANDBY, owner=ALICE, dependency="", node_list="gpu01")
    assert [asked.method for asked in fake.calls(JOB)] == ["GET"]


@pytest.mark.parametrize("answer", [{**FINE, "jobs": [{"job_id": 7}]}, FINE])
def test_nobody_is_pinned_whose_own_nodes_are_not_known(fake: FakeRestd, answer: object) -> None:
    fake.answers(JOB, answer)
    with pytest.raises(ClusterUnavailable):
        cluster(fake).pin_standby(STANDBY, owner=ALICE, dependency="", node_list="gpu01")
    assert [asked.method for asked in fake.calls(JOB)] == ["GET"]


SOCKET = "job update from /run/slurmrestd.socket->fd:9 failed"


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (500, failed(2010, "Invalid user id", SOCKET), ClusterRefused),
        (500, failed(2017, "Invalid job id specified", SOCKET), ClusterRefused),
        (500, failed(2073, "Job is no longer pending execution", SOCKET), ClusterRefused),
        (200, failed(2072, "Job dependency problem"), ClusterRefused),
        (500, failed(1000, "Unexpected message received", SOCKET), ClusterUnavailable),
        (500, failed(-1, "Unspecified error", SOCKET), ClusterUnavailable),
        (
            500,
            {"errors": [{"error_code": 5005, "error": "Zero Bytes were transmitted or received"}]},
            ClusterUnavailable,
        ),
        (500, FINE, ClusterUnavailable),
    ],
)
def test_a_move_that_was_not_made_is_a_no_or_no_answer(
    fake: FakeRestd, status: int, answer: object, error: type[Exception]
) -> None:
    fake.answers(JOB, {**FINE, "jobs": [HERS]}, method="GET")
    fake.answers(JOB, answer, status=status)
    slurm = cluster(fake)
    with pytest.raises(error, match=f"HTTP {status}"):
        slurm.free_standby(STANDBY, owner=ALICE, dependency="")
    with pytest.raises(error):
        slurm.cancel_job(STANDBY, owner=ALICE)


def test_suspend_goes_through_scontrol(fake: FakeRestd, commands: FakeCommands) -> None:
    commands.answers("scontrol")
    commands.answers("squeue", f"7|{ALICE}||PENDING|Dependency|1||\n")
    cluster(fake, SlurmCli()).hold_job(STANDBY, owner=ALICE)
    assert commands.calls("scontrol") == [["uhold", "7"]]


def test_without_scontrol_nothing_is_suspended(fake: FakeRestd) -> None:
    with pytest.raises(ClusterRefused, match="its owner could not lift that"):
        cluster(fake).hold_job(STANDBY, owner=ALICE)
    assert fake.requests == []
