"""slurmrestd's JSON: captured answers of 22.05.8, and later forms after their documentation.

test_payloads_captured.py reads the real answers of every release.
"""

import json
from typing import Any

import pytest

from mirage.domain.job import JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import MalformedText
from mirage.slurm.restd import envelope, history, node_inventory, queue
from mirage.slurm.text.unread_rows import Unread
from tests.support.jobs import index_jobs
from tests.support.paths import DATA

_SEPARATOR = "\x1f7e57\x1f"
_LATER = ("v0.0.39", "v0.0.40", "v0.0.44")


def captured(name: str) -> Any:
    return json.loads((DATA / "slurm-22.05-rest" / f"{name}.json").read_text())


def later(version: str, name: str) -> Any:
    return json.loads((DATA / "slurmrestd-later" / f"{version}-{name}.json").read_text())


def fate(name: str) -> int:
    return int(captured("jobs-by-fate")["jobs"][name])


def test_an_exit_code_is_not_made_up() -> None:
    """22.05.8 says 0 of a job that exited with 7."""
    told = index_jobs(history.parse_records(captured("v0.0.38-records")))
    assert told[fate("failed")].state is JobState.FAILED
    assert told[fate("failed")].exit_code == ""
    assert told[fate("completed")].exit_code == "0:0"
    assert told[fate("signaled")].exit_code == "0:9"


def test_22_05_speaks_its_own_version_and_keeps_accounting() -> None:
    dialect = envelope.choose_dialect(captured("openapi"))
    assert (dialect.version, dialect.accounting, dialect.has_triples) == ("v0.0.38", True, False)
    assert {"start_time", "end_time", "skip_steps"} <= dialect.record_queries


@pytest.mark.parametrize(
    ("served", "spoken"),
    [
        (("v0.0.38", "v0.0.37"), "v0.0.38"),
        (("v0.0.39", "v0.0.41", "v0.0.40"), "v0.0.41"),
        (("v0.0.44", "v0.0.99"), "v0.0.44"),
        (("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"), "v0.0.45"),
        (("v0.0.37", "v0.0.38", "v0.0.39"), "v0.0.38"),
        (("v0.0.43", "v0.0.44", "v0.0.45", "v0.0.46"), "v0.0.45"),
        (("v0.0.46",), "v0.0.46"),
        (("v0.0.39",), "v0.0.39"),
    ],
)
def test_the_newest_tried_version_that_both_know_is_spoken(
    served: tuple[str, ...], spoken: str
) -> None:
    paths: dict[str, Any] = {f"/slurm/{version}/jobs/": {} for version in served}
    dialect = envelope.choose_dialect({"paths": paths})
    assert (dialect.version, dialect.is_tested) == (spoken, spoken not in {"v0.0.39", "v0.0.46"})


@pytest.mark.parametrize("document", [{}, {"paths": {}}, {"paths": {"/slurm/v0.0.37/jobs": {}}}])
def test_a_version_that_nobody_reads_is_said(document: Any) -> None:
    with pytest.raises(MalformedText, match=r"Mirage reads v0\.0\.38 to v0\.0\.46"):
        envelope.choose_dialect(document)


@pytest.mark.parametrize("version", _LATER)
def test_a_later_queue_reads(version: str) -> None:
    jobs = index_jobs(queue.parse_jobs(later(version, "jobs")))
    run, standby = jobs[101], jobs[102]
    assert (run.state, run.nodes, run.cpus, run.gpus) == (JobState.RUNNING, 2, 32, 16)
    assert (run.start, run.end, run.time_limit_s) == (1795000060, None, 7200)
    assert run.expected_end == 1795007260
    assert (run.priority, run.uid, run.reason) == (4294901759, 1001, "")
    assert (standby.state, standby.dependency) == (JobState.PENDING, "afterany:101(unfulfilled)")
    assert (standby.eligible, standby.start, standby.end) == (None, None, None)
    assert standby.planned_start is None
    assert (standby.gpus, standby.comment) == (16, "mirage:abcdefgh:2")
    assert jobs[103].state is JobState.COMPLETING
    assert (jobs[104].time_limit_s, jobs[104].expected_end) == (UNLIMITED, None)
    assert (jobs[105].array, jobs[105].time_limit_s) == (True, None)
    assert (jobs[106].nodes, jobs[106].cpus, jobs[106].gpus) == (3, 7, 2)
    assert 107 not in jobs


