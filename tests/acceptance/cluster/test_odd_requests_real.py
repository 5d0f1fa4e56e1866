"""One user's odd requests in a real queue: they cost the number of these jobs' GPUs, and no row.

Slurm keeps any text as the type of a GRES while the job is held.
"""

import pytest

from mirage.domain.job import JobId
from mirage.domain.ports import Cluster
from tests.support.cluster.slurm_rig import RestRig, SlurmRig

pytestmark = pytest.mark.slurm

ODD = ("gpu:a b:1", "gpu:9999999T", "gpu:a!b:1")
JOBS, ODD_JOBS = 34, 12


def submit_held(rig: SlurmRig, *words: str, user: str) -> JobId:
    return JobId(rig.testbed.sbatch("--hold", *words, user=user))


def read_beside(rig: SlurmRig, cluster: Cluster) -> dict[JobId, int | None]:
    """Check what is read of them; the GPUs of each job in the queue."""
    odd = [submit_held(rig, f"--gres={ODD[n % len(ODD)]}", user="bob") for n in range(ODD_JOBS)]
    each_task = submit_held(rig, "--gpus-per-task=2", "--ntasks=2", user="carol")
    each_socket = submit_held(rig, "--gpus-per-socket=2", "--sockets-per-node=2", user="carol")
    others = JOBS - ODD_JOBS - 4
    plain = [submit_held(rig, "--gres=gpu:1", user="carol") for _ in range(others)]
    queue = cluster.fetch_queue()
    assert queue.unread == frozenset()
    gpus = {job.job_id: job.gpus for job in queue}
    assert gpus.keys() >= {rig.predecessor, rig.standby, each_task, each_socket, *plain, *odd}
    assert len(queue) >= JOBS
    assert [gpus[job_id] for job_id in plain] == [1] * others
    assert (gpus[each_task], gpus[each_socket]) == (4, 4)
    assert gpus[odd[1]] is None, "9999999T is not known, and not 0"
    alone = cluster.fetch_jobs([rig.predecessor, rig.standby, JobId(999_999)])
    assert set(alone.job_id.tolist()) == {rig.predecessor, rig.standby}
    assert alone.find_job(rig.standby) == queue.find_job(rig.standby)

    def knows_all() -> bool:
        return {job.job_id for job in cluster.fetch_job_records([*odd, *plain])} == {*odd, *plain}

    rig.testbed.wait_until(knows_all, 60, "each of them in accounting")
    return gpus


def test_beside_odd_requests_the_commands_read_each_job(slurm_rig: SlurmRig) -> None:
    read_beside(slurm_rig, slurm_rig.cluster)


def test_beside_odd_requests_slurmrestd_reads_each_job(
    slurm_rig: SlurmRig, rest_rig: RestRig
) -> None:
    gpus = read_beside(slurm_rig, rest_rig.cluster)
    assert {job.job_id: job.gpus for job in slurm_rig.cluster.fetch_queue()} == gpus
