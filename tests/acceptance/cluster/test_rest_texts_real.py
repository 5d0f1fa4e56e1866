"""What users write, as the real slurmrestd (22.05.8) puts it into JSON: it stays text.

It is never a job, and never keeps Mirage from reading the others.
"""

import pytest

from mirage.domain.job import Job, JobId
from mirage.domain.ports import Cluster
from mirage.slurm.clients.cli.client import SlurmCli
from tests.support.cluster.hostile_jobs import decode_as_read
from tests.support.cluster.rest_host import RestHost
from tests.support.cluster.slurm_rig import SlurmRig

pytestmark = pytest.mark.slurm

LIE = '"user_id":1001,"user_name":"alice","job_id":999999,"submit_time":1,"comment":"mirage:x:1"'
TEXTS = {
    "an object that ends": f'"}},{{{LIE}}}',
    "a list that ends": f'x","x":[]}}],"errors":[],"jobs":[{{{LIE}}}]}}',
    "a key that comes twice": f'x",{LIE},"x":"',
    "escapes": '\\",\\u0022\\\\"\\n',
    "controls": "".join(map(chr, range(1, 32))),
    "no UTF-8": "mirage \udcff\udc80\udcc3( end",
    "separators": "\x1f\n7|1001|alice\x1f\n\x1e\t",
    "beyond": "é\u2028🙂\ufeff",
    "long": "x" * 1000,
}


def who(cluster: Cluster) -> set[tuple[int, int, int | None, str]]:
    return {(job.job_id, job.submit, job.uid, job.user) for job in cluster.fetch_queue()}


def told(cluster: Cluster, job_ids: list[JobId]) -> dict[JobId, Job]:
    return {job.job_id: job for job in cluster.fetch_queue() if job.job_id in job_ids}


def test_texts_stay_texts(slurm_rig: SlurmRig, rest_host: RestHost) -> None:
    testbed, rest, commands = slurm_rig.testbed, rest_host.cluster(), SlurmCli()
    made = {
        JobId(testbed.sbatch("--hold", f"--comment={text}", f"--job-name={text}", user="bob")): text
        for text in TEXTS.values()
    }
    ids = [*made, slurm_rig.predecessor, slurm_rig.standby]
    assert who(rest) == who(commands)
    assert {job_id for job_id, *_ in who(rest)} >= set(ids)
    found = told(rest, ids)
    assert {job: (found[job].comment, found[job].name) for job in made} == {
        job: (decode_as_read(text), decode_as_read(text)) for job, text in made.items()
    }
    assert found == told(commands, ids)
    testbed.run(["scancel", *map(str, made)], user="bob")

    def recorded() -> bool:
        """slurmctld tells slurmdbd a little later."""
        records = {job.job_id: job for job in rest.fetch_job_records(ids)}
        return records.keys() == set(ids) and all(records[job].state.has_ended for job in made)

    testbed.wait_until(recorded, 120, "the records")
    users = {
        job.job_id: (job.submit, job.user) for job in rest.fetch_job_records([*ids, JobId(999_999)])
    }
    assert users == {job.job_id: (job.submit, job.user) for job in found.values()}