@pytest.mark.parametrize("version", _LATER)
def test_later_nodes_read(version: str) -> None:
    nodes = node_inventory.parse_nodes(later(version, "nodes"))
    states = ["mixed", "draining", "drained", "planned", "down", "maint"]
    assert [node.state for node in nodes] == states
    assert (nodes[0].cpus, nodes[0].cpus_used, nodes[0].gpus, nodes[0].gpus_used) == (16, 8, 8, 4)
    assert nodes[0].partitions == ("gpu", "debug")


@pytest.mark.parametrize("version", _LATER)
def test_later_records_read(version: str) -> None:
    records = index_jobs(history.parse_records(later(version, "records")))
    run, broken, gone = records[91], records[92], records[93]
    assert (run.state, run.nodes, run.cpus, run.gpus) == (JobState.TIMEOUT, 2, 32, 16)
    assert (run.start, run.end, run.time_limit_s) == (1794000060, 1794007260, 7200)
    assert (run.comment, run.submit_line) == ("mirage:abcdefgh:1", "sbatch -N2 run.sh")
    assert (broken.exit_code, broken.time_limit_s) == ("7:0", UNLIMITED)
    assert (gone.state, gone.exit_code, gone.start) == (JobState.CANCELLED, "0:15", None)
    assert (gone.eligible, gone.time_limit_s, gone.node_list) == (None, None, "")
    assert (gone.nodes, gone.cpus, gone.gpus) == (1, 3, 2)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (None, None),
        (0, 0),
        (7, 7),
        (0xFFFFFFFE, None),
        (0xFFFFFFFF, None),
        ({"set": True, "infinite": False, "number": 7}, 7),
        ({"set": False, "infinite": False, "number": 7}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        ({}, None),
    ],
)
def test_a_number_is_itself_or_a_triple(value: Any, read: int | None) -> None:
    assert envelope.parse_number(value) == read


@pytest.mark.parametrize("value", ["7", 7.5, True, [7], {"set": True, "number": "7"}])
def test_what_is_no_number_does_not_read(value: Any) -> None:
    with pytest.raises(MalformedText):
        envelope.parse_number(value)


def test_hostile_text_is_text() -> None:
    told = index_jobs(queue.parse_jobs(captured("v0.0.38-jobs")))
    assert "`g`" in told[fate("hostile-name")].name
    assert "JobState=RUNNING" in told[fate("hostile-comment")].comment


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"job_id": 1},
        {"job_id": 1, "submit_time": "now"},
        {"job_id": 1, "submit_time": 5, "name": ["a"]},
        {"job_id": 1, "submit_time": 5, "priority": "high"},
        7,
    ],
)
def test_one_job_that_does_not_read_is_half_an_answer(job: Any) -> None:
    with pytest.raises(MalformedText):
        queue.parse_jobs({"errors": [], "jobs": [job]})


_TASKS: dict[str, Any] = {
    "job_id": 5512,
    "job_state": ["RUNNING"],
    "submit_time": {"set": True, "infinite": False, "number": 1762784600},
    "node_count": {"set": True, "infinite": False, "number": 1},
    "tasks": {"set": True, "infinite": False, "number": 2},
    "nodes": "gpu1",
    "tres_alloc_str": "cpu=2,mem=1G,node=1,billing=2",
    "tres_per_task": "gres/gpu=2",
}


