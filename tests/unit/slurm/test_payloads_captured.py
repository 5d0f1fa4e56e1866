"""slurmrestd's JSON and the commands' text of the same moment say the same, on every release and in
every version that it serves (deploy/testbed/capture_rest.py)."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mirage.domain.job import Job
from mirage.domain.snapshot import Node
from mirage.slurm.commands import sacct, sinfo, squeue
from mirage.slurm.commands.sacct_texts import parse_texts
from mirage.slurm.rest import diagnosis, history, node_inventory, queue
from mirage.slurm.rest.envelope import EARLIEST
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
