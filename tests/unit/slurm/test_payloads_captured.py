"""slurmrestd's JSON and the commands' text of the same moment say the same, on every release and in
every version that it serves (deploy/testbed/capture_rest.py)."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node
from mirage.slurm.commands import sacct, sinfo, squeue
from mirage.slurm.commands.sacct_texts import parse_texts
from mirage.slurm.restd import diagnosis, history, node_inventory, queue
from mirage.slurm.restd.envelope import EARLIEST
from mirage.slurm.text.delimited_rows import SEPARATOR as UNIT
from tests.support.jobs import index_jobs
from tests.support.slurm.captured import ALL, SEPARATOR, Captures


@dataclass(frozen=True)
class Served:
    """One version of the API, as a release served it."""

    captures: Captures
    version: str

    def payload(self, name: str) -> Any:
        return json.loads(self.printed(f"{self.version}-{name}.json"))

    def printed(self, name: str) -> str:
        return self.captures.text(name, "rest")

    def known(self, job: Job) -> Job:
        """Without uids, which no version knows; v0.0.38 knows no submit lines and no exit codes of
        failures."""
        job = replace(job, uid=None)
        return replace(job, submit_line="", exit_code="") if self.version == EARLIEST else job

    def fate(self, name: str) -> int:
        return int(json.loads(self.printed("jobs-by-fate.json"))["jobs"][name])


ASKED = [Served(captures, version) for captures in ALL for version in captures.rest_versions()]


@pytest.fixture(
    scope="module", params=ASKED, ids=lambda one: f"{one.captures.release}-{one.version}"
)
def served(request: pytest.FixtureRequest) -> Served:
    found: Served = request.param
    return found


def test_the_queue_is_what_squeue_tells(served: Served) -> None:
    told = index_jobs(queue.parse_jobs(served.payload("jobs")))
    shown = index_jobs(squeue.parse_jobs(served.printed("squeue.txt"), SEPARATOR))
    assert len(told) > 8
    assert {_compared(job) for job in told.values()} == {_compared(shown[n]) for n in told}


def _compared(job: Job) -> Job:
    """Without the CPUs of a job that ended and never ran, which v0.0.38 leaves out."""
    return replace(job, cpus=0) if job.start is None and job.end is not None else job


def test_the_nodes_are_what_sinfo_tells(served: Served) -> None:
    told = node_inventory.parse_nodes(served.payload("nodes"))
    shown = sinfo.parse_nodes(served.printed("sinfo.txt"))
    assert "drained" in {node.state for node in told}
    assert [_sorted(node) for node in told] == [_sorted(node) for node in shown]


def _sorted(node: Node) -> Node:
    return replace(node, partitions=tuple(sorted(node.partitions)))


def test_the_history_is_what_sacct_tells(served: Served) -> None:
    told = history.parse_records(served.payload("records"))
    fields = sacct.choose_fields(served.printed("sacct-helpformat.txt"))
    facts = sacct.parse_facts(served.printed("sacct.txt"), fields.facts)
    texts = parse_texts(served.printed("sacct-texts.txt"), fields.texts, SEPARATOR, facts.keys())
    shown = sacct.build_jobs(facts, texts.select_settled())
    ids = {job.job_id for job in told}
    assert len(told) > 8
    known = {served.known(job) for job in told}
    assert known == {served.known(job) for job in shown if job.job_id in ids}


def test_who_asked_slurmctld_is_told_as_sdiag_tells_it(served: Served) -> None:
    found = diagnosis.parse_diagnosis(served.payload("diag"))
    assert found.at > (found.since or 0) > 0
    assert {"alice", "root"} <= {row.user for row in found.users}


FATES = [
    # state, start, end, nodes as Slurm writes them
    ("CANCELLED", 0, 1800000500, "None assigned"),
    ("CANCELLED", 1800000500, 1800000500, "None assigned"),
    ("CANCELLED", 1800000400, 1800000500, "None assigned"),
    ("CANCELLED", 1800000500, 1800000500, ""),
    ("CANCELLED", 1800000400, 1800000500, ""),
    ("CANCELLED", 1800000500, 1800000500, "gpu01"),
    ("DEADLINE", 1800000500, 1800000500, ""),
    ("REVOKED", 1800000500, 1800000500, ""),
    ("FAILED", 1800000500, 1800000500, "None assigned"),
    ("FAILED", 1800000500, 1800000500, ""),
    ("FAILED", 1800000400, 1800000500, ""),
    ("FAILED", 0, 1800000500, ""),
    ("NODE_FAIL", 1800000400, 1800000500, ""),
    ("TIMEOUT", 1800000400, 1800000500, "gpu01"),
    ("COMPLETED", 0, 1800000500, "None assigned"),
    ("COMPLETED", 1800000500, 1800000500, ""),
]


@pytest.mark.parametrize("fate", FATES, ids=str)
def test_whether_a_job_has_run_is_one_answer(
    served: Served, fate: tuple[str, int, int, str]
) -> None:
    """A job of the captures, with another fate in sacct's row and in slurmrestd's record."""
    state, start, _, nodes = fate
    job_id = served.fate("completed")
    told, shown = _tell_fate(served, job_id, *fate), _show_fate(served, job_id, *fate)
    answers = [(job.state, job.start, job.end, job.has_never_run) for job in (told, shown)]
    assert answers[0] == answers[1]
    assert shown.start in {start or None, None}
    assert state != "COMPLETED" or not shown.has_never_run
    assert not nodes.startswith("gpu") or shown.start == start


def _tell_fate(served: Served, job_id: int, state: str, start: int, end: int, nodes: str) -> Job:
    payload = served.payload("records")
    (record,) = (one for one in payload["jobs"] if one["job_id"] == job_id)
    was = record["state"]["current"]
    record["state"]["current"] = state if isinstance(was, str) else [state]
    record["time"] |= {"start": start, "end": end}
    record["nodes"] = nodes
    return index_jobs(history.parse_records(payload))[JobId(job_id)]


def _show_fate(served: Served, job_id: int, state: str, start: int, end: int, nodes: str) -> Job:
    fields = sacct.choose_fields(served.printed("sacct-helpformat.txt"))
    head, *lines = served.printed("sacct.txt").splitlines()
    (row,) = (line for line in lines if line.startswith(f"{job_id}{UNIT}"))
    cells = dict(zip(head.split(UNIT), row.split(UNIT), strict=True))
    cells |= {"State": state, "Start": str(start or "Unknown"), "End": str(end), "NodeList": nodes}
    text = f"{head}\n{UNIT.join(cells.values())}\n"
    facts = sacct.parse_facts(text, fields.facts)
    (job,) = sacct.build_jobs(facts, {})
    return job