@pytest.mark.parametrize(
    ("more", "gpus"),
    [
        ({}, 4),
        ({"tres_per_task": "gres:gpu:h100:2"}, 4),
        ({"tasks": {"set": False}}, None),
        ({"tasks": {"set": False}, "gres_detail": ["gpu:h100:4(IDX:0-3)"]}, 4),
        ({"tres_per_task": "", "gres_detail": ["gpu:1(IDX:0)", "gpu:a100:3(IDX:0-2)"]}, 4),
        ({"tres_per_task": "", "tres_per_socket": "gres/gpu:2", "sockets_per_node": 2}, 4),
        ({"tres_per_task": "", "tres_per_socket": "gres/gpu:2"}, None),
        ({"tres_per_job": "gres/gpu:8"}, 8),
        ({"tres_per_task": "gpu:a b:1"}, None),
        ({"tres_per_task": "gpu:a b:1", "tres_alloc_str": "", "tres_req_str": "gres/gpu=1"}, 1),
        ({"tres_per_task": "gpu:9999999T"}, None),
        ({"tres_alloc_str": "cpu=2,gres/gpu=10995115178248372224"}, None),
        ({"tres_alloc_str": "cpu=2,energy=16E,gres/gpu=3"}, 3),
        ({"tres_alloc_str": "N/A"}, 4),
        ({"tres_per_task": "shard:2"}, 0),
    ],
)
def test_gpus_of_a_job_are_counted_from_what_its_record_has_or_are_not_known(
    more: dict[str, Any], gpus: int | None
) -> None:
    unread = Unread()
    (job,) = queue.parse_jobs({"jobs": [_TASKS | more]}, unread)
    assert (job.gpus, unread.rows) == (gpus, [])
    assert unread.without_gpus == ([5512] if gpus is None else [])


def test_a_record_of_accounting_with_a_number_of_gpus_that_is_none_costs_that_number() -> None:
    asked = {"type": "gres", "name": "gpu", "count": 10995115178248372224}
    for lists in ({"requested": [asked]}, {"allocated": [asked], "requested": []}):
        record = {"job_id": 7, "time": {"submission": 5}, "tres": lists}
        assert [job.gpus for job in history.parse_records({"jobs": [record]}, Unread())] == [None]


@pytest.mark.parametrize(
    ("told", "word"),
    [
        (["PENDING", "EXPEDITING"], "EXPEDITING"),
        (["PENDING", "REQUEUED", "EXPEDITING"], "EXPEDITING"),
        (["PENDING", "REQUEUE_HOLD"], "REQUEUE_HOLD"),
        (["RUNNING", "CONFIGURING", "POWER_UP_NODE"], "CONFIGURING"),
        (["COMPLETED", "COMPLETING", "STAGE_OUT"], "COMPLETING"),
        (["FAILED", "STAGE_OUT", "REQUEUED"], "STAGE_OUT"),
        (["FAILED", "LAUNCH_FAILED"], "FAILED"),
        (["PENDING", "RECONFIG_FAIL"], "PENDING"),
    ],
)
def test_flags_beside_a_state_count_in_squeues_order(told: list[str], word: str) -> None:
    assert queue.parse_flagged_state(told).value == word


def test_a_state_nobody_knows_is_unknown() -> None:
    (job,) = queue.parse_jobs(
        {"jobs": [{"job_id": 1, "submit_time": 5, "job_state": ["DREAMING"]}]}
    )
    assert job.state is JobState.UNKNOWN


def test_a_complaint_is_in_slurms_words_unless_they_say_nothing() -> None:
    answer = {
        "errors": [
            {"error_number": 2010, "error": "Invalid user id", "description": "update failed"},
            {"error_code": -1, "error": "Unspecified error", "description": "no jobs"},
        ]
    }
    found = envelope.list_errors(answer)
    assert [str(each) for each in found] == ["Invalid user id", "no jobs"]
    assert [each.number for each in found] == [2010, -1]
